"""Public names of a package that are imported from their modules when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], public: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    ``homes``: module inside the package → the names that it defines, with spaces between. ``public`` is the package's
    ``__all__``. A name that none of the modules has is an AttributeError, as of any module.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home}"), name)

    def names() -> list[str]:
        return sorted(public)

    return get, names
