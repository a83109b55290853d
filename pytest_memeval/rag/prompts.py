"""The prompts of the model-based evaluators: numbered, frozen texts with placeholders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "rag"
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
#: Prompt → the placeholders that its text has.
PLACEHOLDERS: Mapping[str, frozenset[str]] = {
    "faithfulness": frozenset({"question", "context", "prediction"}),
    "answer_relevancy": frozenset({"question", "prediction"}),
    "context_precision": frozenset({"question", "context", "truth"}),
    "context_recall": frozenset({"question", "context", "truth"}),
}


@dataclass(frozen=True)
class RagPrompt:
    """One text. ``version`` is ``vNNN``, or ``own-<first 8 of its hash>`` for a text of the user's."""

    name: str
    version: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()

    def render(self, **values: str) -> str:
        """The text with its placeholders filled in; braces inside a value reach the model as they are written."""
        return _PLACEHOLDER.sub(lambda match: values[match[1]], self.text)


def versions_of(name: str) -> tuple[str, ...]:
    """The shipped versions of a prompt, oldest first."""
    return tuple(sorted(path.name.split(".")[1] for path in FOLDER.glob(f"{name}.v*.txt")))


@lru_cache(maxsize=32)
def load_prompt(name: str, version: str | None = None) -> RagPrompt:
    """The prompt of a metric; without a version its newest. ValueError, with those there are, for an unknown one."""
    from pytest_memeval.documents.problems import did_you_mean

    known = versions_of(name)
    wanted = version or (known[-1] if known else "")
    if wanted not in known:
        raise ValueError(f"{name} has no prompt version {wanted!r}{did_you_mean(wanted, known)}")
    text = (FOLDER / f"{name}.{wanted}.txt").read_text(encoding="utf-8")
    return RagPrompt(name, wanted, text)


def own_prompt(name: str, text: str) -> RagPrompt:
    """A text of the user's in the place of a shipped one. ValueError for a placeholder too many or too few."""
    found = set(_PLACEHOLDER.findall(text))
    for placeholder in sorted(found ^ PLACEHOLDERS[name]):
        what = "has no" if placeholder in found else "lacks"
        raise ValueError(f"the prompt for {name} {what} placeholder {{{{{placeholder}}}}}")
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return RagPrompt(name, f"own-{digest[:8]}", text)


def prompt_of(evaluator: object) -> RagPrompt | None:
    """The evaluator's prompt, where it is one of these; what a project's own keeps under the name is its own."""
    prompt = getattr(evaluator, "prompt", None)
    return prompt if isinstance(prompt, RagPrompt) else None


def numbered(passages: list[str]) -> str:
    """The passages for a prompt, each under its number from 1."""
    return "\n\n".join(f"[{number}]\n{passage}" for number, passage in enumerate(passages, 1))
