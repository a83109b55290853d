"""Which files become tests: by name first, so that no file is opened whose name does not say that it may be one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

#: A case file that brings prompts or a registry of its own, in either style of YAML.
OWN = {key: re.compile(rf"""(?m)(^|[{{,])\s*["']?{key}["']?\s*:""") for key in ("prompts", "registry")}
SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl"})
#: What a worker says at its end where :func:`left_unseen` is true of it.
UNSEEN_OUTPUT = "memeval_left_unseen"
PATTERNS = pytest.StashKey[list[Any]]()


def is_case_file(path: Path, parent: pytest.Collector, *, claimed: bool) -> bool:
    """Whether the file becomes tests; no file is opened whose name does not say that it may."""
    config = parent.config
    named = parent.session.isinitpath(path)
    if not named and not matches_files(config, path):
        return False
    if path.suffix in (".jsonl", ".json"):
        return not claimed
    from pytest_memeval.cases.loader import looks_like_case_file

    # A YAML file named on the command line is ours even if it does not look it, unless another plugin collects it.
    return looks_like_case_file(path) or (named and not claimed)


def matches_files(config: pytest.Config, path: Path) -> bool:
    """Whether the ini ``memeval_files`` covers the path."""
    patterns = config.stash.get(PATTERNS, None)
    if patterns is None:
        from pytest_memeval.globs import glob_pattern

        patterns = config.stash[PATTERNS] = [glob_pattern(text) for text in config.getini("memeval_files")]
    try:
        relative = path.relative_to(config.rootpath).as_posix()
    except ValueError:
        relative = path.name
    return any(pattern.match(relative) for pattern in patterns)


def left_unseen(config: pytest.Config) -> bool:
    """Whether ``--lf`` left out whole files in this process: those in which nothing failed, where something did in
    another one that was collected."""
    if not getattr(config.option, "lf", False):
        return False
    plugin = config.pluginmanager.get_plugin("lfplugin")
    # Nothing else tells of these files: they are no deselected items. A pytest that does not count them any more may
    # have left out some.
    return plugin is not None and bool(getattr(plugin, "_skipped_files", True))


def unmatched_folders(config: pytest.Config) -> list[str]:
    """A sentence for each folder on the command line in which only files that ``memeval_files`` leaves out look like
    case files."""
    from pytest_memeval.cases.loader import looks_like_case_file

    found = []
    for argument in config.args:
        folder = config.invocation_params.dir / argument.partition("::")[0]
        if not folder.is_dir():
            continue
        files = (file for suffix in (".yaml", ".yml") for file in sorted(folder.rglob(f"*{suffix}")))
        other = next((file for file in files if not matches_files(config, file) and looks_like_case_file(file)), None)
        if other is not None:
            patterns = ", ".join(config.getini("memeval_files"))
            found.append(
                f"{other.relative_to(folder).as_posix()} in {argument} looks like a case file, but no pattern of"
                f" memeval_files has it ({patterns}); name the file itself, or add a pattern"
            )
    return found


def names_own(config: pytest.Config, key: str) -> bool:
    """Whether a case file of the run seems to bring its own ``prompts`` or ``registry``."""
    from pytest_memeval.cases.loader import looks_like_case_file

    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        files = path.rglob("*") if path.is_dir() else [path]
        for file in files:
            if file.suffix in (".yaml", ".yml"):
                likely = looks_like_case_file(file)
            else:
                likely = file.suffix in SUFFIXES and matches_files(config, file)
            ours = file.is_file() and (file == path or likely)
            if ours and OWN[key].search(file.read_text(encoding="utf-8", errors="replace")):
                return True
    return False


def nodes_of_cases(config: pytest.Config, ids: Iterable[str]) -> list[str]:
    """The node ids that are cases', told by their files."""
    known: dict[str, bool] = {}
    found = []
    for node_id in ids:
        name, _, rest = node_id.partition("::")
        if rest and Path(name).suffix in SUFFIXES:
            if name not in known:
                known[name] = _is_taken(config, name)
            if known[name]:
                found.append(node_id)
    return found


def _is_taken(config: pytest.Config, name: str) -> bool:
    """Whether the file of a node id is one of ours: its name says so, or the command line has it."""
    path = config.rootpath / name
    if matches_files(config, path):
        return True
    folder = config.invocation_params.dir
    return any(os.path.abspath(folder / str(arg).partition("::")[0]) == str(path) for arg in config.args)
