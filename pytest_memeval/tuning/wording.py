"""The sentences and cells that the terminal, Markdown and HTML share, taken from a tuning document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_memeval.tuning.messages import text

#: So many combinations are shown; the JSON has all.
SHOWN_RESULTS = 20


def number(value: float | None, *, signed: bool = False) -> str:
    """A score or a gain with four decimals; ``-`` for ``None``."""
    if value is None:
        return "-"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def params_text(params: Mapping[str, Any] | None) -> str:
    return "-" if params is None else " ".join(f"{name}={value_text(value)}" for name, value in params.items())


def value_text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def p_text(p_value: float | None) -> str:
    if p_value is None:
        return "-"
    return f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"


class Words:
    """A tuning document in sentences of one language."""

    def __init__(self, document: Mapping[str, Any], lang: str) -> None:
        self.document = document
        self.lang = lang
        self.rrf: Mapping[str, Any] = document["rrf"]

    def __call__(self, key: str, **values: Any) -> str:
        return text(key, self.lang, **values)

    def input_line(self) -> str:
        queries = self.rrf["queries"]
        return self(
            "input",
            memories=self.document["corpus"]["memories"],
            queries=queries["measured"],
            groups=queries["groups"],
            combinations=len(self.rrf["all_results"]),
            metric=self.rrf["metric"],
        )

    def verdict(self) -> str:
        return self(f"verdict.{self.rrf['conclusion'] or 'none'}")

    def reason(self) -> str:
        details = {**self.rrf.get("reason_details", {}), "metric": self.rrf["metric"]}
        if "chosen" in details:
            details["chosen"] = params_text(details["chosen"])
        details["without_truth"] = self.rrf["queries"]["without_truth"]
        return self(f"reason.{self.rrf['reason']}", p=p_text(self.rrf["p_value"]), **details).replace("= <", "<")

    def value_rows(self) -> list[tuple[str, str, str]]:
        """(what, parameters, score) of the current, the best and the recommended values."""
        rrf = self.rrf
        rows = [(self("current"), params_text(rrf["current_params"]), number(rrf["current_score"]))]
        if rrf["best_params"] is not None:
            gain = number(rrf["best_score"] - rrf["current_score"], signed=True)
            rows.append(
                (
                    self("best"),
                    params_text(rrf["best_params"]),
                    f"{number(rrf['best_score'])} ({self('on_its_own', gain=gain)})",
                )
            )
        if rrf["conclusion"] == "no_queries":
            return rows  # what was not measured speaks for no value, the current ones included
        recommended = rrf["recommended_params"]
        if recommended is None:
            rows.append((self("recommended"), self("stands"), ""))
        else:
            rows.append((self("recommended"), params_text(recommended), number(rrf["recommended_score"])))
        return rows

    def unseen_lines(self) -> Iterator[str]:
        found = self.rrf["cross_validation"]
        if found is None:
            return
        apparent = number(found["apparent_gain"], signed=True)
        if found["gain"] is None:
            yield self("unseen_none", reason=self(f"interval.{found['reason']}"))
            return
        gain = number(found["gain"], signed=True)
        if found["interval"] is None:
            yield self("unseen_reason", gain=gain, reason=self(f"interval.{found['reason']}"), apparent=apparent)
        else:
            interval = f"[{', '.join(number(bound, signed=True) for bound in found['interval'])}]"
            yield self("unseen", gain=gain, interval=interval, apparent=apparent)

    def method_lines(self) -> Iterator[str]:
        found = self.rrf["cross_validation"]
        if found is None or found["gain"] is None:
            return
        yield self("how", folds=found["folds"], repeats=found["repeats"])
        choices = [f"{params_text(one['params'])} ({one['share']:.0%})" for one in found["choices"][:3]]
        more = ", …" if len(found["choices"]) > 3 else ""
        yield self("chosen_often", choices=", ".join(choices) + more)

    def sensitivity_head(self) -> list[str]:
        return [self(key) for key in ("parameter", "spread", "noise", "changed", "effect")]

    def sensitivity_rows(self) -> list[list[str]]:
        rows = []
        for name, one in self.rrf["param_sensitivity"].items():
            effect = self(f"effect.{one['effect'] or 'unknown'}")
            rows.append([name, number(one["spread"]), number(one["noise"]), str(one["changed_queries"]), effect])
        return rows

    def curve_head(self) -> list[str]:
        return [self(key) for key in ("value", "at_best", "marginal")]

    def curve_rows(self, name: str) -> list[list[str]]:
        one = self.rrf["param_sensitivity"][name]
        rows = zip(one["values"], one["at_best"], one["marginal"], strict=True)
        return [[value_text(value), number(at_best), number(marginal)] for value, at_best, marginal in rows]

    def diagnosis_lines(self) -> list[str]:
        found = self.rrf["diagnosis"]
        if found is None:
            return []
        shown = {**found, "overlap": "-" if found["overlap"] is None else f"{found['overlap']:.0%}"}
        return [self(f"diagnosis.{key}", **shown) for key in ("overlap", "both", "empty", "relevant", "same_order")]

    def remarks(self) -> list[str]:
        """What limits the result, most important first."""
        rrf = self.rrf
        lines = []
        if rrf["unmeasured"].get("failed"):
            lines.append(self("failed", failed=rrf["unmeasured"]["failed"]))
        lines += [self("failure", count=count, kind=kind) for kind, count in list(rrf["failures"].items())[:5]]
        lines += rrf["warnings"]
        for note in rrf["notes"]:
            shown = {key: number(value) if key == "score" else value for key, value in note.items() if key != "note"}
            lines.append(self(f"note.{note['note']}", **shown))
        if rrf["queries"]["without_truth"] and rrf["conclusion"] != "no_queries":
            lines.append(self("without_truth", count=rrf["queries"]["without_truth"]))
        search = self.document["search"]
        if search.get("embeddings"):
            asked = search["embeddings"]
            cost = asked["spent_usd"]
            price = self("unknown_cost") if cost is None else f"${cost:.4f}"
            lines.append(self("embeddings", requests=asked["requests"], tokens=asked["input_tokens"], cost=price))
        if search.get("why"):
            lines.append(self("slow_vectors", backend=search["backend"], why=search["why"].rstrip(".")))
        return lines

    def partial_line(self) -> str | None:
        return self("partial", not_reached=self.rrf["unmeasured"]["not_reached"]) if self.rrf["partial"] else None

    def best_results(self) -> tuple[list[Mapping[str, Any]], int]:
        """The best combinations, and how many more there are; those without a score come last."""
        results: Sequence[Mapping[str, Any]] = self.rrf["all_results"]
        ordered = sorted(results, key=lambda one: -1.0 if one["score"] is None else one["score"], reverse=True)
        return ordered[:SHOWN_RESULTS], max(0, len(ordered) - SHOWN_RESULTS)
