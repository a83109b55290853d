from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_memeval.history.git_commit import git_commit


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def test_what_git_says(repository: Path) -> None:
    inside = repository / "a" / "b"
    inside.mkdir(parents=True)
    assert git_commit(inside) == git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "-b", "feature/x")
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert git_commit(repository) == git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    assert git_commit(repository) == git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "--detach", "main")
    assert git_commit(repository) == git(repository, "rev-parse", "main")


def test_a_second_work_tree(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", "../tree")
    tree = repository.parent / "tree"
    git(tree, "commit", "-q", "--allow-empty", "-m", "three")
    assert git_commit(tree) == git(tree, "rev-parse", "HEAD") != git_commit(repository)
    git(repository, "pack-refs", "--all")
    assert git_commit(tree) == git(tree, "rev-parse", "HEAD")


def test_no_commit(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / ".git").mkdir(parents=True)
    assert git_commit(broken) is None
    (broken / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert git_commit(broken) is None
    (broken / ".git" / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
    assert git_commit(broken) is None
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / ".git").write_text("something else", encoding="utf-8")
    assert git_commit(odd) is None
