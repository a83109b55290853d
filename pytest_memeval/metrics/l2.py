"""Aggregation (L2): did each memory come to its place in the templates, and were the right ones grouped in scenes?

The section figures measure labels and templates (which dimensions a memory got, and what the sections ask for); only
the scene figures measure scene aggregation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pytest_memeval.metrics.matching import Matcher, SimilarityMatcher, fold, match_with
from pytest_memeval.metrics.sections import SectionRecord
from pytest_memeval.metrics.tallies import quotient

if TYPE_CHECKING:
    from pytest_memeval.cases.models import L2GroundTruth
    from pytest_memeval.metrics.l1 import L1Metrics
    from pytest_memeval.values import Scene, Section


@dataclass(frozen=True, slots=True)
class SectionMetrics:
    """Counts over (mode, labelled memory) units and over placements. Ratios lie in [0, 1], ``None`` without any.

    ``unreached_memories`` are the labelled memories without a live id, ``details`` each unit's fate and the wrong
    placements; both are a single case's and empty in an aggregate.
    """

    evaluated: int = 0
    hits: int = 0
    misses: int = 0
    placed: int = 0
    misentries: int = 0
    unreached_memories: frozenset[int] = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def section_hit_rate(self) -> float | None:
        """Units placed in their expected section / units."""
        return quotient(self.hits, self.evaluated)

    @property
    def section_miss_rate(self) -> float | None:
        """Units placed in no section / units. A unit that is only in a wrong section is neither hit nor miss."""
        return quotient(self.misses, self.evaluated)

    @property
    def section_misentry_rate(self) -> float | None:
        """Placements that are not an expected one of the placed memory / placements."""
        return quotient(self.misentries, self.placed)


@dataclass(frozen=True, slots=True)
class SceneMetrics:
    """Counts of grouped pairs, scene labels and scenes. Ratios are ``None`` where their denominator is 0."""

    pairs_right: int = 0
    pairs_made: int = 0
    pairs_labelled: int = 0
    labels_matched: int = 0
    scenes_made: int = 0
    scenes_labelled: int = 0
    memories_in_scenes: int = 0
    unreached_memories: frozenset[int] = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scene_grouping_f1(self) -> float | None:
        """2·right / (pairs made + pairs labelled), over pairs of reached memories in one scene."""
        return quotient(2 * self.pairs_right, self.pairs_made + self.pairs_labelled)

    @property
    def scene_grouping_precision(self) -> float | None:
        return quotient(self.pairs_right, self.pairs_made)

    @property
    def scene_grouping_recall(self) -> float | None:
        return quotient(self.pairs_right, self.pairs_labelled)

    @property
    def scene_label_recall(self) -> float | None:
        """Matched / labelled scene labels."""
        return quotient(self.labels_matched, self.scenes_labelled)

    @property
    def scene_label_precision(self) -> float | None:
        """Matched labels / scenes made."""
        return quotient(self.labels_matched, self.scenes_made)

    @property
    def scene_count_ratio(self) -> float | None:
        """Scenes made / scenes labelled; 1 is as many, no upper bound."""
        return quotient(self.scenes_made, self.scenes_labelled)

    @property
    def memories_per_scene(self) -> float | None:
        """Mean number of memories in a scene made; no upper bound."""
        return quotient(self.memories_in_scenes, self.scenes_made)


@dataclass(frozen=True, slots=True)
class L2Metrics:
    """A case's section and scene figures (``None`` where it has no such labels), or several cases' added up.

    ``profile_tp_fp_fn`` and ``profile_hits`` hold what ``profile_quality`` is made of: the dimension counts and the
    (hits, evaluated) of the cases that have section labels and L1 figures.
    """

    sections: SectionMetrics | None = None
    scenes: SceneMetrics | None = None
    unreached: int = 0
    profile_tp_fp_fn: tuple[int, int, int] = (0, 0, 0)
    profile_hits: tuple[int, int] = (0, 0)

    @property
    def profile_quality(self) -> float | None:
        """Dimension micro F1 × section hit rate, ``None`` where either is."""
        tp, fp, fn = self.profile_tp_fp_fn
        f1, hit_rate = quotient(2 * tp, 2 * tp + fp + fn), quotient(*self.profile_hits)
        return None if f1 is None or hit_rate is None else f1 * hit_rate

    def section(self) -> SectionRecord:
        """The section ``l2`` of a report.

        ``_profile_l1_f1`` and ``_profile_hit_rate`` are there where the case has both: their sums over cases give a
        set's ``profile_quality`` as the product of the two quotients.
        """
        ratios: dict[str, tuple[float, float]] = {}
        details: dict[str, Any] = {}
        counts: dict[str, float] = {"unreached": self.unreached}
        if (one := self.sections) is not None:
            ratios["section_hit_rate"] = (one.hits, one.evaluated)
            ratios["section_miss_rate"] = (one.misses, one.evaluated)
            ratios["section_misentry_rate"] = (one.misentries, one.placed)
            counts["total_evaluated"] = one.evaluated
            details["sections"] = dict(one.details)
            if self.profile_hits[1]:
                tp, fp, fn = self.profile_tp_fp_fn
                ratios["_profile_l1_f1"] = (2 * tp, 2 * tp + fp + fn)
                ratios["_profile_hit_rate"] = self.profile_hits
        if (two := self.scenes) is not None:
            ratios["scene_grouping_f1"] = (2 * two.pairs_right, two.pairs_made + two.pairs_labelled)
            ratios["scene_grouping_precision"] = (two.pairs_right, two.pairs_made)
            ratios["scene_grouping_recall"] = (two.pairs_right, two.pairs_labelled)
            ratios["scene_label_recall"] = (two.labels_matched, two.scenes_labelled)
            ratios["scene_label_precision"] = (two.labels_matched, two.scenes_made)
            ratios["scene_count_ratio"] = (two.scenes_made, two.scenes_labelled)
            ratios["memories_per_scene"] = (two.memories_in_scenes, two.scenes_made)
            details["scenes"] = dict(two.details)
        return SectionRecord(ratios=ratios, counts=counts, details=details)


def compute_sections(
    expected: Mapping[str, Mapping[int, str]],
    placements: Mapping[str, Sequence[Section]],
    live_ids: Mapping[int, str | None],
    *,
    ignored_ids: Collection[str] = (),
) -> SectionMetrics:
    """Score where the memories were placed, over the modes of ``expected`` that label at least one memory.

    ``expected`` maps mode → labelled memory index → section id, ``placements`` mode → the sections returned (a mode
    that is missing returned none), ``live_ids`` a labelled memory's index → the id its information lives on under
    (missing or ``None``: not reached, and a miss).

    A placement is one memory in one section of one mode, however often it is listed there. It is right if the section
    is the expected one, in that mode, of a labelled memory living under this id; all others are mis-entries, those of
    unlabelled and spurious memories included. Placements of ``ignored_ids`` (what the store held before) count on
    neither side, unless a labelled memory lives on in one. Several labelled memories may share an id; each is a unit of
    its own. Without labels everything is 0.
    """
    lived_in = {live_id for live_id in live_ids.values() if live_id is not None}
    ignored = frozenset(ignored_ids) - lived_in
    evaluated = hits = misses = placed = misentries = 0
    unreached: set[int] = set()
    units: list[dict[str, Any]] = []
    wrong: list[dict[str, str]] = []
    for mode, wanted in expected.items():
        if not wanted:
            continue
        found: dict[str, list[str]] = {}
        for section_id, memory_id in dict.fromkeys(
            (section.id, memory_id) for section in placements.get(mode, ()) for memory_id in section.memory_ids
        ):
            found.setdefault(memory_id, []).append(section_id)
        right_places: dict[str, set[str]] = {}
        for index, section_id in wanted.items():
            evaluated += 1
            live_id = live_ids.get(index)
            if live_id is None:
                unreached.add(index)
                sections: list[str] = []
            else:
                right_places.setdefault(live_id, set()).add(section_id)
                sections = found.get(live_id, [])
            hits += section_id in sections
            misses += not sections
            units.append({"mode": mode, "memory": index, "expected": section_id, "placed": list(sections)})
        for memory_id, sections in found.items():
            if memory_id in ignored:
                continue
            placed += len(sections)
            for section_id in sections:
                if section_id not in right_places.get(memory_id, ()):
                    misentries += 1
                    wrong.append({"mode": mode, "memory_id": memory_id, "section": section_id})
    return SectionMetrics(
        evaluated=evaluated,
        hits=hits,
        misses=misses,
        placed=placed,
        misentries=misentries,
        unreached_memories=frozenset(unreached),
        details={"units": units, "misentries": wrong},
    )


def _grouped(groups: Iterable[Iterable[str]]) -> set[tuple[str, str]]:
    """Every pair of two different ids that share a group."""
    return {pair for group in groups for pair in combinations(sorted(set(group)), 2)}


def compute_scenes(
    truth: L2GroundTruth,
    scenes: Sequence[Scene],
    live_ids: Mapping[int, str | None],
    *,
    matcher: Matcher | None = None,
    loaded_ids: Collection[str] = (),
) -> SceneMetrics:
    """Score the scenes against the labelled ones.

    *Grouping* compares pairs: two reached memories belong together if a labelled scene holds both, and are together if
    a returned scene does. All reached labelled memories take part; one that no labelled scene lists belongs with none.
    Labelled memories living under one id are one memory. Where no scene lists memories, grouping is not scored.

    *Labels* (``scene_labels`` and those of ``scenes``, each text once) are matched one to one with the titles by
    ``matcher`` (default: as memories are).

    Of the scenes in ``loaded_ids`` (there before the case) those count that were changed (``change`` is set) or hold a
    reached labelled memory; all others count. Without any label the counts stay 0.
    """
    labels = list(
        {fold(label): label for label in (*truth.scene_labels, *(scene.label for scene in truth.scenes))}.values()
    )
    reached = {index: live_id for index, live_id in live_ids.items() if live_id is not None}
    reached_ids = set(reached.values())
    made = [
        scene
        for scene in scenes
        if scene.change is not None or scene.id not in loaded_ids or not reached_ids.isdisjoint(scene.memory_ids)
    ]
    groups_labelled = any(scene.memories for scene in truth.scenes)
    wanted: set[tuple[str, str]] = set()
    given: set[tuple[str, str]] = set()
    if groups_labelled:
        wanted = _grouped([reached[index] for index in scene.memories if index in reached] for scene in truth.scenes)
        given = _grouped([one for one in scene.memory_ids if one in reached_ids] for scene in made)
    if not labels and not groups_labelled:
        return SceneMetrics()
    result = match_with(matcher or SimilarityMatcher(), [scene.title for scene in made], labels)
    listed = {index for scene in truth.scenes for index in scene.memories}
    held = {identity for scene in scenes for identity in scene.memory_ids}
    return SceneMetrics(
        pairs_right=len(wanted & given),
        pairs_made=len(given),
        pairs_labelled=len(wanted),
        labels_matched=len(result.pairs),
        scenes_made=len(made),
        scenes_labelled=len(labels),
        memories_in_scenes=sum(len(set(scene.memory_ids)) for scene in made),
        unreached_memories=frozenset(index for index in listed if index not in reached),
        details={
            "labels": [
                {"truth": labels[p.truth_index], "pred": made[p.pred_index].title, "similarity": p.similarity}
                for p in result.pairs
            ],
            "labels_missed": [labels[index] for index in result.unmatched_truth],
            "labels_extra": [made[index].title for index in result.unmatched_pred],
            "pairs_missed": [list(pair) for pair in sorted(wanted - given)],
            "pairs_extra": [list(pair) for pair in sorted(given - wanted)],
            "in_no_scene": sorted(index for index, live_id in reached.items() if live_id not in held),
        },
    )


def combine_l2(sections: SectionMetrics | None, scenes: SceneMetrics | None, l1: L1Metrics | None = None) -> L2Metrics:
    """A case's L2 figures. ``l1`` are the same case's, for ``profile_quality``; without them it is ``None``."""
    unreached: frozenset[int] = frozenset()
    for part in (sections, scenes):
        if part is not None:
            unreached |= part.unreached_memories
    profiled = sections is not None and sections.evaluated > 0 and l1 is not None
    return L2Metrics(
        sections=sections,
        scenes=scenes,
        unreached=len(unreached),
        profile_tp_fp_fn=(l1.tp, l1.fp, l1.fn) if profiled and l1 is not None else (0, 0, 0),
        profile_hits=(sections.hits, sections.evaluated) if profiled and sections is not None else (0, 0),
    )


def l2_section(
    sections: SectionMetrics | None, scenes: SceneMetrics | None, l1: L1Metrics | None = None
) -> SectionRecord:
    """The section ``l2`` of a case from its parts (see :meth:`L2Metrics.section`)."""
    return combine_l2(sections, scenes, l1).section()


def compute_l2(
    truth: L2GroundTruth,
    placements: Mapping[str, Sequence[Section]],
    scenes: Sequence[Scene],
    live_ids: Mapping[int, str | None],
    *,
    ignored_ids: Collection[str] = (),
    loaded_ids: Collection[str] = (),
    matcher: Matcher | None = None,
    l1: L1Metrics | None = None,
) -> L2Metrics:
    """Both halves for one case: :func:`compute_sections` where it labels sections, :func:`compute_scenes` where it
    labels scenes; a half without labels is ``None``."""
    sections = None
    if any(truth.template_section.values()):
        sections = compute_sections(truth.template_section, placements, live_ids, ignored_ids=ignored_ids)
    scene_metrics = None
    if truth.scene_labels or truth.scenes:
        scene_metrics = compute_scenes(truth, scenes, live_ids, matcher=matcher, loaded_ids=loaded_ids)
    return combine_l2(sections, scene_metrics, l1)


_SECTION_SUMS = ("evaluated", "hits", "misses", "placed", "misentries")
_SCENE_SUMS = (
    "pairs_right",
    "pairs_made",
    "pairs_labelled",
    "labels_matched",
    "scenes_made",
    "scenes_labelled",
    "memories_in_scenes",
)


def aggregate_l2(items: Iterable[L2Metrics]) -> L2Metrics:
    """The sums of several cases' counts. Order does not matter; nothing gives ``None`` for both halves."""
    metrics = list(items)
    sections = [one.sections for one in metrics if one.sections is not None]
    scenes = [one.scenes for one in metrics if one.scenes is not None]
    triples = [one.profile_tp_fp_fn for one in metrics]
    return L2Metrics(
        sections=SectionMetrics(**{name: sum(getattr(s, name) for s in sections) for name in _SECTION_SUMS})
        if sections
        else None,
        scenes=SceneMetrics(**{name: sum(getattr(s, name) for s in scenes) for name in _SCENE_SUMS})
        if scenes
        else None,
        unreached=sum(one.unreached for one in metrics),
        profile_tp_fp_fn=(sum(t[0] for t in triples), sum(t[1] for t in triples), sum(t[2] for t in triples)),
        profile_hits=(sum(one.profile_hits[0] for one in metrics), sum(one.profile_hits[1] for one in metrics)),
    )
