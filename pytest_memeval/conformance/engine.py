"""Whether an engine keeps to the protocol, found out on tiny cases: a verdict an item, in plain words."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_memeval.cases.models import EvalCase
from pytest_memeval.conformance.cases import (
    FailingModel,
    empty_case,
    odd_case,
    shape_of,
    strangers_in,
    the_two,
)
from pytest_memeval.conformance.finding import Finding
from pytest_memeval.conformance.outputs import problems, remarks, told
from pytest_memeval.engine.misspelt import meant_to_be
from pytest_memeval.engine.protocol import STAGE_METHODS, can_overlap, protocol_problem, supported_stages
from pytest_memeval.engine_faults import unreadable
from pytest_memeval.harness import Harness
from pytest_memeval.live_memories import labelled_memories
from pytest_memeval.llm.protocol import ChatModel
from pytest_memeval.loops import LoopBlocked
from pytest_memeval.outputs import Outputs
from pytest_memeval.qa.readers import can_answer
from pytest_memeval.results import CaseError
from pytest_memeval.runner import CaseRun
from pytest_memeval.stages import why_no_stage
from pytest_memeval.values import DISTILL_STAGES

#: Seconds that one tiny case may take.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What a case left behind."""

    outputs: Outputs
    errors: tuple[CaseError, ...]
    #: Stage → why it was not run, of those that the engine supports.
    left_out: Mapping[str, str]

    def error_of(self, stage: str) -> CaseError | None:
        return next((error for error in self.errors if error.stage == stage), None)


