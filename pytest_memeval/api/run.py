"""``pytest_memeval.run``: cases measured without pytest, in a script or a notebook, with the same report at the end."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_memeval.api.arguments import functions, stages_text, typed
from pytest_memeval.api.report import RunReport
from pytest_memeval.documents.problems import DocumentError, did_you_mean
from pytest_memeval.options import OPTIONS, Option, SettingsError
from pytest_memeval.own_code import relate_to
from pytest_memeval.settings.checks import check_keys, check_models
from pytest_memeval.settings.model import Settings
from pytest_memeval.settings.reading import read_settings

if TYPE_CHECKING:
    from pytest_memeval.api.work import Values, Work
    from pytest_memeval.cases.models import CaseSet, EvalCase
    from pytest_memeval.harness import Harness
    from pytest_memeval.results import CaseResult
    from pytest_memeval.runs.recorder import Recorder

#: The case set of cases that are in no file.
CODE_SET = "code"
#: Options that make no sense without a pytest session, and why.
_NOT_HERE: Mapping[str, str] = {
    "resume": "run the cases again: answers come from the cache",
    "shard": "give each machine its part of the cases",
    "plan": "use pytest --memeval-plan",
    "progress": "give on_result a function instead",
    "files": "name the files as cases",
    "variant": "call run once for each and compare the reports",
    "stop_when_decided": "pytest stops a run; here give fewer cases",
    "trials": "pytest measures a case several times",
}
#: The window of cases under way looks this many times the limit ahead.
_DEPTH = 2


def run(
    cases: object,
    *,
    engine: object = None,
    llm: object = None,
    judge: object = None,
    stages: str | Iterable[str] | None = None,
    prompt_version: str | None = None,
    concurrency: int = 8,
    evaluators: Sequence[object] | None = None,
    pipeline: object = None,
    metrics: Sequence[Callable[..., Any]] = (),
    on_result: Callable[[CaseResult], None] | None = None,
    **options: Any,
) -> RunReport:
    """Run cases and return the report, as a pytest run would write it.

    ``cases``: a case file or folder, an :class:`EvalCase`, or a list of them, mixed as you like. ``engine``, ``llm``,
    ``judge``, ``pipeline``: the object itself, a class to be called, or a name as the option of pytest takes it
    (``"reference"``, ``"module:attribute"``; ``"embedded"``, ``"openai"``). ``stages``: ``"l1,l2"`` or a list.
    ``metrics`` are functions ``(case, outputs)`` (:mod:`pytest_memeval.custom_metrics`). ``options`` are all
    the others of the command line with underscores (``model=``, ``base_url=``, ``cache=``,
    ``gate=["P0 l1.memory_recall >= 0.8"]``, ``output=`` …). Settings come from the arguments alone: a project's ini is
    not read. Cache, concurrency, time limits, journal and report files are those of pytest; without ``output`` the
    files go to ``.memeval/runs`` in the current folder. ``on_result`` is called after each case.

    It blocks until the last case is done, also where an event loop runs already (a notebook): cases run on a loop of
    their own in a thread. Errors of a case are in the report. Raises SettingsError (a ValueError) for an option, and
    DocumentError for a case file, that cannot be used.
    """
    from pytest_memeval.api.work import Values
    from pytest_memeval.custom_metrics import MetricError, also
    from pytest_memeval.extensions import usable
    from pytest_memeval.harness import Harness
    from pytest_memeval.runs.recorder import Recorder

    metrics = functions(metrics)
    named: dict[str, Any] = {
        "stages": stages_text(stages),
        "prompt_version": prompt_version,
        "concurrency": concurrency,
    }
    given: dict[str, Any] = {"memeval_evaluators": evaluators} if evaluators is not None else {}
    for fixture, option, value in (
        ("memeval_engine", "engine", engine),
        ("memeval_llm", "llm", llm),
        ("memeval_judge", "judge_model", judge),
        ("memeval_rag_pipeline", "rag_pipeline", pipeline),
    ):
        if isinstance(value, str):
            named[option] = value
        elif value is not None:
            given[fixture] = _object(value)
            if fixture == "memeval_engine":
                usable(given[fixture], "run")
    settings = _settings({**options, **{key: value for key, value in named.items() if value is not None}})
    if settings.variants:
        raise SettingsError(f"run: several prompt versions are variants; {_NOT_HERE['variant']}")
    harness = Harness(settings)
    unrelate = relate_to(Path.cwd())
    try:
        with also({getattr(function, "__name__", ""): function for function in metrics}):
            _check(settings, harness, given)
            values = Values(harness, given)
            works, sets = _works(cases, harness, values)
            if settings.predictions is not None:
                _tell_sets(values, sets)
            registries = [found for one in sets.values() if (found := getattr(one, "registry", None)) is not None]
            known = dict.fromkeys(name for one in registries or [harness.registry] for name in one.ids)
            check_keys(settings, known)
            recorder = Recorder(settings)
            if settings.keep_db:
                harness.keep_databases_in(recorder.databases_folder)
            if settings.baseline is not None:
                from pytest_memeval.compare.baseline import load_baseline

                recorder.baseline = load_baseline(settings.baseline, settings.prompts)
            return _carry_out(works, sets, harness, recorder, on_result)
    except MetricError as error:
        raise SettingsError(f"run: {error}") from None
    finally:
        harness.close()
        unrelate()


def _tell_sets(values: Values, sets: Mapping[str, Any]) -> None:
    """Have recorded outputs know of all case sets of the run, so that none of their rows is scored for several."""
    from pytest_memeval.cases.models import CaseSet
    from pytest_memeval.engine.predictions import PredictionsEngine
    from pytest_memeval.engine.row_choice import SetsOfIds

    own = {path: one for path, one in sets.items() if isinstance(one, CaseSet)}
    if own and isinstance(engine := values["memeval_engine"], PredictionsEngine):
        engine.sets = SetsOfIds(own)


def _object(given: Any) -> Any:
    """What an argument gives: the object itself, or one of the class. Raises SettingsError."""
    if not inspect.isclass(given):
        return given
    from pytest_memeval.engine.protocol import EngineSetupError
    from pytest_memeval.extensions import made

    try:
        return made(given, given.__name__, "run")
    except EngineSetupError as error:
        raise SettingsError(f"run: {error}") from None


def _settings(given: Mapping[str, Any]) -> Settings:
    """The settings that the arguments make. Raises SettingsError."""
    known = {option.name.replace("-", "_"): option for option in OPTIONS}
    for name in given:
        if name in _NOT_HERE:
            raise SettingsError(f"run: {name} is an option of pytest; {_NOT_HERE[name]}")
        if name not in known:
            raise SettingsError(f"run: there is no option {name!r}{did_you_mean(name, known)}")

    def value_of(option: Option) -> Any:
        return typed(option, given.get(option.name.replace("-", "_")))

    # An option that only the ini has is given here like any other.
    return read_settings(
        lambda option: value_of(option) if option.flag else None,
        lambda option: option.ini_default if option.flag else value_of(option),
        rootdir=Path.cwd(),
        invocation_dir=Path.cwd(),
    )


def _check(settings: Settings, harness: Harness, given: Mapping[str, Any]) -> None:
    """What must end the run before it starts."""
    _ = harness.run_settings  # made for its checks
    if "memeval_llm" not in given:
        check_models(settings)
    if settings.sets_questions:
        from pytest_memeval.qa.setup import check_settings

        check_settings(settings)
    settings.gates_from("command line")
    settings.load_templates(harness.registry)
    if settings.prompts is not None or settings.prompt_version is not None:
        try:
            harness.prompt_set()
        except ValueError as error:
            raise SettingsError(f"{settings.where('prompt_version')}: {error}") from None


# -- the cases -----------------------------------------------------------------------------------------------------


def _works(cases: object, harness: Harness, values: Values) -> tuple[list[Work], dict[str, Any]]:
    """A piece of work a case, in the order given, and the case sets by their paths."""
    from pytest_memeval.api.work import DistillWork, refuse_twins
    from pytest_memeval.cases.in_code import checked
    from pytest_memeval.cases.models import CaseSet, CaseSetMeta, EvalCase

    works: list[Work] = []
    sets: dict[str, Any] = {}
    in_code: list[EvalCase] = []
    loaded: dict[str, dict[str, EvalCase]] = {}
    for entry in _entries(cases):
        if isinstance(entry, EvalCase):
            if entry.path is not None:
                path, case_set = _key(entry.path), _sound(harness.case_set(entry.path))
                if path not in loaded:
                    loaded[path] = {case.case_id: case for case in case_set.cases}
                if entry != loaded[path].get(entry.case_id):  # changed since it was loaded
                    registry, templates = case_set.registry or harness.registry, case_set.templates or harness.templates
                    entry = checked(entry, registry, templates)
            else:
                entry = checked(entry, harness.registry, harness.templates)
                in_code.append(entry)
                path, case_set = CODE_SET, CaseSet(Path(CODE_SET), meta=CaseSetMeta(gates=()), cases=tuple(in_code))
            sets[path] = case_set
            works.append(DistillWork(harness, values, entry, case_set, path))
        elif isinstance(entry, str | Path):
            for file in _files(Path(entry)):
                works += _works_of_file(file, harness, values, sets)
        else:
            raise SettingsError(f"run: a case is a file, a folder or an EvalCase, not {type(entry).__name__}")
    if not works:
        raise SettingsError("run: there is no case to run")
    refuse_twins(works)
    return works, sets


def _entries(cases: object) -> Iterator[object]:
    from pytest_memeval.cases.models import CaseSet

    if isinstance(cases, CaseSet):
        yield from _sound(cases).cases
    elif isinstance(cases, Iterable) and not isinstance(cases, str | bytes | Mapping):
        for entry in cases:
            yield from _entries(entry)
    else:
        yield cases


def _sound(case_set: CaseSet) -> CaseSet:
    if case_set.problems:
        raise DocumentError(case_set.problems)
    return case_set


def _key(path: Path) -> str:
    """How reports name the file: relative to the current folder where it is below it."""
    full = path.absolute()
    return full.relative_to(Path.cwd()).as_posix() if Path.cwd() in full.parents else str(path)


def _files(path: Path) -> list[Path]:
    from pytest_memeval.cases.folders import case_files_in

    return case_files_in([path])


def _works_of_file(file: Path, harness: Harness, values: Values, sets: dict[str, Any]) -> Iterator[Work]:
    from pytest_memeval.api.work import DistillWork, KindWork
    from pytest_memeval.kinds import kind_of

    path, kind = _key(file), kind_of(file)
    case_set: Any = kind.load(file.absolute(), harness) if kind is not None else harness.case_set(file.absolute())
    sets[path] = _sound(case_set)
    for case in _chosen(case_set.cases, harness.settings, path):
        if kind is not None:
            yield KindWork(harness, values, kind, case, case_set, path)
        else:
            yield DistillWork(harness, values, case, case_set, path)


def _chosen(cases: Sequence[Any], settings: Settings, path: str) -> list[Any]:
    """The same cases of a file that pytest would choose by ``limit`` and ``sample``."""
    own = sorted(cases, key=lambda case: case.line)
    if settings.sample is not None and settings.sample < len(own):
        chosen = random.Random(f"{settings.seed}:{path}").sample(range(len(own)), settings.sample)
        own = [own[index] for index in sorted(chosen)]
    return own[: settings.limit]


# -- the run -------------------------------------------------------------------------------------------------------


def _carry_out(
    works: list[Work],
    sets: Mapping[str, Any],
    harness: Harness,
    recorder: Recorder,
    on_result: Callable[[CaseResult], None] | None,
) -> RunReport:
    from pytest_memeval.report.json_report import dumps
    from pytest_memeval.report.messages import text
    from pytest_memeval.scopes import set_info

    settings = recorder.settings
    recorder.take_process({"sets": [set_info(sets[path], path).to_json() for path in sorted(sets)]})
    recorder.selected.update({work.node_id: work.set_path for work in works})
    limit: float | None = settings.max_cost
    notes: list[str] = []
    aborted = True
    measured = _measured(works, harness, recorder)
    try:
        for work, result in measured:
            # As a text, so that what an engine does to its objects later changes nothing here.
            recorder.take(dumps(result.to_json()))
            if on_result is not None:
                on_result(recorder.results[work.node_id])
            if limit is not None and recorder.costs.spent >= limit * (1 - 1e-9) and recorder.not_run():
                spent = {"spent": f"{recorder.costs.spent:.4f}", "limit": f"{limit:g}"}
                notes.append(text("run_note.budget_of_call", **spent))
                break
        else:
            aborted = False
    finally:
        # An interrupt leaves the report of what was done, too.
        measured.close()
        recorder.left_behind += harness.left_behind
        recorder.cancelled_in_vain += harness.cancelled_in_vain
        recorder.late_releases += harness.releases.late
        notes += recorder.costs.unpriced_note("max_cost") if limit is not None else ()
        report = recorder.finish(aborted=aborted, notes=notes)
    assert report is not None  # there is at least one case
    results = [recorder.results[work.node_id] for work in works if work.node_id in recorder.results]
    return RunReport(report, results=results, folder=recorder.folder, lang=settings.lang)


def _measured(
    works: list[Work], harness: Harness, recorder: Recorder
) -> Generator[tuple[Work, CaseResult], None, None]:
    """Each case's result in the given order, with the cases after it under way meanwhile."""
    from pytest_memeval.ahead import Ahead

    limit = harness.settings.concurrency
    ahead = Ahead(harness.loop, limit)
    done: list[CaseResult | None] = [work.refused() for work in works]
    try:
        for place, work in enumerate(works):
            known = done[place]
            if known is not None:
                yield work, known
                continue
            for near in range(place, min(place + _DEPTH * limit, len(works)) if limit > 1 else place):
                if done[near] is None and not works[near].overlaps:
                    break
                if done[near] is None:
                    ahead.start(works[near].node_id, works[near].prepare)
            prepared = ahead.take(work.node_id) or work.prepare()
            try:
                result = work.result(prepared.run)
                meta = work.meta(prepared.run)
            finally:
                prepared.close()
            if meta is not None:
                recorder.take_process({"meta": meta})
            yield work, _with_judge_calls(result, harness)
    finally:
        ahead.close()


def _with_judge_calls(result: CaseResult, harness: Harness) -> CaseResult:
    """Calls of the judge outside of any stage's own recording count for the case after which they are found."""
    from dataclasses import replace

    own = [replace(call, id=f"{result.node_id}/judge/{place}") for place, call in enumerate(harness.judge_calls)]
    harness.judge_calls.clear()
    return replace(result, calls=(*result.calls, *own)) if own else result
