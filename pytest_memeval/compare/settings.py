"""In which settings two runs differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_memeval.compare.model import PROTOCOL, Effect, FilePair, SettingDifference

#: Context budgets further apart than this are no like with like.
MOST_APART = 1.5


def setting_differences(
    a: Mapping[str, Any], b: Mapping[str, Any], files: Iterable[FilePair] | None = None
) -> list[SettingDifference]:
    """What differs between the runs: first what limits the comparison, then what it is about, then what to know.

    What a run has for each case file is held against the other's over ``files`` alone: the names, in A and in B, of
    the case files that share cases; without it those that have the same name in both.
    """
    shared = sorted(set(shared_files(a, b) if files is None else files))
    found = [
        *_protocols(a, b, shared),
        *_case_sets(a, b),
        *_by_file("registry", a, b, shared),
        *_by_file("templates", a, b, shared),
        *_differ("matcher", a.get("matcher"), b.get("matcher"), "limits"),
        *_differ("judge", judge_of(a), judge_of(b), "limits"),
        *_differ("stage_input", _stages(a, "input"), _stages(b, "input"), "limits"),
        *_differ("metrics_spec", *_specs(a, b), "limits"),
        *_differ("engine", a.get("engine"), b.get("engine"), "subject"),
        *_differ("model", _model(a), _model(b), "subject"),
        *_prompts(a, b),
        *_differ("stages", _stages(a, "selected"), _stages(b, "selected"), "note"),
        *_differ("supported_stages", _stages(a, "supported"), _stages(b, "supported"), "note"),
        *_differ("package", _package(a), _package(b), "note"),
    ]
    order: dict[Effect, int] = {"limits": 0, "subject": 1, "note": 2}
    # How questions were asked comes before everything else: most of what sets two QA figures apart lies there.
    return sorted(found, key=lambda setting: (not setting.name.startswith(PROTOCOL), order[setting.effect]))


def shared_files(a: Mapping[str, Any], b: Mapping[str, Any], moved: Iterable[FilePair] = ()) -> set[FilePair]:
    """The case files that both reports have, by their names in A and in B; ``moved`` are those of other names."""
    names = (a.get("case_sets") or {}).keys() & (b.get("case_sets") or {}).keys()
    return {*((name, name) for name in names), *moved}


def _protocols(a: Mapping[str, Any], b: Mapping[str, Any], files: Iterable[FilePair]) -> Iterator[SettingDifference]:
    """In what the runs asked the questions of a file differently, each thing once."""
    told: set[tuple[str, str, str]] = set()
    for paths in files:
        one, two = (
            ((report.get("case_sets") or {}).get(path) or {}).get("protocol")
            for report, path in zip((a, b), paths, strict=True)
        )
        if one is None or two is None:
            continue
        for name in dict.fromkeys([*one, *two]):
            if name in ("judge", "text_metrics"):
                continue  # told as settings of their own
            if name == "mean_context_tokens":
                found = _budgets(one.get(name), two.get(name))
            else:
                found = list(_differ(f"{PROTOCOL} {name}", one.get(name), two.get(name), "subject"))
            for setting in found:
                key = (setting.name, setting.a, setting.b)
                if key not in told:
                    told.add(key)
                    yield setting


def _budgets(a: float | None, b: float | None) -> list[SettingDifference]:
    """Mean tokens of context a question, where one run had more than 1.5 times the other's: no like with like."""
    if not a or not b or max(a, b) <= MOST_APART * min(a, b):
        return []
    shown = f"{b:.0f} ({b / a:.2g} ×, more than {MOST_APART:g} × apart)"
    return [SettingDifference(f"{PROTOCOL} mean_context_tokens", f"{a:.0f}", shown, "note")]


def _differ(name: str, a: Any, b: Any, effect: Effect) -> Iterator[SettingDifference]:
    if a == b:
        return
    only_a, only_b = _parts_that_differ(a, b)
    yield SettingDifference(name, _text(only_a), _text(only_b), effect)


