"""Conflict resolution (L1.5): was each new memory stored, merged, skipped or used to update the right one?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_memeval.metrics.matching import DEFAULT_THRESHOLD, Matcher, SimilarityMatcher
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.tallies import add_tables, quotient
from pytest_memeval.values import ACTIONS

if TYPE_CHECKING:
    from pytest_memeval.cases.models import GtConflictAction
    from pytest_memeval.values import Decision

#: Stands for the action where nothing was decided.
NO_DECISION = "none"


@dataclass(frozen=True, slots=True)
class JudgedAction:
    """A labelled action with what was decided. ``decided`` is ``none`` without a decision; ``merged_content_right`` is
    ``None`` where it is not scored."""

    memory: int
    reached: bool
    expected: str
    decided: str
    expected_targets: tuple[str, ...]
    targets: tuple[str, ...]
    action_right: bool
    decision_right: bool
    merged_content_right: bool | None

    def to_json(self) -> dict[str, Any]:
        return {
            "memory": self.memory,
            "reached": self.reached,
            "expected": self.expected,
            "decided": self.decided,
            "expected_targets": list(self.expected_targets),
            "targets": list(self.targets),
            "action_right": self.action_right,
            "decision_right": self.decision_right,
            "merged_content_right": self.merged_content_right,
        }


@dataclass(frozen=True, slots=True)
class L15Metrics:
    """Counts of one case, or of several added up. Ratios lie in [0, 1], ``None`` where their denominator is 0.

    ``per_action`` maps an action → (labelled, decided, right), over the labelled actions' memories. ``judged`` is a
    single case's and empty in an aggregate.
    """

    labelled: int = 0
    reached: int = 0
    actions_right: int = 0
    decisions_right: int = 0
    merged_labelled: int = 0
    merged_right: int = 0
    bad_decisions: int = 0
    per_action: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    confusions: Mapping[str, int] = field(default_factory=dict)
    judged: tuple[JudgedAction, ...] = ()

    @property
    def unreached(self) -> int:
        """Labelled actions whose memory extraction did not find."""
        return self.labelled - self.reached

    @property
    def action_accuracy(self) -> float | None:
        """Right actions / labelled actions; an unreached memory is wrong."""
        return quotient(self.actions_right, self.labelled)

    @property
    def decision_accuracy(self) -> float | None:
        """Right action and target set / labelled actions."""
        return quotient(self.decisions_right, self.labelled)

    @property
    def action_accuracy_reached(self) -> float | None:
        return quotient(self.actions_right, self.reached)

    @property
    def decision_accuracy_reached(self) -> float | None:
        return quotient(self.decisions_right, self.reached)

    @property
    def action_precision(self) -> dict[str, float | None]:
        """Per action: right / decided."""
        return {name: quotient(right, decided) for name, (_, decided, right) in self.per_action.items()}

    @property
    def action_recall(self) -> dict[str, float | None]:
        """Per action: right / labelled."""
        return {name: quotient(right, labelled) for name, (labelled, _, right) in self.per_action.items()}

    @property
    def merged_content_match(self) -> float | None:
        """Of rightly chosen actions with labelled merged content, the share whose content matches it."""
        return quotient(self.merged_right, self.merged_labelled)

    def section(self) -> SectionRecord:
        """The section ``l15`` of a report; keys of ``per_action_counts`` are ``<action>.labelled|decided|right``."""
        ratios: dict[str, tuple[float, float]] = {
            "action_accuracy": (self.actions_right, self.labelled),
            "decision_accuracy": (self.decisions_right, self.labelled),
            "action_accuracy_reached": (self.actions_right, self.reached),
            "decision_accuracy_reached": (self.decisions_right, self.reached),
        }
        counts_table: dict[str, float] = {}
        for name, (labelled, decided, right) in self.per_action.items():
            ratios[f"action_precision.{name}"] = (right, decided)
            ratios[f"action_recall.{name}"] = (right, labelled)
            counts_table[f"{name}.labelled"] = labelled
            counts_table[f"{name}.decided"] = decided
            counts_table[f"{name}.right"] = right
        ratios["merged_content_match"] = (self.merged_right, self.merged_labelled)
        return SectionRecord(
            ratios=ratios,
            counts={"bad_decisions": self.bad_decisions, "unreached": self.unreached},
            tables={"per_action_counts": counts_table, "confusions": dict(self.confusions)},
            details={"actions": [action.to_json() for action in self.judged]},
        )


def _targets(action: str, ids: Iterable[str]) -> tuple[str, ...]:
    return () if action == "store" else tuple(sorted(set(ids)))


def decisions_that_count(
    decisions: Iterable[Decision], *, valid_target_ids: Collection[str] | None = None, memory_count: int | None = None
) -> tuple[dict[int, Decision], int]:
    """Memory index → the decision that counts, the first that can be carried out; and how many others there are.

    A decision cannot be carried out with an unknown action, a negative memory index or one from ``memory_count`` on,
    or (other than ``store``) with a target outside ``valid_target_ids``; ``None`` leaves a check out.
    """
    chosen: dict[int, Decision] = {}
    bad = 0
    for decision in decisions:
        index = decision.memory_index
        unusable = (
            decision.action not in ACTIONS
            or index < 0
            or (memory_count is not None and index >= memory_count)
            or (
                valid_target_ids is not None
                and any(target not in valid_target_ids for target in _targets(decision.action, decision.target_ids))
            )
        )
        if unusable or index in chosen:
            bad += 1
        else:
            chosen[index] = decision
    return chosen, bad


def compute_l15(
    actions: Sequence[GtConflictAction],
    decisions: Sequence[Decision],
    *,
    reached: Mapping[int, int],
    bad_decisions: int = 0,
    valid_target_ids: Collection[str] | None = None,
    memory_count: int | None = None,
    matcher: Matcher | None = None,
    threshold: float = DEFAULT_THRESHOLD,
) -> L15Metrics:
    """Score the decisions of one case against its labelled actions.

    ``reached`` maps a labelled memory's index to the index, in the list that ``resolve`` was given, of the memory it
    was matched with; an index that is missing was not extracted. A labelled action without a usable decision, reached
    or not, is wrong. Target sets are compared as sets; ``store`` has none.

    Bad decisions are those the engine reported (``bad_decisions``) and, among ``decisions``: an unknown action, a
    memory index that does not exist (from ``memory_count`` on, where given), a target outside ``valid_target_ids``
    (where given), and every further decision for a memory that has one. They are counted and change nothing else.

    Merged content is compared where it is labelled and the action was right, by ``matcher`` (default: indel similarity
    of at least ``threshold``). Without labelled actions all ratios are ``None``. Raises ValueError for a negative
    count.
    """
    if bad_decisions < 0:
        raise ValueError(f"bad_decisions cannot be negative: {bad_decisions}")
    matcher = matcher or SimilarityMatcher(threshold=threshold)
    chosen, bad = decisions_that_count(decisions, valid_target_ids=valid_target_ids, memory_count=memory_count)
    judged = []
    for action in actions:
        index = reached.get(action.new_memory_index)
        decision = None if index is None else chosen.get(index)
        decided = NO_DECISION if decision is None else decision.action
        wanted_targets = _targets(action.action, action.candidate_ids)
        given_targets = () if decision is None else _targets(decision.action, decision.target_ids)
        action_right = decision is not None and decided == action.action
        merged_right: bool | None = None
        if action_right and decision is not None and action.merged_content is not None:
            given = decision.merged_content
            merged_right = given is not None and bool(matcher.match([given], [action.merged_content]))
        judged.append(
            JudgedAction(
                memory=action.new_memory_index,
                reached=index is not None,
                expected=action.action,
                decided=decided,
                expected_targets=wanted_targets,
                targets=given_targets,
                action_right=action_right,
                decision_right=action_right and wanted_targets == given_targets,
                merged_content_right=merged_right,
            )
        )
    return _tally(judged, bad_decisions + bad)


def _tally(judged: Sequence[JudgedAction], bad_decisions: int) -> L15Metrics:
    counts: dict[str, list[int]] = {}
    confusions: dict[str, int] = {}
    for one in judged:
        counts.setdefault(one.expected, [0, 0, 0])[0] += 1
        if one.decided != NO_DECISION:
            counts.setdefault(one.decided, [0, 0, 0])[1] += 1
        if one.action_right:
            counts[one.expected][2] += 1
        else:
            key = f"{one.expected}→{one.decided}"
            confusions[key] = confusions.get(key, 0) + 1
    return L15Metrics(
        labelled=len(judged),
        reached=sum(one.reached for one in judged),
        actions_right=sum(one.action_right for one in judged),
        decisions_right=sum(one.decision_right for one in judged),
        merged_labelled=sum(one.merged_content_right is not None for one in judged),
        merged_right=sum(one.merged_content_right is True for one in judged),
        bad_decisions=bad_decisions,
        per_action={name: (row[0], row[1], row[2]) for name, row in sorted(counts.items())},
        confusions=dict(sorted(confusions.items())),
        judged=tuple(judged),
    )


_ADDED = ("labelled", "reached", "actions_right", "decisions_right", "merged_labelled", "merged_right", "bad_decisions")


def aggregate_l15(items: Iterable[L15Metrics]) -> L15Metrics:
    """The sums of several cases' counts. Order does not matter; nothing gives all zeros."""
    metrics = list(items)
    per_action: dict[str, tuple[int, int, int]] = {}
    for one in metrics:
        for name, (labelled, decided, right) in one.per_action.items():
            before = per_action.get(name, (0, 0, 0))
            per_action[name] = (before[0] + labelled, before[1] + decided, before[2] + right)
    return L15Metrics(
        per_action=dict(sorted(per_action.items())),
        confusions=add_tables(one.confusions for one in metrics),
        **{name: sum(getattr(one, name) for one in metrics) for name in _ADDED},
    )
