"""The pictures of a run, each with its numbers in it, as tables with bars or as drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_memeval.report.html.drawing import line_chart
from pytest_memeval.report.html.elements import Html, Words, code, element, figure, grid, joined
from pytest_memeval.report.html.retrieval import retrieval
from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.messages import metric_title
from pytest_memeval.report.numbers import number_text, value_text

DIFFICULTIES: tuple[str, ...] = ("easy", "medium", "hard", "unspecified")
MOST_CONFUSIONS = 15
BINS = 10


def charts(
    report: Mapping[str, Any],
    words: Words,
    history: Sequence[Mapping[str, Any]] = (),
    metric: str = "",
    tuning: Html | None = None,
) -> Html:
    """Every picture that the report has figures for. ``history`` are points ``{label, value, low, high}`` of ``metric``
    in the order of their times; ``tuning`` is what a tuning run says of retrieval parameters, already rendered."""
    wide = (words("funnel"), words("tuning"))
    parts: list[tuple[str, Html | None]] = [
        (words("funnel"), funnel_chart(report.get("funnel"), words)),
        (words("heat"), heat_map(report, words)),
        (words("confusion"), confusions(report, words)),
        (words("sections_by_mode"), sections_by_mode(report, words)),
        (words("distribution"), distribution(report, words)),
        (words("retrieval"), retrieval(report, words)),
        (words("tuning"), tuning),
        (words("history"), history_chart(history, metric, words)),
    ]
    return element(
        "div",
        *(
            element("section", element("h2", title), part, class_="chart wide" if title in wide else "chart")
            for title, part in parts
            if part is not None
        ),
        class_="charts",
    )  # fmt: skip


def bar(share: float, kind: str = "") -> Html:
    """A bar of the share's width; it says nothing that a number beside it does not."""
    width = f"{100 * min(1.0, max(0.0, share)):.1f}%"
    return element("span", class_=f"bar {kind}".rstrip(), style=f"width: {width}", aria_hidden="true")


def _alone(share: float, kind: str = "") -> Html:
    return element("span", bar(share, kind) if share else None, class_="stack")


def heat_map(report: Mapping[str, Any], words: Words) -> Html | None:
    """Per-dimension F1 by difficulty, over the cases' own counts."""
    scores: Mapping[str, float | None] = (report.get("l1") or {}).get("per_dimension_f1") or {}
    if not scores:
        return None
    sums: dict[tuple[str, str], list[float]] = {}
    for entry in report["per_case"]:
        for dimension, found in (entry.get("dimension_details") or {}).items():
            cell = sums.setdefault((dimension, entry["difficulty"]), [0.0, 0.0, 0.0])
            for at, name in enumerate(("tp", "fp", "fn")):
                cell[at] += found[name] or 0
    present = {difficulty for _, difficulty in sums}
    columns = [name for name in DIFFICULTIES if name in present]
    columns += sorted(present.difference(DIFFICULTIES))
    rows = []
    for dimension, score in sorted(scores.items(), key=lambda item: (item[1] is None, item[1] or 0.0, item[0])):
        cells = [code(dimension)]
        for difficulty in columns:
            tp, fp, fn = sums.get((dimension, difficulty), (0.0, 0.0, 0.0))
            total = 2 * tp + fp + fn
            cells.append(_heat(2 * tp / total if total else None, tp + fn))
        support = sum(found[0] + found[2] for (name, _), found in sums.items() if name == dimension)
        cells.append(_heat(score, support, f"l1.per_dimension_f1.{dimension}"))
        rows.append(cells)
    return joined(
        (
            element("p", words("heat_note"), class_="faint"),
            grid([words.common("dimension"), *columns, words("all")], rows, caption=words("heat"), row_head=True),
        )
    )


def _heat(score: float | None, support: float, path: str | None = None) -> Html:
    if score is None:
        return element("span", "-", class_="heat")
    shown = value_text(score, decimals=2) if path is None else figure(path, score, value_text(score, decimals=2))
    return element(
        "span", shown, element("small", number_text(round(support, 6))), class_=f"heat heat-{min(9, int(score * 10))}"
    )


def confusions(report: Mapping[str, Any], words: Words) -> Html | None:
    found: Mapping[str, float] = (report.get("l1") or {}).get("confusions") or {}
    pairs = sorted(((key, number) for key, number in found.items() if number), key=lambda pair: (-pair[1], pair[0]))
    if not pairs:
        return None
    most = pairs[0][1]
    rows = []
    for key, number in pairs[:MOST_CONFUSIONS]:
        missed, _, given = key.partition("→")
        rows.append((code(missed), code(given), number_text(number), _alone(number / most, "bad")))
    more = len(pairs) - MOST_CONFUSIONS
    return joined(
        (
            element("p", words.common("confusions_note"), class_="faint"),
            grid(
                [*(words.common(key) for key in ("missed_label", "given_label", "count")), ""],
                rows,
                right=frozenset({2}),
                caption=words("confusion"),
            ),
            element("p", words.common("more", count=more)) if more > 0 else None,
        )
    )


