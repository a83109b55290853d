"""The reports of a run that was shared out over machines, put together into the one that a single machine gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_memeval.options import OPTIONS
from pytest_memeval.report.build import build_report
from pytest_memeval.report.calls import CALLS_NAME, read_calls
from pytest_memeval.report.reader import JOURNAL_NAME, find_report, load_report, records_of, sets_of
from pytest_memeval.results import CaseResult
from pytest_memeval.runs.info import run_info
from pytest_memeval.runs.recorder import Recorder
from pytest_memeval.settings.model import Settings

#: Options that change no figure, or lie in the machine; files among them (``relative``) are told apart by the hashes
#: of what they hold.
_FREE = frozenset(
    {
        "shard", "resume", "concurrency", "rpm", "tpm", "max_cost", "progress", "lang", "keep_db", "plan", "cache",
        "base_url", "judge_base_url", "max_attempts", "request_timeout", "files",
    }
)  # fmt: skip
#: How many node ids are listed of each kind of trouble.
LISTED = 20


class MergeError(Exception):
    """Reports that do not make one run; the text lists why."""


@dataclass
class Part:
    """One machine's report."""

    name: str
    report: Mapping[str, Any]
    folder: Path
    records: list[CaseResult] = field(default_factory=list)

    @property
    def shard(self) -> Mapping[str, Any]:
        shard: Mapping[str, Any] = self.report["shard"]
        return shard


def load_part(path: Path) -> Part:
    """A shard's report. Raises MergeError for one of a whole run, ReportError for what is no report."""
    report = load_report(path)
    if not report.get("shard"):
        raise MergeError(f"{path} is the report of a whole run, not of a part: it was not made with --memeval-shard.")
    return Part(str(path), report, find_report(path).parent, records_of(report))


def check_parts(parts: Sequence[Part]) -> None:
    """Raise MergeError, with everything that is wrong, unless the parts are one run, each case in one of them."""
    problems = [*_other_counts(parts)] or [*_differences(parts), *_overlaps(parts), *_gaps(parts)]
    if problems:
        raise MergeError("\n".join(problems))


def _other_counts(parts: Sequence[Part]) -> Iterator[str]:
    counts = {part.shard["count"] for part in parts}
    if len(counts) > 1:
        given = ", ".join(f"{part.name} is {part.shard['index']}/{part.shard['count']}" for part in parts)
        yield f"The reports are parts of different divisions: {given}."


def _differences(parts: Sequence[Part]) -> Iterator[str]:
    """What should be equal on all machines and is not, each with the two values of the first pair that differs."""
    first = parts[0]
    known = _described(first)
    for part in parts[1:]:
        own = _described(part)
        for key in sorted(known.keys() & own.keys()):
            if known[key] != own[key]:
                yield f"{key} differs: {_short(known[key])} in {first.name}, {_short(own[key])} in {part.name}."
        for key in own.keys() - known.keys():
            # Only what a part met is described in it: a file none of whose cases fell to it has no engine there.
            if key.startswith("option "):
                yield f"{key} differs: not known in {first.name}, {_short(own[key])} in {part.name}."
        known = {**own, **known}


def _described(part: Part) -> dict[str, Any]:
    report = part.report
    options = report["config"].get("options", {})
    files = {option.name.replace("-", "_") for option in OPTIONS if option.relative}
    facts: dict[str, Any] = {
        f"option {key}": value for key, value in options.items() if key not in _FREE and key not in files
    }
    facts["variant"] = report.get("variant")
    facts["plugin version"] = report["environment"].get("pytest_memeval")
    facts["schema version"] = report["schema_version"]
    facts["selection of cases"] = part.shard["selected"]
    facts["unreadable case files"] = sorted(name for name, _ in report["broken_files"])
    for scope in sets_of(report):
        # Of cases in code each part has counted its own.
        own = replace(scope, cases=0, truth_counts={}) if scope.in_code else scope
        facts[f"case file {scope.path}"] = own.to_json()
    facts.update((f"text of {path}", digest) for path, digest in part.shard["files"].items())
    for meta in part.shard["metas"]:
        for owner in meta.get("prompts", {}):
            for key in ("engine", "model", "matcher", "registry"):
                facts[f"{key} of {owner}"] = meta.get(key)
            facts[f"prompts of {owner}"] = meta["prompts"][owner].get("hashes")
    return facts


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= 120 else text[:119] + "…"


