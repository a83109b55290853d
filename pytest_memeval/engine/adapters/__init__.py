"""Other systems as engines."""
