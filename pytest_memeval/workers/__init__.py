"""A run under pytest-xdist: which worker runs what, and what becomes of it when one dies or is interrupted."""
