"""The wheel: built, installed beside nothing of this repository, and used in an empty project."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CASES = """\
meta: {gates: ["P0 l1.memory_recall >= 0.5"]}
cases:
  - case_id: a
    conversation: "[msg#1] user: I work as a nurse in Graz."
    expected_l1: {memories: [{content: I work as a nurse in Graz, dimensions: [identity]}]}
    expected_l2: {template_section: {daily: {"0": 👤 基本信息}}}
"""


def call(*words: str | Path, cwd: Path, expect: int = 0) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "COV"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**environment, "XDG_CACHE_HOME": str(cwd / "cache"), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=280,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("build") is None:
        pytest.skip("the package build is not installed")
    target = tmp_path_factory.mktemp("dist")
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") is not None else []
    call(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", target, ROOT, cwd=target)
    [found] = target.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, and with this one's packages as its dependencies."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    binary = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    call(sys.executable, "-m", "pip", f"--python={binary}", "install", "-q", "--no-deps", wheel, cwd=folder)
    site = Path(call(binary, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # At the end of the path: the wheel goes before an editable install of this repository.
    (site / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return binary


def test_the_wheel_holds_the_package_and_its_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "pytest_memeval" / "data").rglob("*") if path.is_file()
    }
    assert data <= names
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "pytest_memeval").rglob("*.py")}
    assert code <= names
    assert "pytest_memeval/py.typed" in names
    for wanted in ("registry.yaml", "templates/daily.yaml", "prompts/manifest.yaml", "schemas/predictions.schema.json"):
        assert f"pytest_memeval/data/{wanted}" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "cases/"))]
    entry_points = zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert "[pytest11]" in entry_points
    assert "memeval = pytest_memeval.cli.main:main" in entry_points


def test_it_runs_a_case_file_in_an_empty_project(python: Path, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "mine.yaml").write_text(CASES, encoding="utf-8")
    where = call(python, "-c", "import pytest_memeval; print(pytest_memeval.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(python.parent.parent)
    out = call(python, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "cases", cwd=tmp_path)
    assert "1 passed" in out
    latest = (tmp_path / ".memeval" / "latest").read_text(encoding="utf-8").strip()
    report = json.loads((tmp_path / ".memeval" / latest / "report.json").read_text(encoding="utf-8"))
    assert report["summary"]["passed_p0"] is True
    assert report["l1"]["memory_recall"] == 1
    call(
        python,
        "-m",
        "pytest",
        "-p",
        "no:randomly",
        "cases",
        "--memeval-gate",
        "P0 l1.memory_recall > 1",
        cwd=tmp_path,
        expect=1,
    )


def test_its_command_works_without_a_checkout(python: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(CASES, encoding="utf-8")
    script = python.parent / "memeval"
    assert call(script, "validate", "mine.yaml", cwd=tmp_path) == "mine.yaml: 1 case, 0 problems\n"
    assert json.loads(call(script, "schema", "predictions", cwd=tmp_path))["title"] == "pytest-memeval predictions"
    call(python, "-m", "pytest_memeval", "init", "--prompts", "prompts", cwd=tmp_path)
    assert (tmp_path / "prompts" / "versions" / "l1_extraction" / "v002.txt").is_file()
