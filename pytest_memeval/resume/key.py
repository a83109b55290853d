"""What a case's outputs depend on, as a few short hashes: equal keys, equal outputs.

One hash a part, so that what has changed can be named. How outputs are scored is not in it: that is done anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval import __version__
from pytest_memeval.case_clock import case_clock
from pytest_memeval.identity import identity_of
from pytest_memeval.llm.own import projects_own

if TYPE_CHECKING:
    from pytest_memeval.assets.prompts import PromptSet
    from pytest_memeval.assets.registry import Registry
    from pytest_memeval.assets.templates import Templates
    from pytest_memeval.cases.models import EvalCase
    from pytest_memeval.settings.model import Settings

#: The parts of a key, in its order.
PARTS: tuple[str, ...] = ("case", "labels and templates", "prompts", "engine", "model", "options", "plugin version")


#: So many combinations are kept: variants take turns, and each case may have an engine of its own.
MOST_SHARED = 64


class NoIdentity(ValueError):
    """An engine or a model of which nobody can tell whether it is still the same."""

    def __init__(self, what: str, thing: object) -> None:
        name = getattr(thing, "name", type(thing).__name__)
        super().__init__(
            f"--memeval-resume: {what} {name} has no version and its source files cannot be found, so nobody can tell"
            f" whether it is the one of the earlier run; give it an attribute version, for example version = '1'"
        )


class CaseKeys:
    """Makes the keys of one process's cases. What all cases share is hashed once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        #: By the ids of what they are of, which is kept so that no other thing gets the same id.
        self._shared: dict[tuple[int, ...], tuple[tuple[object, ...], tuple[str, ...] | NoIdentity]] = {}

    def key(
        self,
        case: EvalCase,
        *,
        engine: object,
        llm: object,
        prompts: PromptSet,
        registry: Registry,
        templates: Templates,
        corpus: str = "",
    ) -> str:
        """The case's key; ``corpus`` is the digest of what its queries are searched in. Raises :class:`NoIdentity`."""
        given = (engine, llm, prompts, registry, templates)
        ids = tuple(map(id, given))
        if ids not in self._shared:
            if len(self._shared) >= MOST_SHARED:
                self._shared.clear()
            try:
                self._shared[ids] = given, tuple(self._parts(engine, llm, prompts, registry, templates))
            except NoIdentity as error:
                self._shared[ids] = given, error
        shared = self._shared[ids][1]
        if isinstance(shared, NoIdentity):
            raise shared
        return ".".join((_short(_case_text(case) + corpus), *shared))

    def _parts(
        self, engine: object, llm: object, prompts: PromptSet, registry: Registry, templates: Templates
    ) -> Iterator[str]:
        values = self._settings.values
        yield _short(f"{registry.content_hash} {templates.content_hash}")
        yield _short(json.dumps(dict(prompts.hashes), sort_keys=True))
        yield _short(_known(engine, "engine"))
        yield _short(json.dumps(self._model(llm), sort_keys=True))
        stages = self._settings.stage_set
        chosen = "all" if stages is None else sorted(stages)
        search = [values[name] for name in ("embedder", "embedding_model", "embedding_base_url")]
        params = self._settings.search_parameters.to_dict()
        yield _short(json.dumps([values["stage_input"], chosen, values.get("trials"), search, params]))
        yield _short(__version__)

    def _model(self, llm: object) -> list[Any]:
        described = [getattr(llm, name, None) for name in ("name", "model", "endpoint")]
        llm = projects_own(llm) or llm
        own = type(llm).__module__.startswith("pytest_memeval.")
        path = getattr(llm, "path", None) if own else None
        answers = hashlib.sha256(path.read_bytes()).hexdigest() if isinstance(path, Path) else None
        identity = None if own else _known(llm, "chat model")
        return [identity, *map(str, described), answers, self._settings.values.get("max_tokens")]


def _known(thing: object, what: str) -> str:
    # What the package wraps around others' systems says by its version what it wraps.
    foreign = not type(thing).__module__.startswith("pytest_memeval.") or getattr(thing, "version", None) is not None
    identity = identity_of(thing) if foreign else None
    if identity is None:
        raise NoIdentity(what, thing)
    return identity


def _case_text(case: EvalCase) -> str:
    # A time zone of the whole file moves the messages' times, which the case's own text does not tell.
    times = " ".join(str(message.time) for message in case.conversation)
    return f"{case.content_hash} {case_clock(case).isoformat()} {times}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def changed_parts(old: str, new: str) -> tuple[str, ...]:
    """The parts in which two keys differ; all of them where one is of another form."""
    pairs = old.split("."), new.split(".")
    if any(len(parts) != len(PARTS) for parts in pairs):
        return PARTS
    return tuple(part for part, one, other in zip(PARTS, *pairs, strict=True) if one != other)
