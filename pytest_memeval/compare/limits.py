"""Which metrics of which cases a difference in settings keeps from being compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pytest_memeval.compare.model import PROTOCOL, FilePair, SettingDifference
from pytest_memeval.compare.pairing import CasePair, Pairing

#: Metrics of ``l1`` and ``l2`` that depend on which dimensions there are.
_BY_DIMENSION = (
    "dimension_",
    "per_dimension_",
    "strict_match",
    "total_",
    "dropped_labels",
    "profile_quality",
    "section_",
)
#: Sections whose metrics depend on the matching of memories.
_MATCHED = ("l1", "l15", "l2")
_JUDGED = ("rag", "longmemeval")


class Limits:
    """What differs and limits the comparison, asked metric by metric.

    Most settings are those of a whole run: what depends on them is compared nowhere. Registry and templates are those
    of a case file: the other files' cases are compared all the same.
    """

    def __init__(self, settings: Iterable[SettingDifference] = ()) -> None:
        self._settings = [setting for setting in settings if setting.effect == "limits"]
        self._of: dict[str, tuple[SettingDifference, ...]] = {}

    def of(self, path: str) -> tuple[SettingDifference, ...]:
        """The settings that differ, as far as the metric depends on them."""
        if path not in self._of:
            self._of[path] = tuple(setting for setting in self._settings if _depends(path, setting.name))
        return self._of[path]

    def setting_of(self, path: str, files: FilePair) -> str | None:
        """The name of what keeps the metric from being compared in the cases of these files."""
        found = (one.name for one in self.of(path) if one.files is None or files in one.files)
        return next(found, None)

    def everywhere(self, path: str, files: Iterable[FilePair]) -> str | None:
        """The name of what keeps the metric from being compared in all of these files (without any file: at all)."""
        names = [self.setting_of(path, pair) for pair in files]
        if names and None not in names:
            return names[0]
        return next((one.name for one in self.of(path) if one.files is None), None)

    def kept(self, path: str, pairing: Pairing) -> Pairing:
        """The pairing without the cases that the metric must not be compared in."""
        if not self.of(path):
            return pairing
        held: dict[FilePair, bool] = {}

        def free(pair: CasePair) -> bool:
            if pair.files not in held:
                held[pair.files] = self.setting_of(path, pair.files) is not None
            return not held[pair.files]

        pairs = list(filter(free, pairing.pairs))
        return pairing if len(pairs) == len(pairing.pairs) else replace(pairing, pairs=pairs)


def _depends(path: str, setting: str) -> bool:
    if setting.startswith(PROTOCOL):
        return False  # told, and left to the reader: most comparisons of memories are about one of these
    section, _, name = path.partition(".")
    if setting == "matcher":
        return section in _MATCHED or (section == "inject" and name.startswith("pipeline_"))
    if setting == "registry":
        return section in ("l1", "l2") and name.startswith(_BY_DIMENSION)
    if setting == "templates":
        return section == "inject" or (section == "l2" and name.startswith(("section_", "profile_", "total_")))
    if setting == "judge":
        return section in _JUDGED or "judge" in name
    if setting == "stage_input":
        return section in ("l15", "l2")
    # Tokenisers and smoothing: the text metrics.
    return section in ("qa", "locomo", "longmemeval")
