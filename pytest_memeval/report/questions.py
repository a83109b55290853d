"""Sets of questions in the terminal summary and in ``report.md``: a row a question type, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.report.messages import text
from pytest_memeval.report.numbers import interval_text, value_text

#: Columns of the table by type: key of a row → heading.
COLUMNS: Mapping[str, str] = {
    "judge_score": "judge",
    "f1": "F1",
    "errors_as_wrong": "as_wrong",
    "bleu1": "BLEU-1",
    "rougeL": "ROUGE-L",
    "refused": "refused",
    "turn_recall": "turn_recall",
    "session_recall": "session_recall",
}

#: LoCoMo's number of a type of question.
LOCOMO_CATEGORIES: Mapping[int, str] = {
    1: "multi_hop",
    2: "temporal",
    3: "open_domain",
    4: "single_hop",
    5: "adversarial",
}


class QuestionSet:
    """One case set of kind ``qa`` in a report."""

    def __init__(
        self, path: str, scope: Mapping[str, Any], lang: str, controls: Mapping[str, Any] | None = None
    ) -> None:
        self.path, self._scope, self._lang = path, scope, lang
        self._controls = controls
        self._facts: Mapping[str, Any] = scope["questions"]
        self._protocol: Mapping[str, Any] = scope["protocol"]
        self._body: Mapping[str, Any] = scope.get("qa") or {}

    @property
    def _text(self) -> str:
        """What the questions are asked about."""
        return "haystack" if self._protocol.get("format") == "longmemeval" else "conversation"

    def _(self, key: str, **values: Any) -> str:
        return text(f"question.{key}", self._lang, **values)

    def asked(self) -> str:
        """How the questions were asked, in a line."""
        protocol = self._protocol
        judge = protocol.get("judge")
        k = protocol.get("retrieval_k")
        captions = {None: "captions_none", "off": "captions_off"}.get(protocol.get("captions"), "captions_on")
        trials = int(protocol.get("trials", 1))
        return self._(
            "asked",
            memory=f"{protocol.get('memory', '-')}" + (f" (k {k})" if k else ""),
            answerer=_answerer(protocol),
            judge=self._("judged_by", name=judge.get("model")) if judge else self._("no_judge"),
            captions=self._(captions),
            trials=self._("single_run") if trials < 3 else self._("trials", count=trials),
        )

    def head(self) -> list[str]:
        named = [self._(name) if name.islower() else name for name in self._columns().values()]
        return [self._("type"), self._("n"), text("status.errored", self._lang), *named]

    def _columns(self) -> dict[str, str]:
        """The columns in which any type has a value; what errors could hide, only where there are any."""
        rows = self._facts["categories"]
        left = set() if self._facts["errors"] else {"errors_as_wrong"}
        return {
            key: name
            for key, name in COLUMNS.items()
            if key not in left and any(row.get(key) is not None for row in rows)
        }

    def rows(self) -> list[list[str]]:
        """A row a type, and one over all questions that have an answer; ``n`` counts errored questions, too."""
        columns = self._columns()
        rows = [
            [row["type"], str(row["n"]), str(row["errors"]), *(self._cell(row, key) for key in columns)]
            for row in self._facts["categories"]
        ]
        size = (self._body.get("n") or {}).get("f1")
        if size:
            values = [self._cell(self._overall(key), key) for key in columns]
            rows.append([self._("all"), *map(str, self._answerable(int(size["units"]))), *values])
        return rows

    def _overall(self, key: str) -> dict[str, Any]:
        """A figure over all questions that have an answer, as a type's row has it."""
        if key == "refused":
            return {}  # of a question with an answer a refusal is no merit
        if key == "errors_as_wrong":
            return {key: (self._facts["headline"] or {}).get(key)}
        return {key: self._body.get(key), f"{key}_interval": self._body["intervals"].get(key)}

    def _answerable(self, measured: int) -> tuple[int, int]:
        """How many questions have an answer, and how many of these errored."""
        told = self._facts.get("answerable")
        if told is not None:
            return int(told["n"]), int(told["errors"])
        # A report of an older version says it of the figure that is its headline.
        headline = self._facts["headline"]
        errors = int(headline["errors"]) if headline else int(self._facts["errors"])
        return measured + errors, errors

    @staticmethod
    def _cell(row: Mapping[str, Any], key: str) -> str:
        interval = row.get(f"{key}_interval") if key in ("judge_score", "f1") else None
        return value_text(row.get(key)) + (f" {interval_text(interval)}" if interval else "")

    def lines(self) -> Iterator[str]:
        """Sentences below the table."""
        yield from self._headline()
        yield from self._judge_check()
        yield from self._official()
        baseline = self._facts["always_refuse"]
        if baseline:
            yield self._("always_refuse", figures=_figures(baseline))
        ceiling = self._facts["ceiling"]
        if ceiling and ceiling["value"] is not None:
            yield self._("ceiling", wrong=ceiling["wrong_labels"], n=ceiling["n"], value=value_text(ceiling["value"]))
            corrected = {name: value for name, value in self._flat("_corrected") if "recall" not in name}
            if corrected:
                yield self._("corrected", figures=_figures(corrected))
        averaged = {name: value for name, value in (self._body.get("task_averaged") or {}).items() if name in COLUMNS}
        if len(self._facts["categories"]) > 1 and averaged:
            yield self._("task_averaged", figures=_figures(averaged))
        arms = self._body.get("f1_by_arm")
        if arms:
            lifts = {f"lift over {arm}": value for arm, value in (self._body.get("f1_lift_over") or {}).items()}
            yield self._("arms", figures=_figures({**arms, **lifts}))
        yield from self._retrieval()

    def _headline(self) -> Iterator[str]:
        headline = self._facts["headline"]
        if headline is None:
            return
        yield self._(
            f"headline_{headline['basis']}",
            metric=f"qa.{headline['metric']}",
            value=value_text(headline["measured"]),
            bound=value_text(headline["errors_as_wrong"]),
            interval=interval_text(headline["interval"]),
            n=int(headline["n"]),
            errors=headline["errors"],
            clusters=headline.get("clusters", self._facts["clusters"]),
            texts=self._(f"texts_{self._text}"),
            scope=self._numbers(official=False),
            **({"of": int(headline["n"]) + headline["errors"]} if headline["basis"] == "errors_as_wrong" else {}),
        )

    def _judge_check(self) -> Iterator[str]:
        if not self._controls or self._body.get("judge_score") is None:
            return
        accuracy = self._controls["accuracy"]
        yield self._(
            "controls",
            **{name: value_text(self._controls[name]["value"]) for name in ("sensitivity", "specificity")},
            wanted=self._controls["wanted"],
            raw=value_text(accuracy["raw"]),
            corrected=value_text(accuracy["value"]),
            interval=interval_text(accuracy["interval"]),
        )
        if self._controls["trustworthy"] is not True:
            yield self._("untrusted")

    def _official(self) -> Iterator[str]:
        for section, name in (("locomo", "f1_official"), ("longmemeval", "accuracy")):
            body = self._scope.get(section) or {}
            if body.get(name) is not None:
                yield self._(
                    "official",
                    name=f"{section}.{name}",
                    value=value_text(body[name]),
                    interval=interval_text(body["intervals"].get(name)),
                    n=int(body["n"][name]["units"]),
                    scope=self._numbers(official=True) if section == "locomo" else self._("scope_longmemeval"),
                    bound=value_text((body.get("errors_as_wrong") or {}).get(name)),
                )

    def _numbers(self, *, official: bool) -> str:
        """LoCoMo's numbers of the categories that a figure is over, as a part of a sentence; nothing for other sets."""
        if self._protocol.get("format") != "locomo":
            return ""
        present = {row["type"] for row in self._facts["categories"]}
        if not official and not self._protocol.get("adversarial_in_headline"):
            present.discard("adversarial")
        numbers = [number for number, kind in LOCOMO_CATEGORIES.items() if kind in present]
        return self._("of_categories", numbers=", ".join(map(str, numbers)))

    def _retrieval(self) -> Iterator[str]:
        found = {name: value for name, value in self._flat("@10") if name.startswith(("turn_", "session_"))}
        if not found:
            found = dict(self._flat("_recall"))
        tokens = self._body.get("context_tokens")
        if found and tokens is not None:
            yield self._("retrieval", figures=_figures(found), tokens=round(tokens))

    def _flat(self, ending: str) -> Iterator[tuple[str, float]]:
        for name, value in self._body.items():
            if name.endswith(ending) and "_corrected@" not in name and isinstance(value, int | float):
                yield name, value

    def by_text(self) -> str:
        """The heading of the table by conversation."""
        return self._(f"by_{self._text}")

    def conversations(self) -> tuple[list[str], list[list[str]]]:
        """Head and rows of the table by conversation; no rows where every question has a text of its own."""
        names = {"judge_score": "judge", "f1": "F1", "adversarial_accuracy": "refused", "turn_recall": "turn_recall"}
        own: Mapping[str, Mapping[str, Any]] = self._facts["by_conversation"]
        kept = {key: name for key, name in names.items() if any(row.get(key) is not None for row in own.values())}
        head = [
            *(self._(self._text), self._("n"), text("status.errored", self._lang)),
            *(self._(name) if name.islower() else name for name in kept.values()),
        ]
        rows = [
            [name, str(row["n"]), str(row["errors"]), *(value_text(row.get(key)) for key in kept)]
            for name, row in own.items()
        ]
        return head, rows

    def protocol(self) -> list[tuple[str, str]]:
        """What was fixed of the measurement, flat."""
        return list(_flattened(self._protocol))


def question_sets(report: Mapping[str, Any], lang: str) -> list[QuestionSet]:
    """The report's sets of questions; none for a report of an older version."""
    return [
        QuestionSet(path, scope, lang, (report.get("judge") or {}).get("controls"))
        for path, scope in report["case_sets"].items()
        if scope.get("questions") and scope.get("protocol") is not None
    ]


def _answerer(protocol: Mapping[str, Any]) -> str:
    answer = protocol.get("answer")
    if not answer:
        return str(protocol.get("answerer", "-"))
    return f"{protocol['answerer']} {answer.get('model') or answer.get('provider')} {answer.get('prompt_version')}"


def _figures(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value_text(value)}" for name, value in values.items())


def _flattened(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flattened(value, f"{before}{name}.")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield f"{before}{name}", ", ".join(map(str, value)) or "-"
        else:
            yield (
                f"{before}{name}",
                "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value),
            )
