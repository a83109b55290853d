"""Cases that are measured several times."""
