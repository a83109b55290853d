"""A case's stores have folders of their own, so that an engine with files mixes no two of them."""

from __future__ import annotations

from plugin_project import Project, case

ENGINE = """
import pytest


class FileEngine:
    name = "files"

    def __init__(self):
        self.seen = []

    def note(self, ctx):
        (ctx.folder / "notes.txt").touch()
        self.seen.append(ctx.folder)

    def load(self, memories, scenes, ctx):
        self.note(ctx)

    def extract(self, conversation, ctx):
        self.note(ctx)
        return [{"id": "m0", "content": "one", "dimensions": ["identity"]}]

    def inject(self, mode, conversation, ctx):
        self.note(ctx)
        return []


ENGINE = FileEngine()


@pytest.fixture(scope="session")
def memeval_engine():
    return ENGINE


def pytest_sessionfinish():
    seen = ENGINE.seen
    pipeline, labelled = seen[0], seen[1]
    assert pipeline != labelled
    # extract; load and inject of the labelled memories; load and inject of the pipeline's own
    assert seen == [pipeline, labelled, labelled, pipeline, pipeline], seen
    assert not any(folder.exists() for folder in seen)
    print("folders are apart")
"""


def test_stores_of_a_case_have_folders_of_their_own(project: Project) -> None:
    project.pytester.makeconftest(ENGINE)
    inject = {"mode": "daily", "subsequent_conversation": "hello", "referenced_memory_indices": [0]}
    project.cases([case("eval-001", "identity: one", expected_inject=inject)])
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*folders are apart*"])
