"""The sink guard of exactly_once, with the progress of each sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from millstream.digests import Digest
from millstream.errors import ForeignSink
from millstream.log.contracts import Progress, Sink
from millstream.log.epochs import EpochLog, EpochReceipt

__all__ = ["SinkGuard"]

_TERM = 0
"""The term of the only driver of a run directory on this machine."""


class SinkGuard:
    """Holds the last epoch and the sums of each sink: from its progress at a start, then from each append.

    All sinks are fenced, but none of them before every sink was found to be of this run.
    """

    def __init__(self, log: EpochLog, sinks: Mapping[str, Sink], keys: Mapping[str, str]) -> None:
        self._log, self._sinks, self._keys = log, sinks, keys
        self._silent: set[str] = set()
        """The sinks that report no progress at all."""
        for name, sink in sinks.items():
            self._check(name, sink.progress())
        found = {name: self._check(name, sink.fence(_TERM)) for name, sink in sinks.items()}
        self._last_epochs = {name: self._last_epoch(name, progress) for name, progress in found.items()}
        self._sums = {name: Digest.parse(progress.digest) if progress else Digest() for name, progress in found.items()}

    def lowest(self, default: int) -> int:
        """The last epoch that all sinks have."""
        return min(self._last_epochs.values(), default=default)

    def highest(self) -> int:
        """The last epoch that any sink has."""
        return max(self._last_epochs.values(), default=-1)

    def lacks(self, name: str, epoch: int) -> bool:
        """True if the sink does not have this epoch."""
        return epoch > self._last_epochs[name]

    def progress_after(self, name: str, receipts: Iterable[EpochReceipt], last: int) -> Progress:
        """The progress of the sink after an append of the rows of these epochs; `last` is the last epoch."""
        added = (made for receipt in receipts if (made := receipt.outputs.get(name)) is not None)
        total = sum(added, self._sums[name])
        return Progress(self._log.id, last, _TERM, total.count, str(total))

    @property
    def sums(self) -> Mapping[str, Digest]:
        """By sink, the digest of all rows that were ever appended to it."""
        return self._sums

    def advance(self, name: str, progress: Progress, *, back: bool) -> None:
        """Record an append with this progress. `back`: without exactly_once, an append may repeat epochs."""
        assert back or progress.epoch > self._last_epochs[name], (name, self._last_epochs[name], progress)
        self._last_epochs[name] = max(self._last_epochs[name], progress.epoch)
        self._sums[name] = Digest.parse(progress.digest)

    def _check(self, name: str, progress: Progress | None) -> Progress | None:
        """Refuse the progress of another run."""
        if progress is not None and progress.log != self._log.id:
            message = (
                f"sink '{name}' holds rows of another run's epoch log ({progress.log}, this one is {self._log.id}); "
                "give it a location of its own, or move those rows away"
            )
            raise ForeignSink(message)
        return progress

    def _last_epoch(self, name: str, progress: Progress | None) -> int:
        key, totals = self._keys[name], self._log.totals
        if progress is None:
            self._silent.add(name)
            return totals.sinks.get(key, totals.next_epoch) - 1
        back = totals.next_epoch if key in totals.removed else totals.returned.get(key, 0)
        return max(progress.epoch, back - 1)  # a removed sink counts as having all epochs until it returned

    def catch_up(self, checkpointed: int) -> None:
        """Correct the progress of sinks that is older than the newest checkpoint.

        A checkpoint is written only after every sink has its epochs, so such a sink has lost progress or rows:

        1. No rows in between: the progress was not written, or lost with the power, and the guard advances it.
        2. Rows in between, and the sink keeps its rows: the rows are lost. They are delivered again; if the sink
           reports no progress at all, the run is refused.
        3. Rows in between, and the rows of the sink expire: the checkpoint proves that the sink had them, and the
           guard advances the progress, with the sums of the epoch log. The run is refused only if more rows were made
           after the checkpoint.

        No epoch up to the base is read: the header of a segment has the last epoch that made rows, by output.
        """
        behind = {name: held for name, held in self._last_epochs.items() if held < checkpointed}
        if not behind:
            return
        reader, newest = self._log.reader(), self._log.totals.last_rows
        made = reader.last_rows(checkpointed)
        for name, held in behind.items():
            epoch, self._last_epochs[name] = made.get(name, -1), checkpointed
            if epoch <= held:
                continue
            if self._is_lost(name, epoch, uncertain=newest[name] > checkpointed):
                self._last_epochs[name] = self._before_rows(name, held)
            else:
                self._sums[name] = self._log.totals.delivered.get(self._keys[name], Digest())

    def _is_lost(self, name: str, epoch: int, *, uncertain: bool) -> bool:
        """True if the sink needs the rows of an epoch again, of which its progress knows nothing."""
        keeps = self._sinks[name].keeps
        if name in self._silent if keeps else uncertain:
            self._refuse_lost(name, epoch)
        return keeps

    def _before_rows(self, name: str, held: int) -> int:
        """The last epoch, `held` or a later one, before the next rows for the sink.

        A merged receipt may have rows of epochs up to `held` too: then the answer is `held`.
        """
        reader = self._log.reader()
        base = reader.base.epoch
        if reader.last_rows(base).get(name, -1) > held:
            return held
        made = (receipt.rows.get(name, (-1, -1)) for receipt in reader.receipts(max(held, base) + 1))
        return max(held, next(first for first, last in made if last > held) - 1)

    def _refuse_lost(self, name: str, epoch: int) -> NoReturn:
        """Refuse to guess: a reader may have seen the lost rows, and a second delivery is then not exactly once."""
        message = (
            f"sink '{name}' got rows from this run, the last ones of epoch {epoch}, but reports no progress: "
            "its rows were removed or moved; put them back, start over with --fresh, or give the output "
            "another sink, whose rows begin with the next epoch"
        )
        raise ForeignSink(message)
