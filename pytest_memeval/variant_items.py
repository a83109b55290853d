"""Variants as pytest sees them: what an item's name and fixtures have of its variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from _pytest.scope import Scope

if TYPE_CHECKING:
    from pytest_memeval.settings.model import Settings


@dataclass(frozen=True)
class VariantParams:
    """The parameters of an item of a variant, in the form that pytest reads as ``item.callspec``.

    Only fixtures in which the variants differ have one: for every parameter that changes, pytest makes the session's
    fixture, and all that ask for it, anew. The value is the variant's name.
    """

    variant: str
    params: dict[str, str]
    indices: dict[str, int]
    marks: list[Any] = field(default_factory=list)

    @property
    def _arg2scope(self) -> dict[str, Scope]:
        return dict.fromkeys(self.params, Scope.Session)

    @property
    def _idlist(self) -> Sequence[str]:
        return (self.variant,)

    @property
    def id(self) -> str:
        """What pytest writes in brackets behind the item's name."""
        return self.variant

    def getparam(self, name: str) -> object:
        if name not in self.params:
            raise ValueError(name)
        return self.params[name]

    def why_not(self, item: Any) -> str | None:
        """Why the variant cannot be run, in a sentence: the project gives all variants the same engine or model."""
        manager = item.session._fixturemanager
        for name in self.params:
            if name == "memeval_evaluators":
                continue  # a project's own are its affair
            if len(manager.getfixturedefs(name, item) or ()) > 1 and not _takes_outputs(item):
                what = "engine" if name == "memeval_engine" else "chat model"
                return (
                    f"the variants differ in the {what}, but a fixture {name} of the project gives every variant the"
                    " same; name engines as module:attribute, or leave the fixture out"
                )
        return None


def _takes_outputs(item: Any) -> bool:
    from pytest_memeval.session import settings_of

    return settings_of(item.config).predictions is not None


def params_of(settings: Settings) -> list[VariantParams | None]:
    """What each of the run's variants gives its items; ``[None]`` in a run of one set-up."""
    setups = settings.setups() if settings.variants else ()
    if not setups:
        return [None]
    outputs = settings.predictions is not None
    engines = {setup.engine for setup in setups}
    models = {(setup.llm_name, setup.model) for setup in setups}
    differing = [
        *(("memeval_engine",) if outputs or len(engines) > 1 else ()),
        *(("memeval_llm",) if outputs or len(models) > 1 else ()),
        # They may ask the chat model, and pytest does not see that.
        *(("memeval_evaluators",) if len(models) > 1 else ()),
    ]
    return [
        VariantParams(variant.name, dict.fromkeys(differing, variant.name), dict.fromkeys(differing, place))
        for place, variant in enumerate(settings.variants)
    ]


def with_params(keywords: dict[str, Any], params: VariantParams | None) -> tuple[dict[str, Any], str | None]:
    """The arguments of an item's constructor with those of its variant, and the variant's name."""
    if params is None:
        return keywords, None
    name = keywords["name"]
    return {**keywords, "name": f"{name}[{params.variant}]", "originalname": name, "callspec": params}, params.variant
