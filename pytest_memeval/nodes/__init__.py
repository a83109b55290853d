"""An item and its case: found, run and kept, for fixtures and hooks."""
