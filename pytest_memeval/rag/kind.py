"""Kind ``rag``: samples of retrieval-augmented generation as test items. Cheap to import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_memeval.kinds import Kind, KindRun, KindSet

if TYPE_CHECKING:
    from pytest_memeval.harness import Harness
    from pytest_memeval.rag.run import RagSetup


class RagKind(Kind):
    name, stage, sections = "rag", "rag", ("rag",)
    fixtures = ("memeval_evaluators", "memeval_rag_pipeline")
    planned = True
    main_figures = tuple(
        (f"rag.{metric}", metric.replace("_", " "))
        for metric in ("faithfulness", "answer_relevancy", "context_recall", "context_precision", "answer_f1")
    )

    def __init__(self) -> None:
        #: Harness → fixture values → their setup.
        self._setups: WeakKeyDictionary[Harness, list[tuple[Any, Any, RagSetup]]] = WeakKeyDictionary()

    def recognizes(self, path: Path, head: bytes) -> bool:
        if path.suffix.lower() not in (".json", ".jsonl"):
            return False
        from pytest_memeval.rag.loading import recognizes

        return recognizes(path, head)

    def load(self, path: Path, harness: Harness | None) -> KindSet:
        from pytest_memeval.rag.loading import load_rag_set

        return load_rag_set(path, cache_dir=None if harness is None else harness.settings.cache_folder)

    def can_overlap(self, values: Mapping[str, Any]) -> bool:
        from pytest_memeval.rag.pipeline import can_overlap

        pipeline = values["memeval_rag_pipeline"]
        return pipeline is None or can_overlap(pipeline)

    def make_run(
        self, case: Any, case_set: KindSet, values: Mapping[str, Any], harness: Harness, label: str
    ) -> KindRun:
        from pytest_memeval.rag.run import RagRun

        set_path = label.partition(f"::{case.case_id}")[0]
        return RagRun(
            case,
            self._setup(values, harness),
            set_path,
            loop=harness.loop,
            label=label,
            timeout=harness.settings.timeout,
        )

    def _setup(self, values: Mapping[str, Any], harness: Harness) -> RagSetup:
        """One setup for all items with these fixtures, so that they share the places in each evaluator."""
        from pytest_memeval.rag.contexts import SavedContexts
        from pytest_memeval.rag.run import RagSetup

        evaluators, pipeline = values["memeval_evaluators"], values["memeval_rag_pipeline"]
        known = self._setups.setdefault(harness, [])
        for its_evaluators, its_pipeline, setup in known:
            if its_evaluators is evaluators and its_pipeline is pipeline:
                return setup
        path = harness.settings.contexts
        made = RagSetup(
            list(evaluators),
            pipeline,
            SavedContexts(path) if path is not None else None,
            plan=harness.plan,
            max_tokens=harness.settings.max_tokens,
            trials=harness.settings.trials,
        )
        known.append((evaluators, pipeline, made))
        return made


KIND = RagKind()
