"""The CI files that people copy: valid by the services' own schemas, of the commands that the documentation shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
WORKFLOWS = (EXAMPLES / "memeval-gate.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml")))
GITLAB = EXAMPLES / "memeval-gate.gitlab-ci.yml"


def checked(schema: str, file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The file checked against a schema that check-jsonschema brings along: it asks no network."""
    command = ("-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *more, str(file))
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120)


def read(file: Path) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_are_valid_by_the_schema_of_github(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    found = checked("github-workflows", file)
    assert found.returncode == 0, found.stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(file.read_text(encoding="utf-8").replace("runs-on:", "runs_on:"), encoding="utf-8")
    assert checked("github-workflows", broken).returncode == 1


def test_the_gitlab_example_is_valid_by_the_schema_of_gitlab(tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    found = checked("gitlab-ci", GITLAB, "--data-transform", "gitlab-ci")
    assert found.returncode == 0, found.stdout
    broken = tmp_path / "broken.yml"
    broken.write_text(GITLAB.read_text(encoding="utf-8").replace("junit:", "junit: [{}]\n      x:"), encoding="utf-8")
    assert checked("gitlab-ci", broken, "--data-transform", "gitlab-ci").returncode == 1


@pytest.mark.parametrize("file", [file for file in WORKFLOWS if file.name != "ci.yml"], ids=lambda file: file.name)
def test_a_workflow_keeps_page_and_report_and_comments_nothing(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] == {"contents": "read"}
    [job] = workflow["jobs"].values()
    runs = [step for step in job["steps"] if "run" in step]
    commands = "\n".join(step["run"] for step in runs)
    output = re.search(r"--memeval-output[= ](\S+)", commands)
    assert output is not None
    shown = next(step for step in runs if "memeval show" in step["run"])
    assert f"memeval show {output[1]} --html {output[1]}/report.html --annotate github" in shown["run"]
    # Whatever the gates said, and only where a run left something.
    assert shown["if"] == f"always() && hashFiles('{output[1]}/report.json') != ''"
    upload = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert (upload["if"], upload["with"]["path"]) == ("always()", output[1])
    assert "comment" not in json.dumps(job)
    assert "github-token" not in json.dumps(workflow)


def test_the_gitlab_example_keeps_page_and_junit() -> None:
    job = read(GITLAB)["memory-quality"]
    commands = "\n".join((*job["script"], *job["after_script"]))
    output = re.search(r"--memeval-output (\S+)", commands)
    assert output is not None
    assert f"--junitxml {output[1]}/junit.xml" in commands
    assert job["artifacts"]["reports"]["junit"] == f"{output[1]}/junit.xml"
    assert job["artifacts"]["paths"] == [f"{output[1]}/"]
    assert job["artifacts"]["when"] == "always"
    assert f"memeval show {output[1]} --html {output[1]}/report.html" in commands
