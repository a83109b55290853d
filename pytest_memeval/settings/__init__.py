"""A run's settings: read, checked, and what they make of the run."""
