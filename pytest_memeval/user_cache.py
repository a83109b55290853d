"""Where answers, histories and downloads are kept, unless the run says another place."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache_folder() -> Path:
    """The user's cache folder for this plugin, by the platform's custom."""
    if os.name == "nt":  # pragma: no cover - only on Windows
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "pytest-memeval"
