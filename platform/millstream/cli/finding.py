"""The result of one check of `millstream doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """The result of one check. A `note` is no problem: something is missing that is not known to be needed."""

    subject: str
    level: Literal["ok", "note", "problem"]
    text: str
    fix: str = ""