def sections_by_mode(report: Mapping[str, Any], words: Words) -> Html | None:
    """Of the labelled (mode, memory) units: in the right section, in another one, in none."""
    found: dict[str, list[int]] = {}
    for entry in report["per_case"]:
        units = (((entry.get("l2") or {}).get("details") or {}).get("sections") or {}).get("units") or ()
        for unit in units:
            kind = 0 if unit["expected"] in unit["placed"] else 1 if unit["placed"] else 2
            found.setdefault(unit["mode"], [0, 0, 0])[kind] += 1
    if not found:
        return None
    rows = []
    for mode, numbers in sorted(found.items()):
        of = sum(numbers)
        kinds = zip(numbers, ("good", "warn", "bad"), strict=True)
        stack = element("span", *(bar(number / of, kind) for number, kind in kinds if number), class_="stack")
        rows.append((code(mode), stack, *map(str, numbers), value_text(numbers[0] / of)))
    head = [words(key) for key in ("mode", "right_section", "other_section", "no_section")]
    head[1:1] = [""]
    head.append(words.common("value"))
    return grid(head, rows, right=frozenset({2, 3, 4, 5}), caption=words("sections_by_mode"), row_head=True)


def distribution(report: Mapping[str, Any], words: Words) -> Html | None:
    """How many cases have which score, for every main score that any case has."""
    found: dict[str, list[float]] = {}
    for entry in report["per_case"]:
        score = main_score(entry)
        if score is not None:
            found.setdefault(score[0], []).append(score[1])
    drawn = [_histogram(path, values, words) for path, values in sorted(found.items())]
    return joined(drawn) if drawn else None


def _histogram(path: str, values: Sequence[float], words: Words) -> Html:
    bins = [0] * (BINS + 1)
    for value in values:
        # What is exactly 1 has a bar of its own: "all right" is not "nearly".
        bins[BINS if value >= 1 else max(0, int(value * BINS))] += 1
    most = max(bins)
    rows = []
    for at, number in enumerate(bins):
        label = "1" if at == BINS else f"{at / BINS:.1f} – {(at + 1) / BINS:.1f}"
        rows.append((label, str(number), _alone(number / most if most else 0)))
    note = words("distribution_note", metric=metric_title(path, words.lang), count=len(values))
    return joined(
        (
            element("p", note, class_="faint"),
            grid([words.common("value"), words("cases"), ""], rows, right=frozenset({1}), caption=note, row_head=True),
        )
    )


def history_chart(points: Sequence[Mapping[str, Any]], metric: str, words: Words) -> Html | None:
    if len(points) < 2:
        return None
    note = words("history_note", metric=metric_title(metric, words.lang), count=len(points))
    return joined((element("p", note, class_="faint"), line_chart(points, note)))


def funnel_chart(funnel: Mapping[str, Any] | None, words: Words) -> Html | None:
    """The way of the labelled memories: a row a stage, as wide as what no earlier stage lost."""
    if not funnel:
        return None
    rows = []
    for at, stage in enumerate(funnel["stages"]):
        parts = ((stage["kept"], "good"), (stage["not_measured"], "idle"), (stage["lost"], "bad"))
        stack = element(
            "span", *(bar(number / funnel["facts"], kind) for number, kind in parts if number), class_="stack centred"
        )
        causes = ", ".join(f"{words(f'cause.{cause}')} {number}" for cause, number in stage["causes"].items())
        base = f"funnel.stages.{at}"
        rows.append(
            (
                words(f"stage.{stage['stage']}"),
                stack,
                *(figure(f"{base}.{name}", stage[name], str(stage[name])) for name in ("kept", "lost", "not_measured")),
                causes or "-",
            )
        )
    names = ("stage", "kept", "lost", "not_measured", "causes")
    head = [words(f"funnel.{name}") for name in names]
    head.insert(1, "")
    numbers = {name: funnel[name] for name in ("facts", "cases", "kept", "lost")}
    return joined(
        (
            element("p", words("funnel_note", **numbers), class_="faint"),
            grid(head, rows, right=frozenset({2, 3, 4}), caption=words("funnel"), row_head=True),
        )
    )
