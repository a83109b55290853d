"""In which settings two runs differ, and which metrics that leaves comparable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_memeval.compare.model import Effect, SettingDifference

#: Metrics of ``l1`` and ``l2`` that depend on which dimensions there are.
_BY_DIMENSION = (
    "dimension_",
    "per_dimension_",
    "strict_match",
    "total_",
    "dropped_labels",
    "profile_quality",
    "section_",
)
#: Sections whose metrics depend on the matching of memories.
_MATCHED = ("l1", "l15", "l2")
_JUDGED = ("rag", "longmemeval")
#: A case file's name in A and in B.
FilePair = tuple[str, str]
#: What the names of differences in how questions were asked begin with.
PROTOCOL = "protocol"
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


def blocked_metrics(settings: Iterable[SettingDifference], paths: Iterable[str]) -> dict[str, str]:
    """Metric path → the setting whose difference keeps it from being compared."""
    limits = [setting.name for setting in settings if setting.effect == "limits"]
    blocked: dict[str, str] = {}
    for path in paths:
        for name in limits:
            if _depends(path, name):
                blocked.setdefault(path, name)
    return blocked


def _depends(path: str, setting: str) -> bool:
    if setting.startswith(PROTOCOL):
        return False  # told, and left to the reader: most comparisons of memories are about one of these
    section, _, name = path.partition(".")
    if setting == "matcher":
        return section in _MATCHED or (section == "inject" and name.startswith("pipeline_"))
    if setting == "registry":
        return section in ("l1", "l2") and name.startswith(_BY_DIMENSION)
    if setting == "templates":
        return section == "inject" or (section == "l2" and name.startswith(("section_", "profile_", "total_")))
    if setting == "judge":
        return section in _JUDGED or "judge" in name
    if setting == "stage_input":
        return section in ("l15", "l2")
    # Tokenisers and smoothing: the text metrics.
    return section in ("qa", "locomo", "longmemeval")


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
    both = {(path if path == other else f"{path} → {other}"): (one.get(path), two.get(other)) for path, other in files}
    apart = {label: pair for label, pair in both.items() if pair[0] != pair[1]}
    if not apart:
        return
    # A report that does not say (an older one, a file of which no case was set up): nothing is known to differ.
    known = any(None not in pair for pair in apart.values())
    texts = [
        "-" if all(pair[at] is None for pair in apart.values()) else _text({f: p[at] or "-" for f, p in apart.items()})
        for at in (0, 1)
    ]
    yield SettingDifference(name, texts[0], texts[1], "limits" if known else "note")


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
