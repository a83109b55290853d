"""What a comparison shows, as blocks that each rendering prints in its own way: one order, one wording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_memeval.compare.messages import setting_title, text
from pytest_memeval.compare.model import CaseChange, CaseNote, Comparison, MemoryRow, MetricDifference
from pytest_memeval.metrics.paired import FEWEST_TELLING
from pytest_memeval.report.numbers import DECIMALS, number_text, value_text

Style = Literal["plain", "good", "bad", "warn", "faint", "bold"]
#: How a setting that differs is shown, by what it does to the comparison.
EFFECT_STYLES: Mapping[str, Style] = {"limits": "bad", "subject": "bold", "note": "warn"}
#: What is noted of cases, in the order shown.
NOTE_STYLES: Mapping[str, Style] = {
    "newly_errored": "bad",
    "vanished": "bad",
    "newly_skipped": "warn",
    "content_changed": "warn",
    "recovered": "good",
    "added": "plain",
}

MOST_CASES = 10
MOST_NOTES = 50
MOST_ABSENT = 3
MOST_CONFUSIONS = 15


@dataclass(frozen=True, slots=True)
class Cell:
    """``code``: a name that is not prose. ``heat``: a change from −1 to 1 that colours the cell."""

    text: str
    style: Style = "plain"
    code: bool = False
    heat: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Block:
    """A title and below it lines, a table (columns numbered in ``right`` to the right), or source lines of a
    difference."""

    title: str | None
    lines: tuple[Line, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    right: frozenset[int] = frozenset()
    source: tuple[str, ...] = ()
    more: int = 0
    level: int = 2


def blocks(comparison: Comparison, lang: str = "en", *, most_cases: int = MOST_CASES) -> Iterator[Block]:
    """Everything, the most important first: what differs between the runs, then figures, then cases, then causes."""
    view = _View(comparison, lang)
    yield Block(None, tuple(view.head()))
    if comparison.is_unchanged:
        # Equal as far as it goes: what was left out is shown, so that equal does not stand for it too.
        yield from view.blocked()
        return
    yield from view.notes()
    yield from view.metrics()
    yield from view.heat_map()
    yield from view.changes(most_cases)
    yield from view.confusions()
    yield from view.prompts()


def signed(value: float | None, decimals: int = DECIMALS) -> str:
    """``+0.030``, ``-0.120``, ``0``; ``-`` for none."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:+.{decimals}f}"


def p_text(value: float | None) -> str:
    if value is None:
        return "-"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def interval(metric: MetricDifference) -> str:
    return "-" if metric.low is None or metric.high is None else f"[{signed(metric.low)}, {signed(metric.high)}]"


def finding(metric: MetricDifference, lang: str = "en") -> str:
    """``clear: better``, ``likely: worse``, ``within noise``, ``too few differ``, ``only units differ``."""
    key: str = metric.signal
    if metric.signal == "unclear" and not metric.wins and not metric.losses:
        key = "units"
    elif metric.signal == "unclear" and metric.differing < FEWEST_TELLING:
        key = "too_few"
    signal = text(f"signal.{key}", lang)
    if metric.direction == "none":
        return signal
    absent = metric.direction == "coverage_lost" and metric.lost == metric.absent
    key = "coverage_absent" if absent else metric.direction
    return f"{signal}{'：' if lang == 'zh' else ': '}{text(f'direction.{key}', lang, lost=metric.lost)}"


def style_of(metric: MetricDifference) -> Style:
    styles: dict[str, Style] = {"better": "good", "worse": "bad", "coverage_lost": "warn"}
    faint = metric.signal in ("same", "unclear", "unmeasured", "incomparable", "untested")
    return styles.get(metric.direction, "faint" if faint else "plain")