class Check:
    """Checks one engine. ``make`` gives the engine; ``fresh`` says that it gives a new one each time, so that state
    kept in the object can be told from chance."""

    def __init__(
        self, make: Callable[[], object], harness: Harness, llm: ChatModel, *, fresh: bool, patience: float = PATIENCE
    ) -> None:
        self._make, self._harness, self._llm, self._fresh, self._patience = make, harness, llm, fresh, patience
        self._folders: list[Path] = []
        self._chained = True
        #: Whether something in the engine never came back: what comes after waits for it, too.
        self._hangs = False
        mode, template = next(iter(harness.templates.modes.items()))
        self.alma, self.bruno = the_two(mode, template.sections[0].id)

    def findings(self) -> Iterator[Finding]:
        """The verdicts, as they are found."""
        engine = self._make()
        fault = unreadable(engine)
        if fault is not None:
            yield Finding("engine", "failed", fault)
            return
        yield from self._identity(engine)
        problem = protocol_problem(engine)
        if problem is not None:
            yield Finding("protocol", "failed", problem)
            return
        stages = supported_stages(engine)
        # What extracts nothing is measured with --memeval-stage-input truth.
        self._chained = "l1" in stages
        if not callable(getattr(engine, "load", None)):  # then conflict resolution is measured on an empty store alone
            self.alma, self.bruno = (replace(case, existing_memories=()) for case in (self.alma, self.bruno))
        if not stages and not can_answer(engine):
            yield Finding("stages", "failed", why_no_stage(engine))
            return
        named = [*stages, *(["qa"] if can_answer(engine) else [])]
        missing = [stage for stage in (*DISTILL_STAGES, "qa") if stage not in named]
        text = f"supports {', '.join(named)}" + (f"; not {', '.join(missing)}" if missing else "")
        slips = [
            (name, method) for method in (*STAGE_METHODS.values(), "load") if (name := meant_to_be(engine, method))
        ]
        for name, method in slips:
            text += f"; it has {name!r}; did you mean {method!r}?"
        yield Finding("stages", "failed" if slips else "ok", text)
        yield from self._loading(engine, stages)
        if stages:
            yield from self._distillation(engine, stages)
        if can_answer(engine):
            from pytest_memeval.conformance.qa import question_findings

            yield from question_findings(self._make, self._harness, self._llm, self._patience)

    # -- without running anything ----------------------------------------------------------------------------------

    def _identity(self, engine: object) -> Iterator[Finding]:
        name = getattr(engine, "name", None)
        if not isinstance(name, str) or not name.strip():
            yield Finding("name", "failed", "the engine has no attribute name, a text: reports could not tell it apart")
        elif (version := getattr(engine, "version", None)) is None:
            yield Finding("name", "warning", f"{name} has no version: a report cannot say which one was measured")
        else:
            yield Finding("name", "ok", f"{name} {version}")

    def _loading(self, engine: object, stages: tuple[str, ...]) -> Iterator[Finding]:
        reading = [stage for stage in stages if stage != "l1"]
        if reading and not callable(getattr(engine, "load", None)):
            yield Finding(
                "load",
                "warning",
                f"no method load: cases with existing memories cannot be measured, of {', '.join(reading)}",
            )

    # -- the pipeline ----------------------------------------------------------------------------------------------

    def _distillation(self, engine: object, stages: tuple[str, ...]) -> Iterator[Finding]:
        first = self._run(engine, self.alma)
        sound, left_out = [], []
        for stage in stages:
            finding = self._stage(stage, first)
            sound += [stage] if finding.status in ("ok", "warning") else []
            left_out += [finding.text] if finding.status == "not checked" else []
            yield finding
        if len(left_out) == len(stages) and not can_answer(engine):
            yield Finding("outputs", "failed", f"nothing of it can be measured: {left_out[0]}")
        if not sound:
            for item in ("isolation", "reset", "determinism", "concurrency"):
                yield Finding(item, "not checked", "no stage gave an output")
        else:
            yield from self._repeated(engine, first, sound)
        if self._hangs:
            for item in ("odd input", "errors"):
                yield Finding(item, "not checked", "two cases at once never came back, and the engine with them")
            return
        if "l1" in sound:
            yield self._odd_input(engine)
        yield self._model_failure(engine)
        releases = self._harness.releases
        if releases.late:
            yield Finding("release", "failed", f"it did not come back within {releases.seconds:g} s: stores stay open")

    def _stage(self, stage: str, seen: Seen) -> Finding:
        error = seen.error_of(stage)
        if error is not None:
            # The offline model reads the shipped prompts alone; nobody can tell what the engine does with an answer.
            hint = "; name a model with --llm, --model and --base-url" if error.kind == "unsupported_stage" else ""
            return Finding(stage, "failed", f"{error.kind}: {error.message}{hint}")
        output = seen.outputs.of(stage)
        if output is None:
            voided = f"{', '.join(error.stage for error in seen.errors) or 'the stage before it'} failed"
            return Finding(stage, "not checked", seen.left_out.get(stage) or voided)
        given = (seen.outputs.l1 or ()) if self._chained else labelled_memories(self.alma)
        wrong, odd = list(problems(stage, seen.outputs, self.alma, given)), list(remarks(stage, seen.outputs))
        if wrong:
            return Finding(stage, "failed", "; ".join(wrong))
        by_itself = "" if self._chained or stage in ("inject", "search") else "; of labelled memories, without extract"
        return Finding(stage, "warning" if odd else "ok", "; ".join(odd) or told(stage, seen.outputs) + by_itself)

    def _repeated(self, engine: object, first: Seen, sound: list[str]) -> Iterator[Finding]:
        other = self._run(engine, self.bruno)
        again = self._run(engine, self.alma)
        leaks = [
            f"{stage} of case {case.case_id} speaks of {', '.join(found)}, which only the other case says"
            for case, seen in ((self.bruno, other), (self.alma, again))
            for stage in sound
            if (found := strangers_in(stage, seen.outputs, case.case_id))
        ]
        same_again = _differences(first, again, sound)
        if leaks:
            yield Finding("isolation", "failed", leaks[0])
            yield Finding("reset", "not checked", "another case's data came through anyway")
        else:
            yield Finding("isolation", "ok", "two cases, one after the other: neither saw the other's data")
            yield from self._repeatable(same_again, first, sound)
        yield from self._overlapping(engine, sound, first, other)

    def _repeatable(self, same_again: list[str], first: Seen, sound: list[str]) -> Iterator[Finding]:
        fresh = _differences(first, self._run(self._make(), self.alma), sound) if self._fresh else same_again
        if fresh and same_again:
            what = f"two runs of the same case differ in {', '.join(fresh)}"
            hint = "" if self._fresh else ", by chance or by what the first run left in the engine"
            yield Finding("determinism", "failed", what + hint)
            yield Finding("reset", "not checked", "runs differ anyway")
            return
        yield Finding("determinism", "ok", "the same case again: the same outputs")
        if same_again:
            text = f"the second run of a case differs in {', '.join(same_again)}: the engine keeps what the first left"
            yield Finding("reset", "failed", text)
        else:
            yield Finding("reset", "ok", "a case in a new store starts from nothing")

    def _overlapping(self, engine: object, sound: list[str], first: Seen, other: Seen) -> Iterator[Finding]:
        if not can_overlap(engine):
            yield Finding("concurrency", "ok", "its cases run one at a time: concurrent is False, or a method is plain")
            return
        try:
            alma, bruno = self._run_together(engine, [self.alma, self.bruno])
        except LoopBlocked:
            self._hangs = True
            text = f"two cases at once do not come back within {2 * self._patience:g} s, and hold the event loop"
            yield Finding("concurrency", "failed", f"{text}; say concurrent = False")
            return
        wrong = [
            f"{stage} of case {case.case_id} is another one"
            for case, alone, beside in ((self.alma, first, alma), (self.bruno, other, bruno))
            for stage in _differences(alone, beside, sound)
        ]
        if wrong:
            yield Finding("concurrency", "failed", f"two cases at once: {wrong[0]} than alone; say concurrent = False")
        else:
            yield Finding("concurrency", "ok", "two cases at once: the same outputs as one after the other")

    def _odd_input(self, engine: object) -> Finding:
        for case in (empty_case(), odd_case()):
            error = self._run(engine, case).error_of("l1")
            if error is not None:
                return Finding("odd input", "failed", f"case {case.case_id}: {error.kind}: {error.message}")
        return Finding("odd input", "ok", "an empty conversation, empty messages, braces, emoji, Chinese, long words")

    def _model_failure(self, engine: object) -> Finding:
        """Whether each call of the model that fails makes its stage errored."""
        model = FailingModel(self._llm)
        anyway = self._run(engine, self.alma, llm=model).errors
        if not model.asked:
            return Finding("errors", "not checked", "it does not ask ctx.llm: see yourself what it does on failures")
        found = []
        for prompt in model.asked:
            errors = self._run(engine, self.alma, llm=FailingModel(self._llm, prompt)).errors
            errors = tuple(error for error in errors if error not in anyway)
            if not errors and anyway:
                text = f"{anyway[0].stage} fails anyway: nobody can tell what it does without its model for {prompt}"
                return Finding("errors", "not checked", text)
            if not errors:
                return Finding(
                    "errors",
                    "failed",
                    f"its model could not be reached for {prompt}, and it gave outputs all the same: that counts as a "
                    "bad answer, where an exception would count as not measured",
                )
            found.append(f"{errors[0].stage} ({errors[0].kind})")
        return Finding("errors", "ok", f"without its model these are errored: {', '.join(found)}")

    # -- runs ------------------------------------------------------------------------------------------------------

    def _case_run(self, engine: object, case: EvalCase, llm: ChatModel | None = None) -> CaseRun:
        harness = self._harness
        folder = Path(tempfile.mkdtemp(prefix="memeval-doctor-"))
        self._folders.append(folder)
        return CaseRun(
            case,
            engine=engine,
            llm=llm or self._llm,
            prompts=harness.prompt_set(),
            registry=harness.registry,
            templates=harness.templates,
            settings=replace(harness.run_settings, stages=None, chained=self._chained, timeout=self._patience),
            loop=harness.loop,
            releases=harness.releases,
            get_folder=lambda: folder,
            embedder=harness.search.embedder(),
        )

    @contextmanager
    def _open(self, *runs: CaseRun) -> Iterator[None]:
        try:
            yield
        finally:
            for run in runs:
                run.close()
            while self._folders:
                shutil.rmtree(self._folders.pop(), ignore_errors=True)

    def _run(self, engine: object, case: EvalCase, llm: ChatModel | None = None) -> Seen:
        run = self._case_run(engine, case, llm)
        with self._open(run):
            run.run_all()
            return _seen(run)

    def _run_together(self, engine: object, cases: list[EvalCase]) -> list[Seen]:
        runs = [self._case_run(engine, case) for case in cases]

        async def all_at_once() -> None:
            await asyncio.gather(*(run.work_ahead() for run in runs))

        with self._open(*runs):
            self._harness.loop.run(all_at_once(), timeout=2 * self._patience)
            return [_seen(run) for run in runs]


def _seen(run: CaseRun) -> Seen:
    left_out = {
        stage: "there is no load to fill its store"
        for stage, status in run.plan.idle.items()
        if status == "unsupported" and stage in run.supported
    }
    return Seen(run.outputs, run.errors, left_out)


def _differences(one: Seen, other: Seen, stages: list[str]) -> list[str]:
    first, second = shape_of(one.outputs), shape_of(other.outputs)
    return [stage for stage in stages if first.get(stage) != second.get(stage)]
