"""What search says when it cannot be used as asked."""

from __future__ import annotations


class SearchError(ValueError):
    """A parameter out of its range, a missing package, vectors that do not fit: one sentence that says what to do."""
