"""What must not pass in silence: a run that measured nothing, paths that cannot be used, options without effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugin_project import MODES, Project, case, good_cases

GATE = "P0 l1.memory_recall >= 0.5"
STATUS_4 = pytest.ExitCode.USAGE_ERROR


# -- nothing was measured -----------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("where", ["ini", "file", "command line"])
def test_written_gates_of_a_run_that_scored_nothing_fail_it(
    project: Project, where: str, mode: tuple[str, ...]
) -> None:
    if where == "ini":
        project.write("pytest.ini", f"[pytest]\nmemeval_gate = {GATE}\n")
        project.write("cases/v001.yaml", f"cases: {json.dumps(good_cases(2))}")
    else:
        project.cases(good_cases(2), gates=[GATE] if where == "file" else [])
    given = ("--memeval-gate", GATE) if where == "command line" else ()
    result = project.run("--memeval-stages", "inject", *given, *mode)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*unmeasured*", "*Stage l1 is not selected in this run. No case of this run was scored."]
    )
    (gate,) = project.report()["gates"]
    assert gate["status"] == "unmeasured"
    assert project.report()["summary"]["passed_p0"] is False


def test_without_written_gates_the_summary_says_so(project: Project) -> None:
    project.cases(good_cases(2))
    result = project.run("--memeval-stages", "inject", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["nothing was measured: no case was scored"])
    result.stdout.no_fnmatch_line("*a passed test means measured*")


def test_a_run_that_measured_another_file_leaves_the_gate_alone(project: Project) -> None:
    project.cases(good_cases(1))
    gates = ["P0 l2.section_hit_rate >= 0.5"]
    project.cases(good_cases(1), name="cases/v002.yaml", gates=gates)
    result = project.run("--memeval-stages", "l1")
    assert result.ret == 0
    assert project.report()["gates"][0]["status"] == "not_applicable"
    result.stdout.no_fnmatch_line("*nothing was measured*")


# -- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "output",
        "cache-dir",
        "save-predictions",
        "predictions",
        "templates",
        "registry",
        "prompts",
        "recorded",
        "baseline",
        "resume",
        "prices",
    ],
)
def test_an_empty_path_is_refused(project: Project, name: str) -> None:
    project.cases(good_cases(1))
    result = project.run(f"--memeval-{name}=")
    assert result.ret == STATUS_4
    result.stderr.fnmatch_lines([f"*--memeval-{name}: a path is needed"])


def test_an_empty_path_of_the_ini_is_refused(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nmemeval_cache_dir =\n")
    project.cases(good_cases(1))
    result = project.run()
    assert result.ret == STATUS_4
    result.stderr.fnmatch_lines(["*memeval_cache_dir: a path is needed"])


@pytest.mark.parametrize("option", ["--memeval-save-predictions", "--memeval-save-contexts"])
def test_a_file_that_cannot_be_written_is_found_before_the_run(project: Project, option: str) -> None:
    project.cases(good_cases(1))
    (project.path / "folder").mkdir()
    for place, sentence in (("folder", "is a folder; a file is needed"), ("/proc/nowhere/x", "cannot be written to")):
        if place.startswith("/proc") and not Path("/proc").is_dir():
            continue
        result = project.run(option, place)
        assert result.ret == STATUS_4
        result.stderr.fnmatch_lines([f"*{option}: *{sentence}"])
    assert not (project.path / "out").exists()


def test_predictions_that_could_not_be_written_are_told_by_their_name(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project.cases(good_cases(1))
    # The place goes away while the run lasts.
    project.write(
        "conftest.py",
        (project.path / "conftest.py").read_text(encoding="utf-8")
        + "\n\n@pytest.fixture(autouse=True)\ndef gone():\n    import pathlib\n"
        "    pathlib.Path('saved').write_text('a file now')\n    yield\n",
    )
    result = project.run("--memeval-save-predictions", "saved/p.jsonl")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["the predictions could not be written: *"])
    assert project.report()["counts"]["scored"] == 1


@MODES
def test_a_foreign_file_in_the_output_folder_is_left_alone(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    foreign = project.write("out/report.md", "my own words\n")
    result = project.run(*mode)
    assert result.ret == STATUS_4
    result.stderr.fnmatch_lines(["*--memeval-output: *report.md is no file of an earlier run and would be replaced*"])
    assert foreign.read_text(encoding="utf-8") == "my own words\n"
    foreign.rename(foreign.with_name("notes.md"))
    assert project.run(*mode).ret == 0
    assert project.run(*mode).ret == 0  # an earlier run's own files are replaced
    (project.path / "out" / "report.json").write_text('{"name": "of a web project"}', encoding="utf-8")
    result = project.run(*mode)
    assert result.ret == STATUS_4
    result.stderr.fnmatch_lines(["*report.json is no file of an earlier run*"])


FOREIGN = {
    "notes.txt": "my own words\n",
    "conftest.py": "# of a project\n",
    "v1.yaml": "cases: []\n",
    "rag.jsonl": '{"case_id": "a", "query": "q", "contexts": ["c"], "response": "r"}\n',
    "blank.txt": " \n" * 40_000,
    "photo.png": "\udc89PNG",
    "deep.jsonl": "[" * 100_000,
}
SAVED = {
    "--memeval-save-predictions": '{"case_id": "a", "set": "s.yaml", "l1": []}\n',
    "--memeval-save-contexts": '{"set": "s", "case_id": "a", "query": "q", "contexts": [], "response": null}\n',
}


@pytest.mark.parametrize("option", SAVED)
@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_a_foreign_file_is_not_replaced_by_what_is_saved(project: Project, option: str, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    other = next(text for name, text in SAVED.items() if name != option)
    folder = project.path / "kept"
    folder.mkdir()
    for name, text in {**FOREIGN, "other.jsonl": other}.items():
        content = text.encode("utf-8", "surrogateescape")
        (folder / name).write_bytes(content)
        if mode and name != "notes.txt":
            continue  # the check is in one process, whatever their number
        result = project.run(option, f"kept/{name}", *mode)
        assert result.ret == STATUS_4, name
        result.stderr.fnmatch_lines(
            [f"*{option}: *{name} is no file of an earlier run and would be replaced; move it, or name another file"]
        )
        assert (folder / name).read_bytes() == content
    assert not (project.path / "out").exists()


@MODES
@pytest.mark.parametrize("option", SAVED)
@pytest.mark.parametrize("old", ["absent", "empty", "saved"])
def test_a_saved_file_is_replaced(project: Project, option: str, old: str, mode: tuple[str, ...]) -> None:
    rag = {"case_id": "r", "query": "who?", "contexts": ["it was me"], "response": "me", "ground_truth": "me"}
    project.write("one.memeval.jsonl", json.dumps(rag) + "\n")
    file = project.path / "kept.jsonl"
    if old != "absent":
        file.write_text({"empty": "\n", "saved": SAVED[option]}[old], encoding="utf-8")
    for _ in range(2):
        result = project.run(option, "kept.jsonl", *mode)
        assert result.ret == 0
        row = json.loads(file.read_text(encoding="utf-8"))
        assert row["case_id"] == "r"


@MODES
def test_where_there_is_nothing_to_save_nothing_is_written(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    kept = project.path / "old.jsonl"
    kept.write_text(SAVED["--memeval-save-contexts"], encoding="utf-8")
    for name in ("new.jsonl", "old.jsonl"):
        result = project.run("--memeval-save-contexts", name, *mode)
        assert result.ret == 0
        result.stdout.fnmatch_lines(
            [f"--memeval-save-contexts: there was nothing to save, and *{name} was not written"]
        )
    assert kept.read_text(encoding="utf-8") == SAVED["--memeval-save-contexts"]
    assert not (project.path / "new.jsonl").exists()


# -- engines ------------------------------------------------------------------------------------------------------


@MODES
def test_an_engine_option_without_effect_is_told(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(2))
    result = project.run("--memeval-engine", "reference", "-q", *mode)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["--memeval-engine reference was ignored: a fixture memeval_engine of the project's*"])
    result = project.run("-q")
    result.stdout.no_fnmatch_line("*was ignored*")


def test_an_engine_option_with_effect_is_not(project: Project) -> None:
    project.cases(good_cases(1))
    project.write("conftest.py", "")
    result = project.run("--memeval-engine", "line_engine:LineEngine")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*was ignored*")


@MODES
def test_the_short_summary_begins_with_the_cause(
    project: Project,
    mode: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    missed: dict[str, Any] = {"expect": {"l1.memory_recall": ">= 1"}, "truth": [("identity", "something else")]}
    project.cases([case("eval-001", "bad", truth=[("identity", "x")]), case("eval-002", "identity: here", **missed)])
    result = project.run(*mode)
    result.stdout.fnmatch_lines(
        ["FAILED cases/v001.yaml::eval-002 - [[]expect] *", "ERROR cases/v001.yaml::eval-001 - [[]l1] bad_output: *"]
    )


def test_an_engine_with_a_wrong_signature_is_told_what_it_needs(project: Project) -> None:
    engine = (project.path / "line_engine.py").read_text(encoding="utf-8")
    project.write(
        "line_engine.py", engine.replace("def extract(self, conversation, ctx)", "def extract(self, messages)")
    )
    project.cases(good_cases(1))
    assert project.run().ret == 1
    (error,) = project.report()["per_case"][0]["errors"]
    assert error["kind"] == "engine_exception"
    assert error["message"] == (
        "extract needs (conversation, ctx), and LineEngine.extract takes (messages) (line_engine.py:9)"
    )


def test_a_type_error_inside_an_engine_stays_its_own(project: Project) -> None:
    engine = (project.path / "line_engine.py").read_text(encoding="utf-8")
    project.write("line_engine.py", engine.replace("memories = []", "memories = [len(3)]"))
    project.cases(good_cases(1))
    assert project.run().ret == 1
    (error,) = project.report()["per_case"][0]["errors"]
    assert error["message"].startswith("TypeError: object of type 'int' has no len() (line_engine.py:")


# -- small ones


#: A project whose gates would not be its own.
GATES = "[pytest]\nmemeval_gates = P0 l1.memory_recall >= 2\nmemeval_lang = en\n"


def bare(project: Project, *args: str) -> pytest.RunResult:
    """A run in which no option of the plugin is given."""
    return project.pytester.runpytest_inprocess("-pno:randomly", "-pno:hypothesispytest", "-pno:anyio", *args)


@MODES
@pytest.mark.parametrize("key", ["memeval_gates", "memeval_gat", "memeval-gate", "memeval_expct", "memeval_stage"])
def test_a_misspelt_ini_key_ends_the_run_and_names_the_nearest(
    project: Project, mode: tuple[str, ...], key: str
) -> None:
    project.write("pytest.ini", GATES.replace("memeval_gates", key))
    project.cases(good_cases(1))
    right = {"memeval_expct": "memeval_expect", "memeval_stage": "memeval_stages"}.get(key, "memeval_gate")
    for result in (project.run(*mode), bare(project, *mode)):
        assert result.ret == STATUS_4
        result.stderr.fnmatch_lines([f"ERROR: unknown ini key {key}; did you mean '{right}'?"])
        assert "memeval_lang" not in result.stderr.str()
    assert not (project.path / "out").exists()
    assert not (project.path / ".memeval").exists()


#: How a test comes to its case → the lines before its definition. None of them gates, but the first.
USES = {
    "gate": "@pytest.mark.memeval(gate=True, case=CASE)",
    "no gate": "@pytest.mark.memeval(case=CASE)",
    "no marker": "@pytest.fixture\ndef memeval_case():\n    return CASE\n\n\n@pytest.mark.filterwarnings('default')",
}


@MODES
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_misspelt_ini_key_ends_a_run_of_tests_that_use_cases(
    project: Project, mode: tuple[str, ...], use: str
) -> None:
    project.write("pytest.ini", GATES)
    path = project.cases(good_cases(1), name="data/x.yaml")
    head = f"""