def _by_file(
    name: str, a: Mapping[str, Any], b: Mapping[str, Any], files: Iterable[FilePair]
) -> Iterator[SettingDifference]:
    """A hash that a run has for each case file, where it differs in a file that both have."""
    one, two = a.get(name) or {}, b.get(name) or {}
    apart = {pair: hashes for pair in files if (hashes := (one.get(pair[0]), two.get(pair[1])))[0] != hashes[1]}
    if not apart:
        return
    # A report that does not say (an older one, a file of which no case was set up): nothing is known to differ.
    known = tuple(sorted(pair for pair, hashes in apart.items() if None not in hashes))
    labels = {pair: pair[0] if pair[0] == pair[1] else f"{pair[0]} → {pair[1]}" for pair in apart}
    texts = [
        "-"
        if all(hashes[at] is None for hashes in apart.values())
        else _text({labels[pair]: hashes[at] or "-" for pair, hashes in apart.items()})
        for at in (0, 1)
    ]
    yield SettingDifference(name, texts[0], texts[1], "limits" if known else "note", known or None)


def _case_sets(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """The case files that one run alone has, by name, and those that have another version."""
    one, two = _versions(a), _versions(b)
    keys = [key for key in dict.fromkeys([*one, *two]) if key not in one or key not in two or one[key] != two[key]]
    if keys:
        texts = [
            ", ".join(f"{key}={own[key] or '-'}" if own[key] or other.get(key) else key for key in keys if key in own)
            for own, other in ((one, two), (two, one))
        ]
        yield SettingDifference("case_sets", texts[0] or "-", texts[1] or "-", "note")


def _specs(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Any, Any]:
    """How metrics were computed; how texts were, only where both runs asked questions."""
    specs = [report.get("metrics_spec") for report in (a, b)]
    if all(isinstance(spec, Mapping) for spec in specs) and any("text" not in spec for spec in specs if spec):
        specs = [{key: value for key, value in (spec or {}).items() if key != "text"} for spec in specs]
    return specs[0], specs[1]


def _parts_that_differ(a: Any, b: Any) -> tuple[Any, Any]:
    """Of two mappings only the keys in which they differ."""
    if not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        return a, b
    keys = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
    return {key: a.get(key) for key in keys}, {key: b.get(key) for key in keys}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_short(item)}" for key, item in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value)) or "-"
    return _short(value)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A hash is told from another by its first digits.
    return text[:12] if len(text) == 64 and all(char in "0123456789abcdef" for char in text) else text


def _prompts(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """Stages whose texts differ; versions of the same name with different texts show their hashes."""
    versions = [dict(report.get("prompt_versions") or {}) for report in (a, b)]
    hashes = [dict(report.get("prompt_hashes") or {}) for report in (a, b)]
    for stage in dict.fromkeys([*versions[0], *versions[1], *hashes[0], *hashes[1]]):
        one, two = hashes[0].get(stage), hashes[1].get(stage)
        names = [own.get(stage) for own in versions]
        if one == two and (one is not None or names[0] == names[1]):
            continue
        shown = [str(name or "-") for name in names]
        if shown[0] == shown[1]:
            shown = [f"{name} ({_short(digest or '-')})" for name, digest in zip(shown, (one, two), strict=True)]
        yield SettingDifference(f"prompt {stage}", shown[0], shown[1], "subject")


def _versions(report: Mapping[str, Any]) -> dict[str, Any]:
    return {path: scope.get("version") for path, scope in (report.get("case_sets") or {}).items()}


def _stages(report: Mapping[str, Any], key: str) -> Any:
    return (report.get("stages") or {}).get(key)


def _model(report: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (report.get("model") or {}).items() if value not in (None, "")}


def judge_of(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """What judged, without what came of its controls: these are asked anew in each run."""
    judge = report.get("judge")
    return None if judge is None else {key: value for key, value in judge.items() if key != "controls"}


def _package(report: Mapping[str, Any]) -> Any:
    return (report.get("environment") or {}).get("pytest_memeval")
