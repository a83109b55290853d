"""A question, a RAG sample, searches and trials for a terminal: lines with pytest's markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_memeval.report.console import columns
from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import value_text
from pytest_memeval.report.terminal import BOLD, FAINT, GREEN, PLAIN, RED, Line
from pytest_memeval.report.views import evidence_found, question_view, sample_view, search_view, trials_view

#: So many ranks are printed of what was retrieved; the page has all.
MOST_RANKS = 10


def view_lines(entry: Mapping[str, Any], lang: str) -> Iterator[Line]:
    """What the case has of these; nothing for a plain distillation case."""
    shown = _Views(lang)
    if (question := question_view(entry)) is not None:
        yield from shown.question(question)
    if (sample := sample_view(entry)) is not None:
        yield from shown.sample(sample)
    yield from shown.searches(search_view(entry))
    yield from shown.trials(trials_view(entry))


class _Views:
    def __init__(self, lang: str) -> None:
        self._lang = lang

    def _(self, key: str, **values: Any) -> str:
        return text(f"view.{key}", self._lang, **values)

    def _words(self, value: Any) -> str:
        return text("html.js.no_text", self._lang) if value is None else str(value).replace("\n", "\n      ")

    def _fact(self, name: str, value: str) -> Line:
        return f"  {name}: {value}", PLAIN

    # -- questions -------------------------------------------------------------------------------------------------

    def question(self, view: Mapping[str, Any]) -> Iterator[Line]:
        yield self._("question"), BOLD
        yield f"  {self._words(view['question'])}", PLAIN
        about = [
            view["type"],
            self._("category", category=view["category"]) if view["category"] else None,
            self._("asked_on", date=view["date"]) if view["date"] else None,
        ]
        if any(about):
            yield "  " + " · ".join(filter(None, about)), FAINT
        yield self._fact(self._("truth"), self._("refusal") if view["truth"] == "" else self._words(view["truth"]))
        if view["corrects"]:
            yield self._fact(self._("corrected"), self._words(view["corrected"]))
        if view["trap"]:
            yield self._fact(self._("trap"), self._words(view["trap"]))
        yield self._fact(self._("answer"), self._words(view["answer"]))
        for arm, answer in view["arms"].items():
            yield self._fact(self._("arm", arm=arm), self._words(answer))
        yield from self._verdicts(view)
        yield from self._evidence(view)

    def _verdicts(self, view: Mapping[str, Any]) -> Iterator[Line]:
        yield self._("verdicts"), BOLD
        if not view["verdicts"]:
            yield f"  {self._('not_judged')}", FAINT
        for one in view["verdicts"]:
            said = self._("right" if one["right"] else "wrong")
            mode = self._("by_rule") if one["mode"] is None else one["mode"]
            of = f", {self._('of_corrected')}" if one["corrected"] else ""
            reason = "" if one["reason"] == "" else f": {self._words(one['reason'])}"
            yield f"  {said} ({value_text(one['score'])}, {mode}{of}){reason}", GREEN if one["right"] else RED

    def _evidence(self, view: Mapping[str, Any]) -> Iterator[Line]:
        if not view["told"]:
            yield self._("evidence"), BOLD
            yield f"  {self._('not_told')}", FAINT
            return
        found = evidence_found(view)
        if found is not None:
            yield f"{self._('evidence')} ({self._('evidence_share', found=found[0], of=found[1])})", BOLD
        for row in view["evidence"]:
            place = self._("not_found") if row["rank"] is None else f"{self._('rank')} {row['rank']}"
            content = "" if row["content"] is None else f": {self._words(row['content'])}"
            yield f"  {row['id']}, {place}{content}", RED if row["rank"] is None else GREEN
        if view["retrieved"]:
            ids = [f"{hit['id']}{' ✓' if hit['hit'] else ''}" for hit in view["retrieved"]]
            more = len(ids) - MOST_RANKS + view["more"]
            listed = ", ".join(ids[:MOST_RANKS]) + (f" {self._('more', count=more)}" if more > 0 else "")
            yield self._fact(self._("retrieved"), listed)

    # -- samples ---------------------------------------------------------------------------------------------------

    def sample(self, view: Mapping[str, Any]) -> Iterator[Line]:
        yield self._("sample"), BOLD
        yield f"  {self._words(view['query'])}", PLAIN
        for name in ("response", "reference"):
            yield self._fact(self._(name), self._words(view[name]) if view[f"has_{name}"] else self._("none_given"))
        yield self._("contexts"), BOLD
        if not view["contexts"]:
            yield f"  {self._('none_given')}", FAINT
        elif view["contexts"][0]["relevant"] is None:
            yield f"  {self._('unknown_relevance')}", FAINT
        marks = {True: ("✓ ", GREEN), False: ("✕ ", RED), None: ("", PLAIN)}
        for rank, row in enumerate(view["contexts"], 1):
            mark, markup = marks[row["relevant"]]
            yield f"  {rank}. {mark}{self._words(row['text'])}", markup
        if view["scores"]:
            yield self._("scores"), BOLD
        for row in view["scores"]:
            yield from self._scores(row)

    def _scores(self, row: Mapping[str, Any]) -> Iterator[Line]:
        name = row["evaluator"] or self._("scores")
        reason = "" if row["reason"] is None else f": {self._words(row['reason'])}"
        if row["failed"]:
            yield f"  {name} {self._('failed')}{reason}", RED
            return
        yield f"  {name}{reason}", PLAIN
        lines = columns([[metric, self._score(value)] for metric, value in row["metrics"].items()])
        yield from ((f"    {line}", PLAIN) for line in lines)

    def _score(self, value: Any) -> str:
        if value is None:
            return self._("not_measured")
        if isinstance(value, bool):
            return self._("yes" if value else "no")
        return str(value) if isinstance(value, str) else value_text(value)

    # -- searches and trials ---------------------------------------------------------------------------------------

    def searches(self, rows: list[dict[str, Any]]) -> Iterator[Line]:
        if rows:
            yield self._("search"), BOLD
        for row in rows:
            figures = ", ".join(f"{name} {value_text(value)}" for name, value in row["figures"].items())
            yield f"  {self._words(row['query'])}  {figures}".rstrip(), PLAIN
            for rank, hit in enumerate(row["hits"], 1):
                if hit["relevant"]:
                    content = f" {self._words(hit['content'])}" if hit["content"] else ""
                    yield f"    {rank}. {hit['id']} ✓{content}", GREEN
            if row["missed"]:
                missed = ", ".join(map(str, row["missed"]))
                yield f"    ✕ {self._('missed_hits', count=len(row['hits']))}: {missed}", RED

    def trials(self, rows: list[dict[str, Any]]) -> Iterator[Line]:
        if rows:
            yield self._("trials"), BOLD
        for row in rows:
            passed = {True: self._("held"), False: self._("missed"), None: ""}[row["passed"]]
            said = [text(f"html.js.{row['outcome']}", self._lang), passed and f"{self._('passed')} {passed}"]
            answer = "" if row["answer"] is None else f": {self._words(row['answer'])}"
            markup = RED if row["outcome"] == "errored" else PLAIN
            yield f"  {row['trial']}. {', '.join(filter(None, said))}{answer}", markup
            yield from ((f"      {error}", RED) for error in row["errors"])