def _overlaps(parts: Sequence[Part]) -> Iterator[str]:
    where: dict[str, str] = {}
    twice: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        for record in part.records:
            first = where.setdefault(record.node_id, part.name)
            if first is not part.name:
                twice.setdefault((first, part.name), []).append(record.node_id)
    for (first, second), nodes in twice.items():
        yield f"{len(nodes)} case(s) are in both {first} and {second}: {_listed(nodes)}"


def _gaps(parts: Sequence[Part]) -> Iterator[str]:
    there = {record.node_id for part in parts for record in part.records}
    given = {part.shard["index"]: part.name for part in parts}
    missing: dict[int, list[str]] = {}
    for nodes in parts[0].shard["selected"].values():
        for node_id, index in nodes.items():
            if node_id not in there:
                missing.setdefault(index, []).append(node_id)
    count = parts[0].shard["count"]
    for index, nodes in sorted(missing.items()):
        why = f"{given[index]} did not run them" if index in given else "its report is missing"
        yield f"{len(nodes)} case(s) of part {index}/{count} have no result ({why}): {_listed(nodes)}"


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - LISTED} more" if len(nodes) > LISTED else ""
    return ", ".join(sorted(nodes)[:LISTED]) + more


def merge_parts(parts: Sequence[Part]) -> dict[str, Any]:
    """The report of the whole. The parts have to be one run (:func:`check_parts`)."""
    recorder = Recorder(_settings(parts[0].report))
    notes: dict[str, None] = {}
    broken: dict[str, str] = {}
    for part in parts:
        shard = part.shard
        recorder.sets.update((scope.path, scope) for scope in sets_of(part.report))
        for meta in shard["metas"]:
            recorder.take_process({"meta": meta})
        for path, nodes in shard["selected"].items():
            recorder.selected.update(dict.fromkeys(nodes, path))
        recorder.results.update((record.node_id, record) for record in part.records)
        recorder.crashed += shard["crashed"]
        notes.update(dict.fromkeys(shard["notes"]))
        broken.update((entry[0], entry[1]) for entry in part.report["broken_files"])
    chosen = any(part.shard["chosen"] for part in parts)
    run = run_info(recorder, partial=recorder.partial(aborted=False, selected=chosen), notes=tuple(notes))
    run = replace(
        run,
        broken_files=tuple(sorted(broken.items())),
        variant=parts[0].report.get("variant"),
        environment={**run.environment, "merged": [str(part.report["run_id"]) for part in parts]},
        duration_seconds=sum(part.report["summary"]["duration_seconds"] for part in parts),
    )
    return build_report(run, recorder.scopes(), recorder.results.values())


def _settings(report: Mapping[str, Any]) -> Settings:
    """The settings of the run that was shared out, as its report tells them."""
    values = dict(report["config"]["options"])
    for option in OPTIONS:
        key = option.name.replace("-", "_")
        values.setdefault(key, option.default)
        if option.relative and values[key] is not None:
            values[key] = Path(values[key])
    values["shard"] = None
    return Settings(Path(report["config"].get("rootdir", ".")), values)


def calls_of_parts(parts: Iterable[Part]) -> Iterator[Mapping[str, Any]]:
    """The model calls of all parts in the order of the cases' node ids."""
    calls: list[Mapping[str, Any]] = []
    for part in parts:
        file = part.folder / CALLS_NAME
        calls += read_calls(file).values() if file.exists() else ()
    # Stable: a case's calls stay in their order.
    yield from sorted(calls, key=lambda call: str(call["node_id"]))


def write_journal(parts: Iterable[Part], target: Path) -> bool:
    """Put the parts' journals together; False, and nothing written, where there is none."""
    from pytest_memeval.report.write import write_lines

    files = [part.folder / JOURNAL_NAME for part in parts]
    files = [file for file in files if file.is_file()]

    def lines() -> Iterator[str]:
        for file in files:
            text = file.read_text(encoding="utf-8")
            yield text if text.endswith("\n") or not text else text + "\n"

    if files:
        write_lines(target, lines())
    return bool(files)


def exit_status(report: Mapping[str, Any]) -> int:
    """What a single machine would have ended with: 1 for a P0 gate that is missed or unmeasured, for a case that
    errored, is missing, or misses thresholds of its own."""
    counts, summary = report["counts"], report["summary"]
    bad = counts["errored"] or counts["not_run"] or summary["missed_own_thresholds"]
    return 1 if bad or summary["passed_p0"] is False else 0
