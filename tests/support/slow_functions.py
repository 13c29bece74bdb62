"""Functions of a user that take long for some records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from support.user_functions import clip, shout

__all__ = ["slow_clip", "slow_shout"]

_SECONDS = 0.004


def slow_clip(record: Mapping[str, Any]) -> dict[str, str]:
    """As `clip`; takes long for the records of some authors."""
    _wait(record)
    return clip(record)


def slow_shout(record: Mapping[str, Any]) -> dict[str, str]:
    """As `shout`; takes long for the records of some authors."""
    _wait(record)
    return shout(record)


def _wait(record: Mapping[str, Any]) -> None:
    if record["author"] in ("ann", "cléo"):
        time.sleep(_SECONDS)
