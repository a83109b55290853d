"""What a case prints, logs and warns of before its turn is kept for its own item.

Standard output, the handlers of the logging module and the filters of warnings belong to the whole process. A context
variable (:mod:`~pytest_memeval.routing.said`) says for which case the running code works; what it says is kept there
and said again when the case's item is set up.
"""
