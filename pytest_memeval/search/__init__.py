"""Retrieval over memories: two routes (words, vectors) and their fusion. Knows nothing of cases and of pytest."""
