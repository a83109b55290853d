"""Runs and single cases for a terminal: lines with pytest's markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.report.console import columns
from pytest_memeval.report.funnel import FUNNEL_STAGES, case_funnel, run_funnel
from pytest_memeval.report.html.scores import main_score
from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import value_text
from pytest_memeval.report.terminal import BOLD, FAINT, GREEN, PLAIN, RED, YELLOW, Line
from pytest_memeval.report.view_text import view_lines

_OUTCOMES = {"scored": GREEN, "errored": RED, "skipped": YELLOW}


def failed_cases(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cases that errored or missed a threshold of their own, in the report's order."""
    return [entry for entry in report["per_case"] if entry["outcome"] == "errored" or entry["missed_expectations"]]


def failures_of(entry: Mapping[str, Any]) -> list[str]:
    """Why a case failed, a sentence each."""
    errors = [f"[{error['stage']}] {error['kind']}: {error['message']}".rstrip(": ") for error in entry["errors"]]
    return [*errors, *entry["missed_expectations"]]


def funnel_lines(report: Mapping[str, Any], lang: str) -> Iterator[Line]:
    """The way of the labelled memories as a table; nothing where there are none."""
    funnel = report["funnel"] if "funnel" in report else run_funnel(report["per_case"])
    if not funnel:
        return
    yield text("html.funnel", lang), BOLD
    numbers = {name: funnel[name] for name in ("facts", "cases", "kept", "lost")}
    yield text("html.funnel_note", lang, **numbers), FAINT
    head = [text(f"html.funnel.{name}", lang) for name in ("stage", "kept", "lost", "not_measured", "causes")]
    rows = [
        [
            text(f"html.stage.{stage['stage']}", lang),
            *(str(stage[name]) for name in ("kept", "lost", "not_measured")),
            ", ".join(f"{text(f'html.cause.{cause}', lang)} {number}" for cause, number in stage["causes"].items()),
        ]
        for stage in funnel["stages"]
    ]
    lines = columns([head, *rows], right=frozenset({1, 2, 3}))
    yield "  " + lines[0], FAINT
    for stage, line in zip(funnel["stages"], lines[1:], strict=True):
        yield "  " + line, RED if stage["lost"] else PLAIN


def case_list_lines(entries: Sequence[Mapping[str, Any]], lang: str) -> Iterator[Line]:
    """Cases with outcome, main score and what went wrong."""
    for entry in entries:
        score = main_score(entry)
        shown = f"  {score[0]} {value_text(score[1])}" if score is not None else ""
        place = f"  {entry['set']}:{entry['line']}" if entry["line"] else ""
        outcome = text(f"status.{entry['outcome']}", lang)
        yield f"{entry['node_id']}  {outcome}{shown}{place}", _OUTCOMES[entry["outcome"]]
        for reason in failures_of(entry):
            yield f"    {reason}", RED


def case_lines(entry: Mapping[str, Any], lang: str = "en") -> Iterator[Line]:
    """One case: what was said, expected and found, where each memory went, what failed, what was asked of models."""
    yield from _Case(entry, lang).lines()