class _View:
    def __init__(self, comparison: Comparison, lang: str) -> None:
        self._c, self._lang = comparison, lang

    def _(self, key: str, **values: object) -> str:
        return text(key, self._lang, **values)

    def head(self) -> Iterator[Line]:
        c = self._c
        for setting in c.settings:
            title = setting_title(setting.name, self._lang)
            yield Line(self._(setting.effect, name=title, a=setting.a, b=setting.b), EFFECT_STYLES[setting.effect])
        kinds = dict.fromkeys(setting.name.partition(" ")[0] for setting in c.subjects)
        if len(kinds) > 1:
            names = ", ".join(setting_title(name, self._lang) for name in kinds)
            yield Line(self._("causes", names=names), "warn")
        for letter, side in (("A", c.a), ("B", c.b)):
            if side.embedded:
                yield Line(self._("embedded", letter=letter), "warn")
            if side.partial:
                key = "partial_decided" if side.partial == "decided" else "partial"
                yield Line(self._(key, letter=letter, partial=side.partial), "warn")
        if c.content_changed:
            yield Line(self._("content", count=len(c.content_changed)), "warn")
        for letter, side in (("A", c.a), ("B", c.b)):
            counts = {name: side.counts.get(name, 0) for name in ("scored", "errored", "skipped", "not_run")}
            named = {"label": side.label, "prompts": side.prompts, "model": side.model, "engine": side.engine}
            yield Line(self._("side", letter=letter, **named, **counts))
        if c.moved:
            yield Line(self._("moved", count=c.moved), "warn")
        if not c.compared:
            yield Line(self._("zero"), "bad")
        elif c.is_unchanged:
            limited = any(setting.effect == "limits" for setting in c.settings)
            key = "same_partly" if limited else "same"
            yield Line(self._(key, count=c.compared), "warn" if limited else "good")
        else:
            yield Line(self._("compared", count=c.compared, unchanged=c.unchanged))
            if c.uncompared:
                yield Line(self._("uncompared", count=c.uncompared), "warn")
        lost = max((metric.lost - metric.absent for metric in (*c.metrics, *c.keyed)), default=0)
        if lost:
            yield Line(self._("lost_cases", count=lost), "bad")
        held_back = max((metric.held_back for metric in c.metrics), default=0)
        if held_back:
            names = " / ".join(setting_title(one.name, self._lang) for one in c.settings if one.files)
            yield Line(self._("held_back", count=held_back, names=names), "warn")
        yield from self._absent()
        if c.a.cost_usd is not None and c.b.cost_usd is not None and (c.a.cost_usd or c.b.cost_usd):
            yield Line(self._("cost", a=f"{c.a.cost_usd:.4f}", b=f"{c.b.cost_usd:.4f}"))

    def _absent(self) -> Iterator[Line]:
        """The metrics that B did not measure in cases that it scored, by how many these are."""
        paths: dict[int, list[str]] = {}
        for metric in (*self._c.metrics, *self._c.keyed):
            if metric.absent:
                paths.setdefault(metric.absent, []).append(metric.path)
        for count in sorted(paths, reverse=True)[:MOST_ABSENT]:
            yield Line(self._("absent", metrics=_grouped(paths[count]), count=count), "bad")

    def notes(self) -> Iterator[Block]:
        """Cases that are not in it, or not whole."""
        for key, style in NOTE_STYLES.items():
            notes: Sequence[CaseNote] = getattr(self._c, key)
            if notes:
                rows = tuple(
                    (Cell(note.case, style, code=True), Cell(self._reason(note))) for note in notes[:MOST_NOTES]
                )
                head = (self._("case"), self._("reason"))
                yield Block(f"{self._(key)} ({len(notes)})", head=head, rows=rows, more=len(notes) - len(rows))
        for key in ("only_a", "only_b"):
            paths: Sequence[str] = getattr(self._c, key)
            if paths:
                yield Block(self._(key), (Line(_grouped(paths), "warn"),))

    def _reason(self, note: CaseNote) -> str:
        return self._(note.reason) if note.reason in ("not_run", "decided") else note.reason

    def metrics(self) -> Iterator[Block]:
        shown = [one for one in self._c.metrics if one.kind == "ratio" and one.signal != "incomparable"]
        shown = [one for one in shown if one.value_a is not None or one.value_b is not None]
        names = ("metric", "value_a", "value_b", "difference", "interval", "p", "holm", "wtl", "cases", "finding")
        if shown:
            lines = (Line(self._("sign")), Line(self._("tested", count=self._c.families.get("metrics", 0))))
            rows = tuple(self._metric_row(one) for one in shown)
            head = tuple(map(self._, names))
            yield Block(self._("metrics"), lines, head, rows, frozenset({1, 2, 3, 5, 6, 8}))
        counts = [one for one in self._c.metrics if one.kind == "count" and one.difference]
        if counts:
            rows = tuple(
                (Cell(one.path, code=True), *map(Cell, map(_number, (one.value_a, one.value_b))), Cell(_plus(one)))
                for one in counts
            )
            yield Block(self._("counts"), (), tuple(map(self._, names[:4])), rows, frozenset({1, 2, 3}))
        yield from self.blocked()

    def _metric_row(self, one: MetricDifference) -> tuple[Cell, ...]:
        style = style_of(one)
        cells = (
            signed(one.difference),
            interval(one),
            p_text(one.p_value),
            p_text(one.holm),
            f"{one.wins}/{one.ties}/{one.losses}" if one.difference is not None else "-",
            str(one.cases),
            finding(one, self._lang),
        )
        values = (Cell(value_text(value)) for value in (one.value_a, one.value_b))
        return (Cell(one.path, style, code=True), *values, *(Cell(cell, style) for cell in cells))

    def blocked(self) -> Iterator[Block]:
        for name in dict.fromkeys(one.blocked_by for one in self._c.metrics if one.blocked_by):
            own = [one for one in self._c.metrics if one.blocked_by == name]
            rows = tuple(
                (Cell(one.path, code=True), *(Cell(_shown(one, value)) for value in (one.whole_a, one.whole_b)))
                for one in own
                if one.whole_a is not None or one.whole_b is not None
            )
            apart = self._c.vanished or self._c.added or self._c.content_changed
            key = "blocked_own" if apart else "blocked_note"
            line = Line(self._(key, name=setting_title(name, self._lang)), "warn")
            head = tuple(map(self._, ("metric", "value_a", "value_b")))
            yield Block(self._("blocked"), (line,), head, rows, frozenset({1, 2}))

    def heat_map(self) -> Iterator[Block]:
        own = [one for one in self._c.heat_map if one.difference is not None]
        if not own:
            return
        head = tuple(map(self._, ("dimension", "value_a", "value_b", "difference", "interval", "p", "holm", "wtl")))
        rows = []
        for one in own:
            cells = (interval(one), p_text(one.p_value), p_text(one.holm), f"{one.wins}/{one.ties}/{one.losses}")
            heat = one.difference
            rows.append(
                (
                    Cell(one.path.partition(".")[2].partition(".")[2], style_of(one), code=True),
                    *(Cell(value_text(value)) for value in (one.value_a, one.value_b)),
                    Cell(signed(one.difference), heat=heat),
                    *(Cell(cell) for cell in cells),
                )
            )
        note = Line(self._("tested_dimensions", count=self._c.families.get("l1.per_dimension_f1", 0)))
        yield Block(self._("heat_map"), (note,), head, tuple(rows), frozenset({1, 2, 3, 5, 6, 7}))

    def changes(self, most: int) -> Iterator[Block]:
        changes = self._c.changes[:most]
        if not changes:
            return
        rows = tuple((Cell(change.case, code=True), Cell(self._figures(change))) for change in changes)
        head = (self._("case"), self._("figures"))
        title = f"{self._('changes')} ({len(self._c.changes)})"
        yield Block(title, head=head, rows=rows, more=len(self._c.changes) - len(changes))
        for change in changes:
            if change.memories:
                sides = (self._("truth"), "A", "B")
                cells = tuple(self._memory_row(row) for row in change.memories)
                yield Block(self._("memories", case=change.case), head=sides, rows=cells, level=3)

    def _figures(self, change: CaseChange) -> str:
        figures = []
        for path, a, b in change.figures:
            one = self._c.metric(path)
            figures.append(f"{path} {_shown(one, a)} → {_shown(one, b)}")
        return ", ".join(figures)

    def _memory_row(self, row: MemoryRow) -> tuple[Cell, ...]:
        if row.truth is None:
            truth = Cell(self._("not_labelled"), "faint")
        elif row.truth.get("content") is None:
            truth = Cell(self._("no_truth_text", index=row.truth.get("index", "")))
        else:
            truth = Cell(_memory(row.truth))
        return (truth, self._answer(row.a, row.truth is None), self._answer(row.b, row.truth is None))

    def _answer(self, memory: object, spare: bool) -> Cell:
        if not isinstance(memory, dict):
            return Cell("-", "faint") if spare else Cell(self._("no_match"), "bad")
        faults = [f"{self._(key)} {', '.join(memory[key])}" for key in ("missed", "extra") if memory.get(key)]
        shown = _memory(memory) + (f" ({'; '.join(faults)})" if faults else "")
        return Cell(shown, "bad" if faults or spare else "good")

    def confusions(self) -> Iterator[Block]:
        found = self._c.confusions[:MOST_CONFUSIONS]
        if not found:
            return
        rows = tuple(
            (
                Cell(one.stage, code=True),
                Cell(one.expected, code=True),
                Cell(one.given, code=True),
                Cell(_number(one.a)),
                Cell(_number(one.b)),
                Cell(self._(f"change.{one.change}"), "bad" if one.b > one.a else "good"),
                Cell(", ".join(name.rpartition("::")[2] for name in one.cases)),
                Cell(_first(one.prompt_lines)),
            )
            for one in found
        )
        names = ("stage", "expected", "given", "value_a", "value_b", "change", "cases", "prompt_lines")
        more = len(self._c.confusions) - len(found)
        yield Block(self._("confusions"), (), tuple(map(self._, names)), rows, frozenset({3, 4}), more=more)

    def prompts(self) -> Iterator[Block]:
        for number, prompt in enumerate(self._c.prompts):
            title = self._("prompts") if number == 0 else None
            if prompt.diff is None:
                names = f"{prompt.stage}: {prompt.version_a or '-'} → {prompt.version_b or '-'}"
                yield Block(title, (Line(names, "bold"), Line(self._("no_text"), "warn")))
            else:
                yield Block(title, source=prompt.diff)


