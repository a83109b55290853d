"""What a RAG evaluation is about: samples, results, data sets, summaries. Plain frozen data, no chat model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: A number is averaged, a boolean is an assertion (its mean is the share that held), a text is a label (counted),
#: ``None`` was not measured.
Score = float | bool | str | None


@dataclass(frozen=True)
class EvalSample:
    """One question to a retrieval-augmented system and what it did.

    ``context`` holds the retrieved passages, best first. ``response`` is the system's answer, ``ground_truth`` the
    right one, ``reference_contexts`` the passages that should have been retrieved; each is ``None`` where it is not
    known. ``meta`` is the user's; ``meta["group"]`` names what samples share (a document), so that intervals are over
    such groups. ``id`` names the sample in messages.
    """

    query: str
    context: Sequence[str] = ()
    response: str | None = None
    ground_truth: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    reference_contexts: Sequence[str] | None = None
    id: str | None = None


@dataclass(frozen=True)
class EvalResult:
    """One evaluated sample.

    ``scores`` maps metric → :data:`Score`. ``feedback`` is for people; where the sample could not be evaluated it is
    the error's text and ``error`` a short stable word for its kind. ``unmeasured`` says of single metrics why they have
    no score while others do.
    """

    sample: EvalSample
    scores: Mapping[str, Score] = field(default_factory=dict)
    feedback: str | None = None
    error: str | None = None
    unmeasured: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EvalDataset:
    """Samples with a name for reports. Its length is the number of samples; iterating gives them in order."""

    samples: Sequence[EvalSample]
    name: str = "dataset"
    description: str = ""

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[EvalSample]:
        return iter(self.samples)
