"""The run directories that this process uses: the second start in one of them is refused, whichever thread is faster.

The lock file of a run directory keeps other processes out. It is made late, once the config is known to be valid, so it
cannot tell which of two threads came first.
"""

from __future__ import annotations

import os
from pathlib import Path

from millstream.errors import InUse

__all__ = ["Claim"]

_CLAIMS: dict[tuple[int, Path], Claim] = {}
"""The claims by process and path: a forked process has no threads of its parent, and so none of its runs."""


class Claim:
    """A run directory that a start of this process takes, until `release`; `InUse` if another start has it."""

    def __init__(self, run: Path) -> None:
        self._key = (os.getpid(), run.resolve())
        if _CLAIMS.setdefault(self._key, self) is not self:  # one operation, so of two threads one is the first
            message = f"{run} is in use: this program already runs it; wait for it, stop it, or give another --run"
            raise InUse(message)

    def release(self) -> None:
        del _CLAIMS[self._key]
