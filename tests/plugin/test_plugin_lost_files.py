"""Case files in which no case is left: they must not make a run green by being nobody's."""

from __future__ import annotations

import pytest
from plugin_project import MODES, Project, good_cases

from pytest_memeval.cli.main import main

#: Beside a good file: what is certainly a case file, and what the run says of it.
LOST = {
    "z.memeval.yaml": ("", "cases/z.memeval.yaml:1:1: the file is empty"),
    "z.memeval.yml": ("", "cases/z.memeval.yml:1:1: the file is empty"),
    "commented.memeval.yaml": ("# cases:\n#   - case_id: a\n", "cases/commented.memeval.yaml:1:1: the file is empty"),
    "meta.yaml": (
        'meta: {gates: ["P0 l1.memory_recall >= 0.9"]}\n',
        "cases/meta.yaml:1:1: the file needs 'cases'",
    ),
    "block.yml": ("meta:\n  version: v1\n  gates: []\n", "cases/block.yml:1:1: the file needs 'cases'"),
    "registry.yaml": ("meta:\n  registry: own.yaml\n", "cases/registry.yaml:1:1: the file needs 'cases'"),
}
#: What may be anybody's.
ANYBODYS = {
    "zero.yaml": "",
    "commented.yaml": "# cases:\n#   - case_id: a\n",
    "compose.yaml": "services: {}\n",
    "helm.yaml": "meta:\n  registry: ghcr.io\nimage: web\n",
}


@MODES
@pytest.mark.parametrize("name", LOST)
def test_a_case_file_without_cases_is_an_error(project: Project, mode: tuple[str, ...], name: str) -> None:
    text, said = LOST[name]
    project.cases(good_cases(1))
    project.write(f"cases/{name}", text)
    for arguments in ([], ["cases"], [f"cases/{name}"]):
        result = project.run(*arguments, *mode)
        assert result.ret != 0
        assert said in result.stdout.str()
    # And no file of its kind is lost outside the folder, either.
    if ".memeval." in name:
        (project.path / "cases" / name).rename(project.path / name)
        result = project.run(*mode)
        assert result.ret != 0
        assert f"{name}:1:1: the file is empty" in result.stdout.str()


@MODES
def test_what_may_be_anybodys_is_no_test(project: Project, mode: tuple[str, ...]) -> None:
    project.cases(good_cases(1))
    for name, text in ANYBODYS.items():
        project.write(f"cases/{name}", text)
    result = project.run(*mode)
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_validate_says_what_it_passed_over(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.path)
    project.cases(good_cases(1))
    for name, text in ANYBODYS.items():
        project.write(f"cases/{name}", text)
    said = (
        "passed over in cases, since nothing in it says that it is a case file: commented.yaml (nothing in it),"
        " zero.yaml (nothing in it), compose.yaml, helm.yaml"
    )
    assert main(["validate", "cases"]) == 0
    assert capfd.readouterr().err == f"note: {said}\n"
    (project.path / "cases" / "v001.yaml").unlink()
    assert main(["validate", "cases"]) == 2
    assert f"cases: no case file in this folder; {said}" in capfd.readouterr().err
    for name, (text, _) in LOST.items():
        project.write(f"cases/{name}", text)
    assert main(["validate", "cases"]) == 1
    out = capfd.readouterr().out
    for _, problem in LOST.values():
        assert problem in out
    # A folder of many is told of in a line.
    for number in range(20):
        project.write(f"others/{number:02}.yaml", "services: {}\n")
    project.cases(good_cases(1), name="others/cases.yaml")
    assert main(["validate", "others"]) == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("file: 00.yaml, 01.yaml, 02.yaml, 03.yaml, 04.yaml, 05.yaml, 06.yaml, 07.yaml and 12 more")
