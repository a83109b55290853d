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
#: What the names of differences in how questions were asked begin with.
PROTOCOL = "protocol"
#: Context budgets further apart than this are no like with like.
MOST_APART = 1.5


def setting_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[SettingDifference]:
    """What differs between the runs: first what limits the comparison, then what it is about, then what to know."""
    found = [
        *_protocols(a, b),
        *_differ("case_sets", _versions(a), _versions(b), "note"),
        *_differ("registry", a.get("registry"), b.get("registry"), "limits"),
        *_differ("templates", a.get("templates"), b.get("templates"), "limits"),
        *_differ("matcher", a.get("matcher"), b.get("matcher"), "limits"),
        *_differ("judge", judge_of(a), judge_of(b), "limits"),
        *_differ("stage_input", _stages(a, "input"), _stages(b, "input"), "limits"),
        *_differ("metrics_spec", a.get("metrics_spec"), b.get("metrics_spec"), "limits"),
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


def _protocols(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """In what the runs asked the questions of a file differently, each thing once."""
    told: set[tuple[str, str, str]] = set()
    for path in dict.fromkeys([*(a.get("case_sets") or {}), *(b.get("case_sets") or {})]):
        one, two = (((report.get("case_sets") or {}).get(path) or {}).get("protocol") for report in (a, b))
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
    if (a is None or a == {}) and name in ("registry", "templates"):
        effect = "note"  # an older report does not say: nothing is known to differ
    if (b is None or b == {}) and name in ("registry", "templates"):
        effect = "note"
    only_a, only_b = _parts_that_differ(a, b)
    yield SettingDifference(name, _text(only_a), _text(only_b), effect)


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
