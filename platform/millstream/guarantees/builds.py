"""Builds: the versions of the libraries on which the bits of results depend, and what a start with others does.

A replay under another build may give other bits than the first attempt, which the sinks have. So a start refuses to
replay epochs that another build has processed, unless its user accepts that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.errors import Contradiction
from millstream.guarantees.earlier_receipts import EarlierReceipts
from millstream.log.epochs import Build, Epoch, EpochLog

__all__ = ["BuildCheck"]


@dataclass(frozen=True)
class BuildCheck:
    """The versions of this start. `accepts` others in epochs that it replays; a run that `replays` another notes none.

    Without versions, nothing is compared.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    accepts: bool = False
    replays: bool = False

    def note(self, log: EpochLog, earlier: EarlierReceipts) -> None:
        """Note other versions as an event, in an epoch without records, or refuse to replay the `earlier` epochs.

        The event is durable on return. Another engine has other libraries, and is no other build.
        """
        totals = log.totals
        changed = [
            f"{name} was {was}, is {self.versions[name]}"
            for name, was in totals.build.items()
            if self.versions.get(name, was) != was
        ]
        if not changed:
            return
        if earlier.comparable and not self.accepts:
            first, last = min(earlier.comparable), max(earlier.comparable)
            message = (
                f"{log.folder.parent}: another build has processed the epochs {first} to {last}, which this start "
                f"would process again: {', '.join(changed)}; {self._remedy}"
            )
            raise Contradiction(message)
        if self.replays:  # the epochs are those of the other run
            return
        earlier.forget()
        log.cut(Epoch(totals.next_epoch, {}, (Build(self.versions),), totals.at))
        log.sync()

    @property
    def _remedy(self) -> str:
        if self.replays:
            return "use the old build again, or start the replay over with --fresh"
        return (
            "start the run once with the old build, which finishes them, or give --accept-build: the rows that sinks "
            "have stay as they are, and the new ones may differ from them in their last bits"
        )
