"""The guard of exactly_once: the last epoch that each sink has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from millstream.errors import ForeignSink
from millstream.log.contracts import Sink
from millstream.log.epochs import EpochLog

__all__ = ["SinkGuard"]


class SinkGuard:
    """Knows for each sink the last epoch that it has: from its progress at a start, then from each append."""

    def __init__(self, log: EpochLog, sinks: Mapping[str, Sink], keys: Mapping[str, str]) -> None:
        self._log, self._sinks, self._keys = log, sinks, keys
        self._silent: set[str] = set()
        """The sinks that report no progress at all."""
        self._held = {name: self._progress(name, sink) for name, sink in sinks.items()}

    def lowest(self, default: int) -> int:
        """The last epoch that every sink has."""
        return min(self._held.values(), default=default)

    def highest(self) -> int:
        """The last epoch that any sink has."""
        return max(self._held.values(), default=-1)

    def lacks(self, name: str, epoch: int) -> bool:
        return epoch > self._held[name]

    def advance(self, name: str, epoch: int, *, back: bool) -> None:
        """A sink has got its rows up to this epoch; only without a guard (`back`) it may have got them before."""
        assert back or epoch > self._held[name], (name, self._held[name], epoch)
        self._held[name] = max(self._held[name], epoch)

    def _progress(self, name: str, sink: Sink) -> int:
        progress, key, totals = sink.progress(), self._keys[name], self._log.totals
        if progress is None:
            self._silent.add(name)
            return totals.sinks.get(key, totals.next_epoch) - 1
        if progress.log != self._log.id:
            message = (
                f"sink '{name}' holds rows of another run's epoch log ({progress.log}, this one is {self._log.id}); "
                "give it a place of its own, or move those rows away"
            )
            raise ForeignSink(message)
        back = totals.next_epoch if key in totals.removed else totals.returned.get(key, 0)
        return max(progress.epoch, back - 1)  # a sink that was removed counts as having the epochs of that time

    def catch_up(self, saved: int) -> None:
        """Correct the progress of sinks that is older than the newest checkpoint, which was written after they had all.

        (1) No rows in between: the progress record was lost with the power; it is advanced. (2) Rows in between, and
        the sink keeps its rows: they are lost; they are delivered again, or refused if the sink reports no progress at
        all. (3) Its rows expire: the checkpoint proves that it had them; it is refused only if more rows were made
        after the save.
        """
        behind = {name: held for name, held in self._held.items() if held < saved}
        if not behind:
            return
        gone: dict[str, int] = {}
        unsure: set[str] = set()
        for receipt in self._log.reader().receipts(min(behind.values()) + 1):
            for name, held in behind.items():
                if receipt.epoch > held and name in receipt.outputs:
                    if receipt.epoch > saved:
                        unsure.add(name)
                    else:
                        gone.setdefault(name, receipt.epoch)
                elif receipt.epoch == held + 1:
                    behind[name] = receipt.epoch
        for name, epoch in gone.items():
            keeps = self._sinks[name].keeps
            if name in (self._silent if keeps else unsure):
                self._refuse_lost(name, epoch)
            if not keeps:
                behind[name] = saved
        self._held |= behind

    def _refuse_lost(self, name: str, epoch: int) -> NoReturn:
        """A reader may have seen the lost rows: to deliver them again on a guess is not exactly once."""
        message = (
            f"sink '{name}' got rows of epoch {epoch} and others from this run, and does not tell of them: "
            "what it held was removed, or is elsewhere; put it back, start over with --fresh, or give the output "
            "another sink, where rows begin with the next epoch"
        )
        raise ForeignSink(message)
