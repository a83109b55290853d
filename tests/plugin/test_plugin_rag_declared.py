"""The metrics that an evaluator declares, held against those that it gives: what lacks is an error, what it does not
declare is named, and neither is passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plugin_project import MODES, Project

EVALUATORS = """
from pytest_memeval.rag import BaseEvaluator, EvalResult
from pytest_memeval.rag.offline import OfflineEvaluator


class Empty(BaseEvaluator):
    metrics = ("polite",)

    async def evaluate_sample(self, sample):
        return EvalResult(sample, {"polite": True} if sample.id == "s0" else {})


class OneText(Empty):
    metrics = "polite"


class Listed(Empty):
    metrics = ["polite"]


class Silent(Empty):
    metrics = ()


class Nothing(Empty):
    metrics = None


class Explicit(BaseEvaluator):
    metrics = ("polite",)

    async def evaluate_sample(self, sample):
        return {"polite": True if sample.id == "s0" else None}


class Reasoned(BaseEvaluator):
    metrics = ("polite",)

    async def evaluate_sample(self, sample):
        if sample.id == "s0":
            return EvalResult(sample, {"polite": True})
        return EvalResult(sample, unmeasured={"polite": "too short"})


class Misspelt(BaseEvaluator):
    metrics = ("words", "polite")

    async def evaluate_sample(self, sample):
        return {"wordz": 1, "polite": True}


class Label(BaseEvaluator):
    metrics = ("mood",)

    async def evaluate_sample(self, sample):
        return {"mood": "calm"} if sample.id == "s0" else {}


class Composite(BaseEvaluator):
    metrics = ("polite", "words")

    async def evaluate_sample(self, sample):
        scores = dict((await Empty().evaluate_sample(sample)).scores)
        return EvalResult(sample, {**scores, "words": 2})


class Offline(OfflineEvaluator):
    def __init__(self):
        super().__init__()
        self.metrics = (*self.metrics, "extra")


class Twice(Explicit):
    metrics = ("polite", "polite")


class OwnPrompt(BaseEvaluator):
    prompt = "Rate how polite it is: {response}"

    async def evaluate_sample(self, sample):
        return {"polite": True}


class OwnPromptDeclared(OwnPrompt):
    metrics = {"polite"}
    llm = object()


class Number(Explicit):
    metrics = 5


class Raises(Explicit):
    @property
    def metrics(self):
        raise RuntimeError("ask me later")


class Extra(BaseEvaluator):
    metrics = ("words",)

    async def evaluate_sample(self, sample):
        return {"words": 2, "sentences": 1, "unsaid": None}
