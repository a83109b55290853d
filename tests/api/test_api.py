"""``pytest_memeval.run``: the same report as a pytest run, without pytest."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from api_samples import Lines, OneAtATime, write
from chat_project import MODEL, chat_server, good_answer, simple_case  # noqa: F401  # chat_server is a fixture
from chat_server import ChatServer
from dataset_samples import locomo_record
from plugin_project import case, good_cases, stable

import pytest_memeval
from pytest_memeval import DocumentError, EvalCase, RunReport, SettingsError, load_cases, run
from pytest_memeval.api.run import _NOT_HERE
from pytest_memeval.options import OPTIONS, Option


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    for name in ("MEMEVAL_API_KEY", "OPENAI_API_KEY", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


MIXED = [
    *good_cases(5),
    case("wrong", "identity: is tall", truth=[("habits", "is tall")]),
    case("broken", "raise", truth=[("identity", "x")]),
    case("unlabelled", "identity: is tall", truth=[]),
]


def test_it_returns_the_report_of_a_pytest_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pytester.path)
    file = write(MIXED, gates=["P0 l1.dimension_micro_f1 >= 0.9"])
    here = stable(run(file, engine=Lines(), output="api"))
    pytester.makepyfile(
        mine=f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\nfrom api_samples import Lines"
    )
    pytester.makeini("[pytest]\npythonpath = .")
    pytester.runpytest_subprocess("--memeval-engine", "mine:Lines", "--memeval-output", "out", "-p", "no:randomly")
    there = stable(json.loads((pytester.path / "out" / "report.json").read_text("utf-8")))
    assert here == there
    assert here["counts"] == {"scored": 7, "errored": 1, "skipped": 0, "not_run": 0, "total": 8}
    written = [{path.name for path in (pytester.path / name).iterdir()} for name in ("api", "out")]
    assert written[0] == written[1]


def test_values_cases_and_the_verdict() -> None:
    report = run(write(MIXED[:6], gates=["P0 l1.dimension_micro_f1 >= 0.9"]), engine=Lines())
    assert isinstance(report, RunReport)
    assert report.value("l1.dimension_micro_f1") == pytest.approx(10 / 12)
    assert report.value("l1.dimension_micro_f1{difficulty=hard}") is None
    assert report.value("l15.action_accuracy") is None
    assert report.case("wrong")["outcome"] == "scored"
    assert [result.case_id for result in report.results][-1] == "wrong"
    assert report["summary"]["passed_p0"] is False
    assert not report.passed
    assert "P0 gate missed" in str(report)
    assert report._repr_markdown_().startswith("# ")
    assert report.folder is not None
    assert json.loads((report.folder / "report.json").read_text("utf-8"))["counts"] == report["counts"]
    with pytest.raises(KeyError, match="did you mean 'wrong'"):
        report.case("wrogn")
    with pytest.raises(ValueError, match="memory_recall"):
        report.value("l1.memory_recal")


def test_it_passes_where_everything_holds() -> None:
    report = run(write(good_cases(3)), engine=Lines, gate="P0 l1.dimension_micro_f1 >= 1")
    assert report.passed
    assert report["gates"][0]["status"] == "passed"


def test_it_works_inside_a_running_loop() -> None:
    file = write(good_cases(3))

    async def cell() -> RunReport:
        return run(file, engine=Lines())

    assert asyncio.run(cell()).value("l1.dimension_micro_f1") == 1


def test_cases_overlap_up_to_the_limit_and_give_the_same_report() -> None:
    file = write(good_cases(24))
    engine = Lines(0.05)
    started = time.perf_counter()
    together = run(file, engine=engine, concurrency=6)
    seconds = time.perf_counter() - started
    assert engine.most == 6
    assert seconds < 24 * 0.05
    alone = Lines()
    one_by_one = run(file, engine=alone, concurrency=1)
    assert alone.most == 1
    assert stable(together) == stable(one_by_one)
    careful = OneAtATime(0.01)
    assert stable(run(file, engine=careful, concurrency=6)) == stable(one_by_one)
    assert careful.most == 1


def test_answers_are_cached_as_pytest_caches_them(
    chat_server: ChatServer,  # noqa: F811  # the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MEMEVAL_API_KEY", "k")
    chat_server.script = good_answer
    file = write([simple_case(number) for number in range(4)])
    options: dict[str, Any] = {"llm": "openai", "model": MODEL, "base_url": chat_server.base_url, "cache_dir": "cache"}
    first = run(file, **options)
    assert (chat_server.count, first.value("l1.dimension_micro_f1")) == (4, 1)
    again = run(file, cache="replay", **options)
    assert chat_server.count == 4
    assert again["usage"]["calls"] == 4
    assert again.value("l1.dimension_micro_f1") == 1


def test_cases_of_files_and_cases_in_code_mix() -> None:
    file = write(good_cases(3))
    picked = load_cases(file)[1]
    own = replace(picked, case_id="own", path=None)
    report = run([picked, own], engine=Lines())
    assert [entry["node_id"] for entry in report["per_case"]] == ["cases/v001.yaml::eval-002", "code::own"]
    assert set(report["case_sets"]) == {"cases/v001.yaml", "code"}
    assert report["partial"] == "selected"
    everything = run("cases", engine=Lines())
    assert (everything["counts"]["total"], everything["partial"]) == (3, None)
    assert run(file, engine=Lines(), limit=2)["counts"]["total"] == 2
    assert run(file, engine=Lines(), sample=1, seed=3)["counts"]["total"] == 1


def test_a_row_of_recorded_outputs_is_scored_for_one_file_alone() -> None:
    files = [write([case("x", "identity: is tall")], name=f"{name}.yaml") for name in "ab"]
    row = {"case_id": "x", "l1": [{"content": "is tall", "dimensions": ["identity"]}]}
    rows = Path("rows.jsonl")
    rows.write_text(json.dumps(row) + "\n", encoding="utf-8")
    both = run(files, predictions=rows)
    assert [one["errors"][0]["kind"] for one in both["per_case"]] == ["no_prediction"] * 2
    assert "one row for x of several case files, a.yaml, b.yaml: give" in both["per_case"][0]["errors"][0]["message"]
    assert run(files[0], predictions=rows)["counts"]["errored"] == 0
    rows.write_text("".join(json.dumps({**row, "variant": name}) + "\n" for name in "ab"), encoding="utf-8")
    with pytest.raises(DocumentError, match="rows of the variants a, b"):
        run(files[0], predictions=rows)


def test_a_case_in_code_that_cannot_be_measured_is_an_error() -> None:
    report = run(EvalCase("empty"), engine=Lines())
    assert report["per_case"][0]["errors"][0]["kind"] == "invalid_case"
    assert not report.passed


def test_a_case_with_a_bad_label_is_an_error_or_a_skip() -> None:
    file = write([*good_cases(1), case("bad", "identity: x", truth=[("idntity", "x")])])
    assert run(file, engine=Lines())["counts"]["errored"] == 1
    assert run(file, engine=Lines(), on_invalid_case="skip")["counts"]["skipped"] == 1


def test_stages_and_engines_without_them() -> None:
    class Nothing:
        name = "nothing"

    file = write(good_cases(2))
    assert run(file, engine=Lines(), stages=["l1"])["stages"]["selected"] == ["l1"]
    assert run(file, engine=Lines(), stages="l2")["counts"]["skipped"] == 2
    errors = [entry["errors"][0]["kind"] for entry in run(file, engine=Nothing())["per_case"]]
    assert errors == ["no_stage", "no_stage"]


def test_the_reference_engine_on_the_offline_model_is_the_default() -> None:
    file = write(good_cases(1))
    report = run(file, prompt_version="v001")
    assert (report["engine"]["name"], report["model"]["provider"]) == ("reference", "embedded")
    assert report["prompt_versions"]["l1_extraction"] == "v001"


def test_results_are_told_as_they_come_and_what_stops_leaves_a_report() -> None:
    seen: list[str] = []

    def stop(result: Any) -> None:
        seen.append(result.case_id)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(write(good_cases(5)), engine=Lines(), on_result=stop, output="out")
    assert seen == ["eval-001", "eval-002"]
    report = json.loads(Path("out/report.json").read_text("utf-8"))
    assert (report["partial"], report["counts"]["not_run"]) == ("aborted", 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"modle": "x"}, "no option 'modle'; did you mean 'model'"),
        ({"resume": "latest"}, "resume is an option of pytest"),
        ({"prompt_version": ["v001", "v002"]}, "call run once for each"),
        ({"metrics": 5}, "run: metrics is a list of functions, not 5 .int."),
        ({"metrics": "mine:f"}, "run: metrics is a list of functions, not 'mine:f'"),
        ({"metrics": [5]}, "run: metrics is a list of functions"),
        ({"stages": 5}, "run: stages is a text or a list of texts, not 5"),
        ({"stages": [1]}, "run: stages is a text or a list of texts"),
        ({"concurrency": 0}, "0 is less than 1"),
        ({"stages": "l9"}, "unknown stage 'l9'"),
        ({"engine": "refrence"}, "unknown engine 'refrence'"),
        ({"engine": "no_such_module:X"}, "cannot be imported"),
        ({"gate": "P0 l1.memory_recal >= 1"}, "memory_recal"),
        ({"prompt_version": "v999"}, "v999"),
        ({"llm": "openai", "model": "m"}, "key"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options: dict[str, Any], words: str) -> None:
    file = write(good_cases(1))
    with pytest.raises(SettingsError, match=words.replace("?", r"\?")):
        run(file, **options)
    assert not Path(".memeval").exists()


def test_a_gate_on_a_dimension_of_a_files_own_registry() -> None:
    Path("own.yaml").write_text("dimensions: [{id: play, display_name: Play}]\nmemory_types: [fact]\n", "utf-8")
    truth = {"memories": [{"content": "likes chess", "dimensions": ["play"]}]}
    entry = {"case_id": "a", "conversation": "I like chess.", "expected_l1": truth}
    Path("play.yaml").write_text(json.dumps({"meta": {"registry": "own.yaml"}, "cases": [entry]}), "utf-8")
    gate = "P1 l1.per_dimension_f1.play >= 0.5"
    report = run(["play.yaml", write(good_cases(1))], engine=Lines(), gate=gate)
    status = {one["scope"]: one["reason_id"] for one in report["gates"] if "play" in one["metric"]}
    assert status.pop("play.yaml") != "other_registry"
    assert set(status.values()) == {"other_registry"}
    with pytest.raises(SettingsError, match="unknown dimension 'play'"):
        run(write(good_cases(1)), engine=Lines(), gate=gate)
    with pytest.raises(SettingsError, match="unknown dimension 'identity' in"):
        run("play.yaml", engine=Lines(), gate="P1 l1.per_dimension_f1.identity >= 0.5")


#: Kind of option → values that are none, and what is wanted.
WRONG: dict[str, tuple[list[Any], str]] = {
    "list": ([5, [5], {"a": 1}, b"P0", object()], "a text or a list of texts"),
    "text": ([5, ["x"], {"a": 1}, b"x", True], "a text"),
    "int": ([1.5, [1], {"a": 1}, True], "a whole number"),
    "float": ([[1], {"a": 1}, True], "a number"),
    "flag": ([5, "yes", [True], {"a": 1}], "True or False"),
}


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.name.replace("-", "_") not in _NOT_HERE])
def test_an_option_of_another_type_is_one_sentence(option: Option) -> None:
    file, name = write(good_cases(1)), option.name.replace("-", "_")
    values, wanted = WRONG[option.kind]
    for value in values:
        if name in ("engine", "llm", "judge", "metric", "stages", "evaluator"):
            continue  # objects of one's own, or given under another name
        with pytest.raises(SettingsError, match=f"{name}.* {wanted}"):
            run(file, engine=Lines(), **{name: value})
    assert not Path(".memeval").exists()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    Path("bad.yaml").write_text("cases:\n  - case_id: a\n    nonsense: 1\n", "utf-8")
    with pytest.raises(DocumentError, match="nonsense"):
        run("bad.yaml", engine=Lines())
    with pytest.raises(SettingsError, match="no such file"):
        run("nowhere.yaml", engine=Lines())
    with pytest.raises(SettingsError, match="not int"):
        run([7], engine=Lines())
    with pytest.raises(SettingsError, match="no case to run"):
        run([], engine=Lines())
    with pytest.raises(SettingsError, match="two of the cases are"):
        run([write(good_cases(1)), "cases/v001.yaml"], engine=Lines())


def test_questions_and_rag_samples_run_too() -> None:
    Path("locomo.json").write_text(json.dumps([locomo_record("conv-1"), locomo_record("conv-2")]), "utf-8")
    asked = run("locomo.json")
    assert asked["counts"]["scored"] == 12
    assert asked.value("qa.f1") is not None
    assert stable(run("locomo.json", concurrency=1)) == stable(asked)
    Path("r.jsonl").write_text(
        json.dumps({"question": "Who?", "answer": "Tom", "contexts": ["Tom did."], "ground_truth": "Tom"}) + "\n",
        "utf-8",
    )
    rag = run("r.jsonl")
    assert rag["rag"] is not None
    assert rag["counts"]["scored"] == 1


def test_it_is_offered_lazily() -> None:
    assert pytest_memeval.run is run
