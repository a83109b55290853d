"""Which files become tests: by name first, so that no file is opened whose name does not say that it may be one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

#: A case file that brings prompts or a registry of its own, in either style of YAML.
OWN = {key: re.compile(rf"""(?m)(^|[{{,])\s*["']?{key}["']?\s*:""") for key in ("prompts", "registry")}
_REGISTRY = re.compile(r"""(?m)(?:^|[{,])\s*["']?registry["']?\s*:\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s,{}"'#]+))""")
SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonl"})
#: So many files of no pattern are named in a folder.
_NAMED = 8
#: What a worker says at its end where :func:`left_unseen` is true of it.
UNSEEN_OUTPUT = "memeval_left_unseen"
PATTERNS = pytest.StashKey[list[Any]]()


def is_case_file(path: Path, parent: pytest.Collector, *, claimed: bool) -> bool:
    """Whether the file becomes tests; no file is opened whose name does not say that it may."""
    config = parent.config
    named = parent.session.isinitpath(path)
    if not named and not matches_files(config, path):
        return False
    if path.suffix.lower() in (".jsonl", ".json"):
        return not claimed
    from pytest_memeval.cases.sniff import looks_like_case_file

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
    from pytest_memeval.cases.sniff import seems_forgotten

    found = []
    for argument in config.args:
        folder = config.invocation_params.dir / argument.partition("::")[0]
        if not folder.is_dir():
            continue
        files = _files_below(config, folder)
        other = next((file for file in files if not matches_files(config, file) and seems_forgotten(file)), None)
        if other is not None:
            found.append(_unmatched(config, [other.relative_to(folder).as_posix()], argument))
    return found


def unmatched_beside(config: pytest.Config, taken: Iterable[str]) -> list[str]:
    """A sentence for each folder of case files of the run, ``taken`` (relative to rootdir), that has others besides,
    under names that ``memeval_files`` leaves out. Nothing of folders in which files were named one by one."""
    from pytest_memeval.cases.sniff import seems_forgotten

    named = {Path(os.path.abspath(config.invocation_params.dir / arg.partition("::")[0])) for arg in config.args}
    ours = {Path(os.path.abspath(config.rootpath / name)) for name in taken}
    found = []
    for folder in sorted({file.parent for file in ours if file.suffix.lower() in SUFFIXES}):
        if not any(folder.is_relative_to(root) and root.is_dir() for root in named):
            continue
        others = (file for file in sorted(folder.iterdir()) if file.suffix.lower() in SUFFIXES)
        left = [file for file in others if file not in ours | named and not matches_files(config, file)]
        names = [file.name for file in left if seems_forgotten(file)]
        if names:
            found.append(_unmatched(config, names, os.path.relpath(folder, config.invocation_params.dir)))
    return found


def _unmatched(config: pytest.Config, names: list[str], folder: str) -> str:
    patterns = ", ".join(config.getini("memeval_files"))
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    if len(names) == 1:
        return (
            f"{shown} in {folder} looks like a case file, but no pattern of memeval_files has it ({patterns}); name the"
            " file itself, or add a pattern"
        )
    return (
        f"{shown} in {folder} look like case files, but no pattern of memeval_files has them ({patterns}); name the"
        " files themselves, or add a pattern"
    )


def _files_below(config: pytest.Config, folder: Path) -> Iterator[Path]:
    """Files with a suffix of ours, sorted, in the folders that pytest would go to."""
    passed_over = config.getini("norecursedirs")
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not any(fnmatch(name, pattern) for pattern in passed_over)
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        yield from (Path(place, name) for name in sorted(names) if Path(name).suffix.lower() in SUFFIXES)


def names_own(config: pytest.Config, key: str) -> bool:
    """Whether a case file of the run seems to bring its own ``prompts`` or ``registry``."""
    return any(OWN[key].search(text) for _, text in _likely_files(config))


def own_registries(config: pytest.Config) -> list[Path | None]:
    """The registries that the case files of the run seem to name; ``None`` for that of the ini, which a file that names
    none goes by."""
    found: dict[Path | None, None] = {}
    for file, text in _likely_files(config):
        named = _REGISTRY.search(text)
        found[None if named is None else file.parent / next(filter(None, named.groups()))] = None
    return list(found)


def _likely_files(config: pytest.Config) -> Iterator[tuple[Path, str]]:
    """The files of the run that look like case files, with their texts."""
    from pytest_memeval.cases.sniff import looks_like_case_file

    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        files = path.rglob("*") if path.is_dir() else [path]
        for file in files:
            if file.suffix.lower() in (".yaml", ".yml"):
                likely = looks_like_case_file(file)
            else:
                likely = file.suffix.lower() in SUFFIXES and matches_files(config, file)
            if file.is_file() and (file == path or likely):
                yield file, file.read_text(encoding="utf-8", errors="replace")


def nodes_of_cases(config: pytest.Config, ids: Iterable[str]) -> list[str]:
    """The node ids that are cases', told by their files."""
    known: dict[str, bool] = {}
    found = []
    for node_id in ids:
        name, _, rest = node_id.partition("::")
        if rest and Path(name).suffix.lower() in SUFFIXES:
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
