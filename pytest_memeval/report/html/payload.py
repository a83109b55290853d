"""What the page's script needs of each case, as JSON that can stand inside a script element."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.metrics.catalog import SECTIONS
from pytest_memeval.report.entries import HOISTED
from pytest_memeval.report.funnel import case_funnel
from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.json_report import dumps
from pytest_memeval.report.languages import LANGUAGES
from pytest_memeval.report.messages import text
from pytest_memeval.report.texts.page import PAGE_TEXTS
from pytest_memeval.report.texts.views import VIEW_TEXTS
from pytest_memeval.report.views import question_view, sample_view, search_view, trials_view

_UNSAFE = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)  # fmt: skip


class Lines:
    """Texts as lists of line numbers: prompts of one version share most of their lines."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}

    def add(self, text: object) -> list[int] | None:
        if text is None:
            return None
        return [self.lines.setdefault(line, len(self.lines)) for line in str(text).split("\n")]


def page_data(
    report: Mapping[str, Any], lang: str = "en", calls: Iterable[Mapping[str, Any]] = (), *, most: int | None = None
) -> dict[str, Any]:
    """``{lang, texts, lines, cases}``, the texts by language. ``calls`` are the run's model calls with their prompts
    and answers (:func:`pytest_memeval.report.calls.calls_of`, or a run's ``calls.jsonl.gz``)."""
    lines = Lines()
    texts: dict[str, Mapping[str, Any]] = {str(call.get("id")): call for call in calls}
    cases = [_case(entry, texts, lines) for entry in report["per_case"][:most]]
    said = {language: dict(_said(language)) for language in LANGUAGES}
    return {"lang": lang, "texts": said, "lines": list(lines.lines), "cases": cases}


def _said(lang: str) -> Iterator[tuple[str, str]]:
    """What the script says."""
    for key in PAGE_TEXTS:
        if key.partition(".")[0] in ("js", "stage", "cause"):
            yield key, text(f"html.{key}", lang)
    yield from ((f"view.{key}", text(f"view.{key}", lang)) for key in VIEW_TEXTS)
    yield from ((f"trials.{key}", text(f"trials.{key}", lang)) for key in ("mean", "sd", "low", "high"))


def script_json(data: Any) -> str:
    """JSON for a script element: no text in it can end the element or start another one, whatever it holds."""
    return dumps(data).translate(_UNSAFE)


def _case(entry: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], lines: Lines) -> dict[str, Any]:
    score = main_score(entry)
    first = entry.get("l1") or {}
    details = first.get("details") or {}
    funnel = entry["funnel"] if "funnel" in entry else case_funnel(entry)
    views: dict[str, Any] = {"qa": question_view(entry), "rag": sample_view(entry), "search": search_view(entry)}
    shown = {stage for stage, view in views.items() if view}
    case = {
        "id": entry["node_id"],
        "set": entry["set"],
        "name": entry["case_id"],
        "variant": entry.get("variant"),
        "kind": entry.get("kind", "distill"),
        "source": entry["source"],
        "difficulty": entry["difficulty"],
        "tags": entry["tags"],
        "line": entry["line"],
        "outcome": entry["outcome"],
        "score": None if score is None else score[1],
        "metric": None if score is None else score[0],
        "dimensions": sorted(entry.get("dimension_details") or {}),
        "errors": entry["errors"],
        "missed": entry["missed_expectations"],
        "seconds": entry["duration_seconds"],
        "stages": entry["stages"],
        "values": _values(entry),
        "input": entry.get("input"),
        "truth": details.get("truth"),
        "near": details.get("near_misses"),
        **{short: entry.get(key) for short, key in _SHORT.items()},
        "details": _details(entry, shown),
        "outputs": {stage: made for stage, made in (entry["outputs"] or {}).items() if stage not in shown},
        **views,
        "trials": trials_view(entry),
        "spread": entry.get("spread"),
        "facts": entry["facts"],
        "funnel": funnel,
        "calls": _calls(entry, texts, lines),
    }
    return {key: value for key, value in case.items() if value not in (None, [], {}, "")}


_SHORT = dict(zip(("pairs", "extra", "absent"), HOISTED, strict=True))


def _values(entry: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Section → figure → value, without the tables of single dimensions: those are in the page's chips."""
    found: dict[str, dict[str, Any]] = {}
    for section in SECTIONS:
        values = (entry.get(section) or {}).get("values") or {}
        kept = {name: value for name, value in values.items() if "." not in name and not name.startswith("_")}
        if kept:
            found[section] = kept
    return found


def _details(entry: Mapping[str, Any], shown: Collection[str]) -> dict[str, Any]:
    """Details that no view holds already."""
    found: dict[str, Any] = {}
    for section in SECTIONS:
        details = (entry.get(section) or {}).get("details") or {}
        if details and section != "l1" and section not in shown:
            found[section] = details
    return found


def _calls(
    entry: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], lines: Lines
) -> Sequence[Mapping[str, Any]]:
    calls = []
    varying = (entry.get("timings") or {}).get("calls") or ()
    for kept, one in zip(entry["calls"], varying, strict=False):
        known = texts.get(str(one.get("id")), {})
        call = {
            "stage": kept["stage"],
            "version": kept["version"],
            "model": kept["model"] or kept["provider"],
            "in": kept["input_tokens"],
            "out": kept["output_tokens"],
            "finish": kept["finish_reason"],
            "error": kept["error"],
            "latency": one.get("latency"),
            "cached": one.get("cached"),
            "prompt": [[part.get("role"), lines.add(part.get("content"))] for part in known.get("request") or ()],
            "answer": lines.add(known.get("answer")),
        }
        calls.append({key: value for key, value in call.items() if value not in (None, [], "")})
    return calls
