"""Reports and prompt texts for a comparison, read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_memeval.report.reader import LoadedCases, ReportError, load_records, load_report
from pytest_memeval.report.write import latest_folder


def load_side(name: str, base: Path) -> dict[str, Any]:
    """The report that ``name`` means: a file, a run folder, or ``latest`` (the newest run below ``base``). Raises
    ReportError with one sentence."""
    return load_report(_place(name, base))


def load_cases(name: str, base: Path) -> LoadedCases:
    """The same, with no more of its cases than a comparison looks at, and these as records."""
    return load_records(_place(name, base), compared)


def compared(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of ``per_case`` without what no comparison shows: conversations, calls, notes, all outputs but the
    memories' texts and dimensions, all details but those of extraction. What is damaged stays as it is."""
    kept = dict(entry)
    for key, kind, empty in _UNSEEN:
        if isinstance(kept.get(key), kind):
            kept[key] = empty
    timings = entry.get("timings")
    if isinstance(timings, dict) and isinstance(entry.get("calls"), list):
        kept["timings"] = {"stages": {}, **timings, "calls": []} if "stages" in timings else timings
    outputs = entry.get("outputs")
    if isinstance(outputs, dict):
        memories = outputs.get("l1")
        kept["outputs"] = {"l1": [_memory(one) for one in memories]} if isinstance(memories, list) else {}
    for name, section in entry.items():
        if name != "l1" and isinstance(section, dict) and isinstance(section.get("details"), dict):
            kept[name] = {**section, "details": {}}
    return kept


#: Keys of an entry that are emptied, with their type.
_UNSEEN: tuple[tuple[str, type, Any], ...] = (("input", dict, {}), ("calls", list, []), ("facts", list, []))


def _memory(memory: Any) -> Any:
    return {key: memory.get(key) for key in ("content", "dimensions")} if isinstance(memory, dict) else memory


def _place(name: str, base: Path) -> Path:
    path = Path(name)
    path = path if path.is_absolute() else base / path
    if name == "latest" and not path.exists():
        found = latest_folder(base)
        if found is None:
            raise ReportError(f"There is no run in .memeval/runs of {base}, so there is no latest one.")
        path = found
    return path


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
