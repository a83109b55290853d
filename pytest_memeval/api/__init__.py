"""``pytest_memeval.run``: cases measured without pytest."""