class _Case:
    def __init__(self, entry: Mapping[str, Any], lang: str) -> None:
        self._entry, self._lang = entry, lang
        details = (entry.get("l1") or {}).get("details") or {}
        self._truth: Sequence[Mapping[str, Any]] = details.get("truth") or ()
        self._near = {miss.get("truth"): miss for miss in details.get("near_misses") or ()}
        self._found: Sequence[Mapping[str, Any]] = (entry["outputs"] or {}).get("l1") or ()

    def _(self, key: str, **values: Any) -> str:
        return text(f"html.js.{key}", self._lang, **values)

    def _words(self, value: Any) -> str:
        return self._("no_text") if value is None else str(value).replace("\n", "\n      ")

    def _title(self, key: str) -> Line:
        return self._(key), BOLD

    def lines(self) -> Iterator[Line]:
        entry = self._entry
        yield from case_list_lines([entry], self._lang)
        about = [name for name in (entry["difficulty"], entry["source"]) if name != "unspecified"]
        yield from ((line, FAINT) for line in [" · ".join((*about, *entry["tags"]))] if line)
        yield from view_lines(entry, self._lang)
        yield from self._conversation()
        yield from self._memories()
        yield from self._way()
        yield from self._decisions()
        yield from self._sections()
        yield from self._later()
        yield from self._calls()
        yield from self._figures()

    def _conversation(self) -> Iterator[Line]:
        messages = (self._entry.get("input") or {}).get("conversation") or ()
        if not messages:
            return
        cited: dict[str, list[int]] = {}
        for index, memory in enumerate(self._truth):
            for name in memory.get("source_message_ids") or ():
                cited.setdefault(name, []).append(index)
        yield self._title("conversation")
        yield from self._said(messages, cited)

    def _said(self, messages: Sequence[Mapping[str, Any]], cited: Mapping[str, Sequence[int]]) -> Iterator[Line]:
        for message in messages:
            sources = cited.get(message["id"])
            said = f" <- {' '.join(f'#{index}' for index in sources)}" if sources else ""
            yield f"  {message['id']} {message.get('name') or message['role']}{said}", YELLOW if sources else FAINT
            yield f"      {self._words(message['content'])}", PLAIN

    def _memories(self) -> Iterator[Line]:
        if not self._truth and not self._found:
            return
        yield self._title("memories_title")
        for pair in self._entry["matched_memories"] or ():
            wrong = [f"-{name}" for name in pair["missed"]] + [f"+{name}" for name in pair["extra"]]
            line = f"  {self._('similarity')} {value_text(pair['similarity'])} {' '.join(wrong)}".rstrip()
            yield line, RED if pair["missed"] else YELLOW if wrong else GREEN
            yield f"    {self._('expected')} #{pair['truth']}: {self._memory(self._truth, pair['truth'])}", PLAIN
            yield f"    {self._('extracted')} #{pair['pred']}: {self._memory(self._found, pair['pred'])}", PLAIN
        for index in self._entry["unmatched_gt"] or ():
            yield f"  {self._('not_extracted')} #{index}: {self._memory(self._truth, index)}", RED
            if (near := self._near.get(index)) is not None:
                close = f"{self._('near')} ({value_text(near['similarity'])})"
                yield f"    {close} #{near['pred']}: {self._memory(self._found, near['pred'])}", YELLOW
        for index in self._entry["unmatched_pred"] or ():
            yield f"  {self._('not_expected')} #{index}: {self._memory(self._found, index)}", YELLOW
        if self._entry["matched_memories"] is None:
            yield from ((f"  #{n}: {self._memory(self._found, n)}", PLAIN) for n in range(len(self._found)))

    def _memory(self, memories: Sequence[Mapping[str, Any]], index: int) -> str:
        if index >= len(memories):
            return "?"
        memory = memories[index]
        return f"{self._words(memory.get('content'))} [{', '.join(memory.get('dimensions') or ())}]"

    def _way(self) -> Iterator[Line]:
        rows = self._entry["funnel"] if "funnel" in self._entry else case_funnel(self._entry)
        if not rows:
            return
        yield self._title("way")
        for row in rows:
            kept = [text(f"html.stage.{stage}", self._lang) for stage in FUNNEL_STAGES if stage in row["kept"]]
            line = f"  #{row['memory']}: {' > '.join(kept)}"
            if row["lost_at"] is None:
                yield line, GREEN
            else:
                stage, cause = (
                    text(f"html.{k}.{row[n]}", self._lang) for k, n in (("stage", "lost_at"), ("cause", "cause"))
                )
                yield f"{line} x {stage}: {cause}", RED

    def _decisions(self) -> Iterator[Line]:
        actions = ((self._entry.get("l15") or {}).get("details") or {}).get("actions") or ()
        if not actions:
            return
        yield self._title("decisions")
        for action in actions:
            wanted, given = (
                " ".join((action[name], *action[targets]))
                for name, targets in (("expected", "expected_targets"), ("decided", "targets"))
            )
            line = f"  #{action['memory']}: {self._('expected')} {wanted}, {self._('decided')} {given}"
            yield line, GREEN if action["decision_right"] else RED

    def _sections(self) -> Iterator[Line]:
        units = (((self._entry.get("l2") or {}).get("details") or {}).get("sections") or {}).get("units") or ()
        if not units:
            return
        yield self._title("sections")
        for unit in units:
            placed = ", ".join(unit["placed"]) or "-"
            wanted = f"{self._('expected')} {unit['expected']}, {self._('placed')} {placed}"
            yield f"  {unit['mode']} #{unit['memory']}: {wanted}", GREEN if unit["expected"] in unit["placed"] else RED

    def _later(self) -> Iterator[Line]:
        """What was injected, below the conversation that it was injected into."""
        messages = (self._entry.get("input") or {}).get("subsequent_conversation") or ()
        if messages:
            yield text("view.later", self._lang), BOLD
            yield from self._said(messages, {})
        made = (self._entry["outputs"] or {}).get("inject") or {}
        for kind in ("pipeline", "labelled"):
            if kind not in made:
                continue
            yield f"{self._('blocks')}, {self._(kind)}", BOLD
            details = ((self._entry.get("inject") or {}).get("details") or {}).get(kind) or {}
            for block in made[kind]:
                referenced = block.get("title") in (details.get("relevant_blocks") or ())
                marks = [self._("referenced")] * referenced + [self._("absent")] * (not block["present"])
                yield f"  {self._words(block.get('title'))} {', '.join(marks)}".rstrip(), GREEN if referenced else PLAIN
                if block.get("text"):
                    yield f"      {self._words(block['text'])}", FAINT

    def _calls(self) -> Iterator[Line]:
        calls = self._entry["calls"]
        if not calls:
            return
        yield self._title("model_calls")
        for call in calls:
            tokens = f"{call['input_tokens'] if call['input_tokens'] is not None else '-'} / "
            tokens += f"{call['output_tokens'] if call['output_tokens'] is not None else '-'}"
            line = f"  {call['stage']} {call['version'] or ''} {call['model'] or call['provider'] or ''}: "
            yield f"{line}{self._('tokens')} {tokens}", RED if call["error"] is not None else PLAIN

    def _figures(self) -> Iterator[Line]:
        rows = [
            [f"{section}.{name}", value_text(value)]
            for section, record in self._entry.items()
            if isinstance(record, Mapping) and isinstance(record.get("values"), Mapping)
            for name, value in record["values"].items()
            if "." not in name and not name.startswith("_") and isinstance(value, (int, float))
        ]
        if rows:
            yield self._title("figures")
            yield from (("  " + line, PLAIN) for line in columns(rows, right=frozenset({1})))