"""
COUNT = 11


@pytest.fixture
def rag(project: Project) -> Project:
    project.pytester.makepyfile(ev2=EVALUATORS)
    rows = [
        {"id": f"s{n}", "query": "Where?", "contexts": ["Here."], "response": "Here.", "ground_truth": "here"}
        for n in range(COUNT)
    ]
    project.write("t.memeval.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return project


def run(rag: Project, name: str, gate: str, *args: str) -> tuple[int, dict[str, Any], dict[str, Any], str]:
    """Exit status, gate, section and text of a run with one evaluator."""
    result = rag.run("t.memeval.jsonl", "--memeval-evaluator", f"ev2:{name}", "--memeval-gate", f"P0 {gate}", *args)
    report = rag.report()
    return int(result.ret), report["gates"][0], report["rag"], result.stdout.str()


def messages(rag: Project) -> set[str]:
    return {error["message"] for entry in rag.report()["per_case"] for error in entry["errors"]}


@MODES
@pytest.mark.parametrize("name", ["Empty", "OneText", "Listed"])
def test_a_declared_metric_that_lacks_is_an_error_and_not_passed_over(
    rag: Project, mode: tuple[str, ...], name: str
) -> None:
    status, gate, section, text = run(rag, name, "rag.polite >= 0.9", *mode)
    assert (status, gate["status"]) == (1, "unmeasured")
    assert section["metric_errors"] == {"polite": COUNT - 1}
    said = f"{name}: polite: the evaluator declares it, and the result lacks it: give None where there is nothing"
    assert messages(rag) == {f"{said} to measure"}
    assert said in text
    # The allowed share of errors decides, and none of them is a zero.
    status, gate, section, _ = run(rag, name, "rag.polite >= 0.9", "--memeval-max-error-rate=0.95", *mode)
    assert (gate["status"], gate["value"], section["n"]["polite"]["cases"]) == ("passed", 1, 1)
    # A sample that could not be measured is no green one all the same.
    assert status == 1


@MODES
@pytest.mark.parametrize(
    ("name", "errors"), [("Silent", {}), ("Nothing", {}), ("Explicit", {}), ("Reasoned", {"polite": COUNT - 1})]
)
def test_none_is_not_applicable_and_who_declares_nothing_owes_nothing(
    rag: Project, mode: tuple[str, ...], name: str, errors: dict[str, int]
) -> None:
    status, gate, section, _ = run(rag, name, "rag.polite >= 0.9", *mode)
    assert (status, gate["status"]) == ((1, "unmeasured") if errors else (0, "passed"))
    assert section["metric_errors"] == errors
    assert messages(rag) == ({"Reasoned: polite: too short"} if errors else set())


@MODES
def test_a_misspelt_metric_is_named_with_the_declared_one(rag: Project, mode: tuple[str, ...]) -> None:
    status, gate, section, text = run(rag, "Misspelt", "rag.words >= 1", *mode)
    assert (status, gate["status"]) == (1, "unmeasured")
    said = "Misspelt: words: the evaluator declares it, and the result lacks it, but has 'wordz', which is not declared"
    assert messages(rag) == {said}
    assert said in text
    assert section["metric_errors"] == {"words": COUNT}
    assert (section["polite"], section["n"]["polite"]["cases"]) == (1, COUNT)
    note = (
        f"Evaluator Misspelt gave wordz in {COUNT} case(s), which is none of the metrics that it declares. The nearest"
        " of those is words."
    )
    assert note in rag.report()["notes"]
    assert note in " ".join(text.split())


@MODES
def test_what_is_not_declared_counts_and_is_told(rag: Project, mode: tuple[str, ...]) -> None:
    status, gate, section, _ = run(rag, "Extra", "rag.sentences >= 1", *mode, "--memeval-trials=2")
    assert (status, gate["status"], section["words"]) == (0, "passed", 2)
    told = f"Evaluator Extra gave sentences in {COUNT} case(s), which is none of the metrics that it declares."
    assert [note for note in rag.report()["notes"] if "declares" in note] == [told]
    (rag.path / "out").rename(rag.path / "kept")
    run(rag, "Extra", "rag.sentences >= 1", *mode, "--memeval-trials=2", "--memeval-resume=kept")
    assert rag.report()["environment"]["resumed"]["cases"] == COUNT
    assert told in rag.report()["notes"]
    text = run(rag, "Extra", "rag.sentences >= 1", *mode, "--memeval-lang=zh")[3]
    assert f"评估器 Extra 在 {COUNT} 个用例中给出了未声明的指标 sentences。" in text


@pytest.mark.parametrize(
    ("name", "metric", "lacking"),
    [("Label", "mood", COUNT - 1), ("Composite", "polite", COUNT - 1), ("Offline", "extra", COUNT)],
)
def test_labels_and_evaluators_of_several_parts_are_held_to_it_too(
    rag: Project, name: str, metric: str, lacking: int
) -> None:
    status, gate, section, _ = run(rag, name, f"rag.{metric} >= 0.9")
    assert (status, gate["status"], section["metric_errors"]) == (1, "unmeasured", {metric: lacking})


def test_the_evaluators_of_the_package_give_all_that_they_declare(rag: Project) -> None:
    result = rag.run("t.memeval.jsonl", "--memeval-trials=2")
    result.assert_outcomes(passed=COUNT)
    assert rag.report()["rag"]["metric_errors"] == {}
    assert [note for note in rag.report()["notes"] if "declares" in note] == []


@MODES
def test_a_trial_that_lacks_it_is_enough(rag: Project, mode: tuple[str, ...]) -> None:
    (rag.path / "ev2.py").write_text(
        EVALUATORS
        + """

class Second(BaseEvaluator):
    metrics = ("polite",)
    seen = {}

    async def evaluate_sample(self, sample):
        self.seen[sample.id] = self.seen.get(sample.id, 0) + 1
        return {"polite": True} if self.seen[sample.id] == 1 else {}
""",
        encoding="utf-8",
    )
    status, gate, section, _ = run(rag, "Second", "rag.polite >= 0.9", "--memeval-trials=2", *mode)
    assert (status, gate["status"], section["metric_errors"]) == (1, "unmeasured", {"polite": COUNT})
    assert {message.partition(":")[0] for message in messages(rag)} == {"trial 2 of 2"}


@MODES
@pytest.mark.parametrize("name", ["Explicit", "Twice", "OwnPrompt", "OwnPromptDeclared"])
def test_what_an_evaluator_keeps_under_the_name_of_a_prompt_is_its_own_affair(
    rag: Project, mode: tuple[str, ...], name: str
) -> None:
    status, gate, _, text = run(rag, name, "rag.polite >= 0.9", *mode)
    assert (status, gate["status"]) == (0, "passed"), text
    # A sample of which nothing was measured is a skip.
    scored = 1 if name in ("Explicit", "Twice") else COUNT
    counts = rag.report()["counts"]
    assert (counts["scored"], counts["skipped"]) == (scored, COUNT - scored)


@MODES
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Number", "TypeError: metrics must be a text or several, such as ('fluency',), not int"),
        ("Raises", "RuntimeError: ask me later (ev2.py:"),
    ],
)
def test_names_that_cannot_be_had_are_told_in_a_sentence(
    rag: Project, mode: tuple[str, ...], name: str, why: str
) -> None:
    result = rag.run("t.memeval.jsonl", "--memeval-evaluator", f"ev2:{name}", *mode)
    result.assert_outcomes(errors=COUNT)
    text = result.stdout.str()
    assert f"--memeval-evaluator: 'ev2:{name}' does not say what it gives: {why}" in text
    assert "pytest_memeval/" not in text
