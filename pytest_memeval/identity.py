"""What an engine or a model of the project's is, so that a later run can tell whether it is still the same."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

#: Folders of a package that hold no source of its own.
_PASSED_OVER = frozenset({"__pycache__", "node_modules", ".git", ".venv"})


def identity_of(thing: object) -> str | None:
    """The thing's class and ``name`` with its ``version``, else with a hash of the source files of its package.

    A ``functools.partial`` is what it calls and is given. ``None`` where something has no version and its source cannot
    be found (made by ``exec``, or of compiled code alone).
    """
    if isinstance(thing, partial) and getattr(thing, "version", None) is None:
        parts = [identity_of(thing.func), _told([list(thing.args), thing.keywords])]
        return None if None in parts else " ".join(map(str, parts))
    owner = thing if inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    module = owner.__name__ if inspect.ismodule(owner) else getattr(owner, "__module__", "")
    label = f"{module}:{getattr(owner, '__qualname__', '')} {getattr(thing, 'name', '')}"
    version = getattr(thing, "version", None)
    if version is not None:
        return f"{label} {version}"
    digest = source_digest(str(module))
    return None if digest is None else f"{label} sha256:{digest}"


def _told(value: object) -> str | None:
    """A value as a text that is another where it is another one; of an object it is the object's own."""
    if value is None or isinstance(value, str | int | float | bool | bytes | Path):
        return repr(value)
    parts: list[object]
    if isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, Mapping):
        parts = [list(pair) for pair in value.items()]
    else:
        return identity_of(value)
    told = [_told(part) for part in parts]
    return None if None in told else f"{type(value).__name__}({', '.join(map(str, told))})"


def source_digest(module: str) -> str | None:
    """A hash over every ``.py`` file of the outermost regular package that holds ``module``; of the module's own file
    where it lies in none. ``None`` where there is no such file."""
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        found = sys.modules.get(".".join(names[:depth]))
        if found is None:
            continue
        file = getattr(found, "__file__", None)
        if file is None:
            # A namespace package may be shared with strangers: what is inside it counts.
            continue
        return _digest_of(found, Path(file))
    return None


def _digest_of(module: ModuleType, file: Path) -> str | None:
    if hasattr(module, "__path__"):
        root = file.parent
        files = sorted(path for path in root.rglob("*.py") if _PASSED_OVER.isdisjoint(path.relative_to(root).parts))
    else:
        root, files = file.parent, [file] if file.suffix == ".py" else []
    digest = hashlib.sha256()
    for path in files:
        try:
            content = path.read_bytes()
        except OSError:
            return None
        # With their lengths, so that no text can move from one file to the next unseen.
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode("utf-8", "surrogatepass"))
        digest.update(content)
    return digest.hexdigest()[:16] if files else None
