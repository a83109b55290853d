"""What a check of an engine, or of what is installed, says of one item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One item's verdict."""

    item: str
    status: Status
    text: str
