"""Vector search: cosine similarity by sqlite-vec, by an exact numpy scan where that cannot be loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from pytest_memeval.search.errors import SearchError

if TYPE_CHECKING:
    import numpy as np

#: Similarities are compared to this many decimals, so that equal vectors tie however they were computed.
DECIMALS = 6


#: Why the numpy scan is used.
WHY: Mapping[str, str] = {
    "asked_for": "it was asked for",
    "no_package": "the package sqlite-vec is not installed (extra search)",
    "no_extensions": "this Python's sqlite3 cannot load extensions, and apsw is not installed (extra search)",
    "not_loaded": "sqlite-vec could not be loaded",
}


class _Scan(Protocol):
    def nearest(self, vector: np.ndarray, limit: int) -> list[tuple[int, float]]: ...
    def close(self) -> None: ...


class VectorIndex:
    """Vectors by id. ``backend`` says what searches (``sqlite-vec over sqlite3``, ``sqlite-vec over apsw``, ``numpy``),
    ``fallback`` why it is not sqlite-vec (a key of :data:`WHY`), ``None`` where it is. Both give the same ranking.

    Vectors of zeros are never found. Raises :class:`SearchError` for an id given twice, vectors of different dimensions
    and values that are not finite. ``backend="numpy"`` asks for the scan.
    """

    def __init__(
        self, ids: Sequence[str], vectors: Sequence[Sequence[float]] | np.ndarray, *, backend: str | None = None
    ) -> None:
        import numpy as np

        if len(ids) != len(vectors):
            raise SearchError(f"{len(ids)} ids but {len(vectors)} vectors")
        if len(set(ids)) != len(ids):
            twice = next(one for index, one in enumerate(ids) if one in ids[:index])
            raise SearchError(f"document id {twice!r} is given twice")
        lengths = {len(vector) for vector in vectors}
        if len(lengths) > 1:
            raise SearchError(f"vectors of different dimensions: {', '.join(map(str, sorted(lengths)))}")
        self.dimension = lengths.pop() if lengths else 0
        rows = np.asarray(vectors, dtype=np.float32).reshape(len(ids), self.dimension)
        if not np.isfinite(rows).all():
            raise SearchError("a vector holds a value that is not finite")
        order = [row for row in sorted(range(len(ids)), key=ids.__getitem__) if rows[row].any()]
        self._ids = [ids[row] for row in order]
        self._lock = Lock()
        self._scan, self.backend, self.fallback = _open_scan(_unit(rows[order]), backend)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def why(self) -> str | None:
        """The fallback as part of a sentence, ``None`` without one."""
        return None if self.fallback is None else WHY[self.fallback]

    def search(
        self, vector: Sequence[float] | np.ndarray, top_k: int | None = None, *, min_similarity: float = -math.inf
    ) -> list[tuple[str, float]]:
        """``(id, cosine)`` of the nearest, best first, ties by id; those above ``min_similarity`` only.

        ``[]`` for a vector of zeros and from an empty index. Raises :class:`SearchError` for another dimension than the
        index has.
        """
        import numpy as np

        asked = np.asarray(vector, dtype=np.float32)
        if not self._ids:
            return []
        if asked.shape != (self.dimension,):
            raise SearchError(f"the query has {asked.size} dimensions, the corpus {self.dimension}")
        if not np.isfinite(asked).all():
            raise SearchError("the query's vector holds a value that is not finite")
        if not asked.any():
            return []
        limit = len(self._ids) if top_k is None else min(top_k, len(self._ids))
        with self._lock:
            found = self._scan.nearest(_unit(asked[np.newaxis])[0], limit)
        return [(self._ids[row], similarity) for row, similarity in found if similarity > min_similarity]

    def close(self) -> None:
        with self._lock:
            self._scan.close()


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1; scaled first, so that no square overflows."""
    import numpy as np

    if not rows.size:
        return rows
    wide = rows.astype(np.float64)
    wide /= np.abs(wide).max(axis=1, keepdims=True)
    unit: np.ndarray = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
    return unit


class _NumpyScan:
    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def nearest(self, vector: np.ndarray, limit: int) -> list[tuple[int, float]]:
        import numpy as np

        similarity = np.round(self._rows.astype(np.float64) @ vector.astype(np.float64), DECIMALS)
        order = np.argsort(-similarity, kind="stable")[:limit]
        return [(int(row), float(similarity[row])) for row in order]

    def close(self) -> None:
        pass


class _SqliteScan:
    """One table of vectors in memory; ``connection`` has sqlite-vec loaded."""

    def __init__(self, connection: Any, rows: np.ndarray) -> None:
        self._connection = connection
        connection.execute("CREATE TABLE vectors (number INTEGER PRIMARY KEY, vector BLOB NOT NULL)")
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO vectors VALUES (?, ?)", ((at, row.tobytes()) for at, row in enumerate(rows))
        )
        connection.execute("COMMIT")

    def nearest(self, vector: np.ndarray, limit: int) -> list[tuple[int, float]]:
        sql = (
            f"SELECT number, round(1 - vec_distance_cosine(vector, ?), {DECIMALS}) AS similarity FROM vectors"
            " ORDER BY similarity DESC, number LIMIT ?"
        )
        return [(row[0], row[1]) for row in self._connection.execute(sql, (vector.tobytes(), limit))]

    def close(self) -> None:
        self._connection.close()


def _open_scan(rows: np.ndarray, backend: str | None) -> tuple[_Scan, str, str | None]:
    if backend == "numpy":
        return _NumpyScan(rows), "numpy", "asked_for"
    try:
        connection, driver = _connect()
    except _NoExtension as error:
        return _NumpyScan(rows), "numpy", str(error)
    return _SqliteScan(connection, rows), f"sqlite-vec over {driver}", None


class _NoExtension(Exception):
    pass


def _connect() -> tuple[Any, str]:
    """A database in memory with sqlite-vec, by Python's own driver or, where that loads no extensions, by apsw."""
    try:
        import sqlite_vec
    except ImportError:
        raise _NoExtension("no_package") from None
    path = sqlite_vec.loadable_path()
    import sqlite3

    plain = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        plain.enable_load_extension(True)
        plain.load_extension(path)
        plain.enable_load_extension(False)
    except (AttributeError, sqlite3.Error):
        plain.close()
    else:
        return plain, "sqlite3"
    try:
        import apsw
    except ImportError:
        raise _NoExtension("no_extensions") from None
    other = apsw.Connection(":memory:")
    try:
        other.enable_load_extension(True)
        other.load_extension(path)
        other.enable_load_extension(False)
    except apsw.Error:
        other.close()
        raise _NoExtension("not_loaded") from None
    return other, "apsw"
