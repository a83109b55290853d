"""Reports and prompt texts for a comparison, read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.report.reader import ReportError, load_report
from pytest_memeval.report.write import latest_folder


def load_side(name: str, base: Path) -> dict[str, Any]:
    """The report that ``name`` means: a file, a run folder, or ``latest`` (the newest run below ``base``). Raises
    ReportError with one sentence."""
    path = Path(name)
    path = path if path.is_absolute() else base / path
    if name == "latest" and not path.exists():
        found = latest_folder(base)
        if found is None:
            raise ReportError(f"There is no run in .memeval/runs of {base}, so there is no latest one.")
        path = found
    return load_report(path)


def prompt_texts(reports: Iterable[Mapping[str, Any]], folders: Iterable[Path] = ()) -> dict[str, str]:
    """Prompt texts by SHA-256: the shipped ones, those of the folders that the runs used, and of ``folders``.

    A run's folder that is gone or broken is left out: its texts are then not shown. One of ``folders`` that cannot be
    read raises DocumentError.
    """
    from pytest_memeval.assets.prompts import PromptStore, load_prompts
    from pytest_memeval.documents.problems import DocumentError

    def texts_of(store: PromptStore) -> dict[str, str]:
        frozen = [text for versions in store.frozen.values() for text in versions.values()]
        return {text.sha256: text.text for text in (*frozen, *store.working.values())}

    found = texts_of(load_prompts())
    used = {((report.get("config") or {}).get("options") or {}).get("prompts") for report in reports}
    for place in sorted(filter(None, used)):
        try:
            found.update(texts_of(load_prompts(Path(place))))
        except (DocumentError, OSError):
            continue
    for folder in folders:
        found.update(texts_of(load_prompts(folder)))
    return found
