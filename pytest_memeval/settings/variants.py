"""Variants: several set-ups (prompt versions, engines, models) that one run measures over the same cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_memeval.documents.problems import did_you_mean

#: What a variant can set, as ``--memeval-variant NAME=key:value,key:value`` writes it.
KEYS: tuple[str, ...] = ("engine", "prompts", "llm", "model")
#: A variant's name is part of node ids and names a folder.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,63}")
_KEY = re.compile(r"\s*([A-Za-z_-]+)\s*:(.*)", re.DOTALL)


class VariantError(ValueError):
    """A variant that cannot be run; the text says why, without the option's name."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One set-up. What is ``None`` is as the run's other options have it."""

    name: str
    engine: str | None = None
    prompts: str | None = None
    model: str | None = None
    llm: str | None = None


def prompt_variant(spec: str) -> Variant:
    """The variant of a prompt version: ``v002`` by its own name, ``l1=v002,l2=@working`` as ``l1=v002+l2=working``."""
    name = "+".join(filter(None, (part.replace("@", "").replace(" ", "") for part in spec.split(","))))
    return Variant(_checked_name(name), prompts=spec)


def parse_variant(text: str) -> Variant:
    """Read ``NAME=key:value,key:value``; ``NAME=`` is the run's own set-up. Raises VariantError.

    The keys are :data:`KEYS`. A comma ends a value, unless what follows has no key: ``prompts:l1=v002,l2=v001``.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise VariantError(f"{text!r} is not of the form NAME=key:value, with keys {', '.join(KEYS)}")
    found: dict[str, str] = {}
    last = ""
    for part in filter(str.strip, rest.split(",")):
        match = _KEY.fullmatch(part)
        if match is None:
            if last != "prompts" or "=" not in part:
                raise VariantError(f"{part.strip()!r} in {text!r} has no key: write one of {', '.join(KEYS)} before it")
            found[last] += f",{part.strip()}"
            continue
        last, value = match[1].lower(), match[2].strip()
        if last not in KEYS:
            raise VariantError(f"unknown key {last!r} in {text!r}{did_you_mean(last, KEYS)}")
        if last in found:
            raise VariantError(f"key {last!r} is twice in {text!r}")
        if not value:
            raise VariantError(f"key {last!r} in {text!r} has no value")
        found[last] = value
    return Variant(_checked_name(name.strip()), **found)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise VariantError(
            f"{name!r} is no name of a variant: it names a folder and may hold letters, digits, _, -, +, = and dots"
        )
    return name


def check_variants(variants: Sequence[Variant]) -> None:
    """Raise VariantError unless there are at least two, no two of one name or of one set-up."""
    if len(variants) == 1:
        raise VariantError(
            f"{variants[0].name!r} is the only variant: there is nothing to compare it with; for the run's own set-up"
            " add NAME= before it"
        )
    names: dict[str, str] = {}
    setups: dict[tuple[str | None, ...], str] = {}
    for variant in variants:
        # Folders that differ in case alone are one on many machines.
        folder, setup = variant.name.lower(), (variant.engine, variant.prompts, variant.llm, variant.model)
        if folder in names:
            raise VariantError(f"two variants have the name {names[folder]!r}")
        if setup in setups:
            raise VariantError(f"variants {setups[setup]!r} and {variant.name!r} are the same set-up")
        names[folder] = setups[setup] = variant.name


def suffix_of(variant: str | None) -> str:
    """What a variant adds to the node ids of its items."""
    return f"[{variant}]" if variant is not None else ""


def is_case_of(set_path: str, node_id: str) -> bool:
    """Whether a node id is that of a case item of the set, and not of a test in Python that counts for it."""
    return PurePosixPath(set_path).suffix != ".py" and node_id.startswith(f"{set_path}::")


def variant_in(node_id: str, set_path: str, names: Sequence[str]) -> str | None:
    """The variant of an item by its node id. A test in Python is run once, with the last variant's set-up."""
    if not names:
        return None
    if is_case_of(set_path, node_id):
        fitting = [name for name in names if node_id.endswith(suffix_of(name))]
        if fitting:
            return max(fitting, key=len)
    return names[-1]


def without_variant(node_id: str, names: Iterable[str]) -> str:
    """A case item's node id as it would be in a run without variants."""
    fitting = [name for name in names if node_id.endswith(suffix_of(name))]
    return node_id.removesuffix(suffix_of(max(fitting, key=len))) if fitting else node_id