def _grouped(paths: Sequence[str]) -> str:
    """Metrics with keys by their name, with how many there are: ``l1.per_dimension_recall (7)``."""
    counts: dict[str, int] = {}
    for path in paths:
        section, _, name = path.partition(".")
        counts[f"{section}.{name.partition('.')[0]}"] = counts.get(f"{section}.{name.partition('.')[0]}", 0) + 1
    return ", ".join(name if name in paths else f"{name} ({count})" for name, count in counts.items())


def _memory(memory: object) -> str:
    assert isinstance(memory, dict)
    dimensions = ", ".join(str(one) for one in memory.get("dimensions") or ())
    return f"{memory.get('content') or '…'} [{dimensions}]"


def _first(lines: Sequence[str], width: int = 90) -> str:
    if not lines:
        return ""
    line = lines[0] if len(lines[0]) <= width else lines[0][: width - 1] + "…"
    return line + (f" (+{len(lines) - 1})" if len(lines) > 1 else "")


def _number(value: float | None) -> str:
    return "-" if value is None else number_text(round(value, 6))


def _shown(one: MetricDifference | None, value: float | None) -> str:
    """A metric's value; a count as the whole number that it mostly is."""
    return _number(value) if one is not None and one.kind == "count" else value_text(value)


def _plus(one: MetricDifference) -> str:
    return "-" if one.difference is None else ("+" if one.difference > 0 else "") + _number(one.difference)