from pathlib import Path

import pytest
from pytest_memeval.cases.loader import load_case_set

CASE = load_case_set(Path({str(path)!r})).cases[0]


"""
    project.write("test_it.py", f"{head}{use}\ndef test_it(memeval_l1):\n    pass\n")
    result = bare(project, "test_it.py", *mode)
    assert result.ret == STATUS_4
    result.stderr.fnmatch_lines(["ERROR: unknown ini key memeval_gates; did you mean 'memeval_gate'?"])


@MODES
def test_a_misspelt_ini_key_is_a_warning_where_the_plugin_has_nothing_to_do(
    project: Project, mode: tuple[str, ...]
) -> None:
    project.write("pytest.ini", GATES)
    project.write("test_plain.py", "def test_plain():\n    pass\n")
    result = bare(project, *mode)
    assert result.parseoutcomes()["passed"] == 1
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*unknown ini key memeval_gates; did you mean 'memeval_gate'?*"])
    assert bare(project, "-p", "no:memeval", "-o", "addopts=", *mode).ret == 0


@MODES
def test_an_ini_key_that_is_near_none_or_another_plugins_ends_no_run(project: Project, mode: tuple[str, ...]) -> None:
    project.write("pytest.ini", "[pytest]\nmemeval_zzqx = 1\nmemeval_gatez = 2\n")
    with (project.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef pytest_addoption(parser):\n    parser.addini('memeval_gatez', 'of our own')\n")
    project.cases(good_cases(1))
    result = project.run(*mode)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*unknown ini key memeval_zzqx; known: *"])
    result.stdout.no_fnmatch_line("*ini key memeval_gatez*")


def test_a_part_of_no_parts(project: Project) -> None:
    project.cases(good_cases(1))
    result = project.run("--memeval-shard", "3/0")
    assert result.ret == STATUS_4
    result.stderr.fnmatch_lines(["*--memeval-shard: '3/0': there is no division into 0 parts*"])


def test_ctrl_c_while_the_history_is_written_is_no_traceback(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_memeval.history.store.History.append", interrupted)
    project.cases(good_cases(1))
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["The history was not written: interrupted"])
    assert project.report()["counts"]["scored"] == 1


# -- where answers and the history are kept ------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("way", ["option", "ini"])
@pytest.mark.parametrize("place", ["/proc/nowhere/x", "file/below"])
def test_a_cache_folder_that_cannot_be_made_is_found_before_the_run(
    project: Project, mode: tuple[str, ...], way: str, place: str
) -> None:
    if place.startswith("/proc") and not Path("/proc").is_dir():
        pytest.skip("needs /proc")
    project.cases(good_cases(1))
    project.write("file", "")
    project.write("pytest.ini", f"[pytest]\nmemeval_cache_dir = {place}\n" if way == "ini" else "[pytest]\n")
    result = project.run(*mode, *([] if way == "ini" else ["--memeval-cache-dir", place]))
    assert result.ret == STATUS_4
    where = "memeval_cache_dir" if way == "ini" else "--memeval-cache-dir"
    sentence = "cannot be written to" if place.startswith("/proc") else "is a file, not a folder"
    result.stderr.fnmatch_lines([f"*{where}: *{sentence}"])
    assert not (project.path / "out").exists()


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (("--memeval-cache", "replay"), True),
        (("--memeval-cache", "replay", "--memeval-no-history"), False),
        (("--memeval-cache", "off"), True),
        (("--memeval-cache", "off", "--memeval-no-history"), False),
        (("--memeval-no-history",), True),
        (("--memeval-plan",), False),
    ],
)
def test_a_cache_folder_is_only_needed_where_something_goes_into_it(
    project: Project, options: tuple[str, ...], refused: bool
) -> None:
    project.cases(good_cases(1))
    project.write("file", "")
    result = project.run("--memeval-cache-dir", "file/below", *options)
    assert (result.ret == STATUS_4) is refused, result.stderr.str()


def test_answers_may_be_replayed_from_a_folder_that_can_only_be_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.cases(good_cases(1))
    (project.path / "answers").mkdir()
    monkeypatch.setattr("pytest_memeval.settings.checks._takes_files", lambda folder: folder.name != "answers")
    assert project.run("--memeval-cache-dir", "answers", "--memeval-cache", "replay").ret == 0
    assert project.run("--memeval-cache-dir", "answers").ret == STATUS_4
