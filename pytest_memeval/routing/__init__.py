"""What a case prints and logs before its turn is kept for its own item.

Standard output, its streams and the handlers of the logging module belong to the whole process. A context variable
(:mod:`~pytest_memeval.routing.said`) says for which case the running code works; what it writes is kept there and said
again when the case's item is set up.
"""
