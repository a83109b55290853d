"""A project's pytest configuration, read without pytest for the console command."""

from __future__ import annotations

import tomllib
from pathlib import Path

#: File → its section with pytest's values, in the order in which pytest looks for them.
_FILES: tuple[tuple[str, str], ...] = (
    ("pytest.toml", "pytest"),
    (".pytest.toml", "pytest"),
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", ""),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)


def ini_value(name: str, start: Path) -> tuple[str, Path] | None:
    """The ini value ``name`` in the nearest configuration file at or above ``start``, and the folder of that file.

    ``None`` where the nearest file that configures pytest does not have it, and where no file does. A file that cannot
    be read configures nothing: pytest itself is there to complain about it.
    """
    folder = start.absolute()
    for parent in (folder, *folder.parents):
        for file, section in _FILES:
            values = _values(parent / file, section)
            if values is not None:
                value = values.get(name)
                return None if value is None else (value, parent)
    return None


def _values(path: Path, section: str) -> dict[str, str] | None:
    if not path.is_file():
        return None
    try:
        if path.suffix == ".toml":
            return _toml_values(path, section)
        import iniconfig

        config = iniconfig.IniConfig(str(path), encoding="utf-8")
        return dict(config[section].items()) if section in config else None
    except (OSError, ValueError, ImportError, KeyError):
        return None
    except Exception:  # iniconfig's own error for a broken file
        return None


def _toml_values(path: Path, section: str) -> dict[str, str] | None:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if section:
        found = data.get(section)
    else:
        tool = data.get("tool", {}).get("pytest")
        found = tool.get("ini_options", tool) if isinstance(tool, dict) else None
    return {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else None
