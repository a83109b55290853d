"""Which kinds there are besides distillation, and which file is of which of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path

from pytest_memeval.documents.braces import keys_in_braces
from pytest_memeval.kinds.protocol import Kind

#: Kind → where its :class:`Kind` object is.
KINDS: Mapping[str, str] = {"qa": "pytest_memeval.qa.kind:KIND", "rag": "pytest_memeval.rag.kind:KIND"}
#: Bytes of a file that tell its kind, where no line of it says ``kind:``.
HEAD = 64 * 1024
#: Sections of a distillation set.
DISTILL_SECTIONS: tuple[str, ...] = ("l1", "l15", "l2", "inject", "search")

_DECLARED = re.compile(rb"(?:^|[\r\n])[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?(\w+)[\"']?[ \t]*(?:#[^\r\n]*)?(?:[\r\n]|$)")


def kind_named(name: str) -> Kind:
    """The kind under its name. KeyError for one that there is not."""
    module, _, attribute = KINDS[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), attribute)
    return kind


def kind_of(path: Path) -> Kind | None:
    """The kind of a case file; ``None`` for a distillation set, and for what nobody recognises. Never raises."""
    if not KINDS:
        return None
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD).removeprefix(b"\xef\xbb\xbf")
            suffix = path.suffix.lower()
            pairs = keys_in_braces(head) and keys_in_braces(head + stream.read()) if suffix != ".jsonl" else None
            if pairs is not None:
                written = dict(pairs)
                name = written.get("kind", "")
                if name or (suffix != ".json" and "dataset" not in written):
                    return kind_named(name) if name in KINDS else None
            elif suffix not in (".json", ".jsonl"):
                found = _DECLARED.search(head) or _DECLARED.search(head + stream.read())
                if found is not None:
                    name = found[1].decode()
                    return kind_named(name) if name in KINDS else None
                if re.search(rb"(?:^|[\r\n])[\"']?dataset[\"']?[ \t]*:", head) is None:
                    return None
    except (OSError, ValueError):
        return None
    for name in KINDS:
        kind = kind_named(name)
        if kind.recognizes(path, head):
            return kind
    return None


def sections_of(kind: str) -> tuple[str, ...]:
    """The report sections that a set of this kind can have figures in, besides ``metrics``."""
    return kind_named(kind).sections if kind in KINDS else DISTILL_SECTIONS
