"""``memeval init``: what is added to which project, that nothing is overwritten, and that it runs green at once."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_memeval.cli.main import main
from pytest_memeval.cli.starter import CONFTEST, start


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def contents(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}


PROJECTS: dict[str, dict[str, str]] = {
    "empty": {},
    "package": {
        "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\nrequires-python = ">=3.12"',
        "tests/test_shop.py": "def test_shop():\n    assert True\n",
        ".gitignore": "dist/",
        ".github/workflows/ci.yml": "name: ci\n",
    },
    "strict": {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--strict-markers"\ntestpaths = ["tests"]\n',
        "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef shop():\n    return 1\n",
        "tests/test_shop.py": "def test_shop(shop):\n    assert shop\n",
    },
    "ini": {"pytest.ini": "[pytest]\nxfail_strict = true\n", "requirements.txt": "pytest\n"},
    "old": {
        "setup.cfg": "[tool:pytest]\naddopts = -ra\n",
        "setup.py": "",
        ".gitlab-ci.yml": "test:\n  script: [pytest]\n",
    },
}


@pytest.mark.parametrize("name", PROJECTS)
def test_it_runs_green_at_once_and_overwrites_nothing(name: str, tmp_path: Path) -> None:
    put(tmp_path, PROJECTS[name])
    list(start(tmp_path))
    after = contents(tmp_path)
    for file, text in PROJECTS[name].items():
        assert after[file].startswith(text), file
        assert after[file] == text or file in ("pyproject.toml", ".gitignore")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:randomly", "cases/"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "l1.memory_recall" in done.stdout
    assert "my-memory" in done.stdout


def steps(folder: Path) -> dict[str, str]:
    return {step.file: step.verb for step in start(folder)}


def test_an_empty_folder_gets_everything(tmp_path: Path) -> None:
    assert steps(tmp_path) == {
        "cases/first.yaml": "wrote",
        "conftest.py": "wrote",
        "pytest.ini": "wrote",
        ".github/workflows/memeval.yml": "wrote",
        ".gitignore": "wrote",
    }
    before = contents(tmp_path)
    assert set(steps(tmp_path).values()) == {"kept"}
    assert contents(tmp_path) == before


def test_a_package_gets_a_section_and_its_own_python(tmp_path: Path) -> None:
    put(tmp_path, PROJECTS["package"])
    assert steps(tmp_path)["pyproject.toml"] == "added"
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["name"] == "shop"
    assert project["tool"]["pytest"]["ini_options"] == {"memeval_cache_dir": ".memeval/cache"}
    assert (tmp_path / ".gitignore").read_text("utf-8") == "dist/\n.memeval/\n"
    workflow: Any = yaml.safe_load((tmp_path / ".github/workflows/memeval.yml").read_text("utf-8"))
    job = workflow["jobs"]["memeval"]["steps"]
    assert job[1]["with"]["python-version"] == "3.12"
    assert job[3]["run"].splitlines() == ["python -m pip install -e .", "python -m pip install pytest-memeval"]
    assert "pytest cases/" in job[4]["run"]


def test_a_configuration_that_is_there_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path, PROJECTS["strict"])
    found = {step.file: step for step in start(tmp_path)}
    assert found["pyproject.toml"].verb == "todo"
    assert 'memeval_cache_dir = ".memeval/cache"' in found["pyproject.toml"].text
    assert found["cases/conftest.py"].verb == "wrote"


def test_gitlab_is_found_out(tmp_path: Path) -> None:
    put(tmp_path, PROJECTS["old"])
    found = {step.file: step for step in start(tmp_path)}
    assert found["setup.cfg"].verb == "todo"
    assert "include" in found[".gitlab/memeval.yml"].text
    job = yaml.safe_load((tmp_path / ".gitlab/memeval.yml").read_text("utf-8"))["memeval"]
    assert job["script"][0] == "python -m pip install -e ."
    other = tmp_path / "other"
    put(other, {".git/config": '[remote "origin"]\n\turl = git@gitlab.example.com:a/b.git\n'})
    assert steps(other)[".gitlab-ci.yml"] == "wrote"


def test_an_engine_that_is_there_is_kept(tmp_path: Path) -> None:
    put(tmp_path, {"conftest.py": CONFTEST + "# mine\n", "cases/own.yaml": "cases:\n  - case_id: a\n"})
    found = steps(tmp_path)
    assert (found["conftest.py"], found["cases/own.yaml"]) == ("kept", "kept")
    two = tmp_path / "two"
    put(two, {"conftest.py": "x = 1\n", "cases/conftest.py": "y = 1\n"})
    assert steps(two)["conftest.py"] == "todo"
    ini = tmp_path / "ini"
    put(ini, {"pytest.ini": "[pytest]\nmemeval_engine = a:B\n"})
    assert (steps(ini)["conftest.py"], steps(ini)["pytest.ini"]) == ("kept", "kept")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert "wrote  cases/first.yaml" in capsys.readouterr().out
    assert main(["validate", "--strict", "cases"]) == 0
    assert main(["init", "nowhere"]) == 2
    put(tmp_path / "broken", {"pyproject.toml": "[project\n"})
    assert main(["init", "broken"]) == 2
    assert "pyproject.toml" in capsys.readouterr().err
    assert set(contents(tmp_path / "broken")) == {"pyproject.toml"}
    assert main(["init", "--prompts"]) == 0
    assert (tmp_path / "prompts" / "manifest.yaml").is_file()
