"""The cuts of a fork: the epochs of the old run, for the partitions that the new run reads too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from millstream.log.epochs import (
    Added,
    Decided,
    Ended,
    Epoch,
    Event,
    Idle,
    NewModel,
    SinkAdded,
    Skipped,
    Swap,
    Totals,
    in_order,
)

__all__ = ["CopiedCuts"]


class CopiedCuts:
    """Copies epochs, whose numbers and times stay the same.

    `totals` are those of the base, `left` the sources whose partitions are left out, and `retired` the ranks of those
    that the base has, with the source of each. The first epoch also has the
    events `opening`; without an epoch to copy, they have an epoch of their own. `copied` counts the epochs, and
    `unread`, by source, the offsets that are left out.
    """

    def __init__(
        self,
        totals: Totals,
        retired: Mapping[int, str],
        left: Collection[str],
        opening: Sequence[Event],
        sinks: Sequence[str],
    ) -> None:
        self._totals, self._retired, self._left = totals, dict(retired), left
        self._opening: Sequence[Event] = [*opening, *map(SinkAdded, sinks)]
        self._begins = bool(opening)
        self.copied = self.records = 0
        self.unread: Counter[str] = Counter()

    def epochs(self, original: Iterable[Epoch]) -> Iterator[Epoch]:
        """Yield the epochs after the base, of these epochs of the old run."""
        old = new = len(self._totals.partitions)
        ranks = {rank: rank for rank in range(old) if rank not in self._retired}
        opening = self._opening
        for epoch in original:
            events: list[Event] = []
            for event in epoch.events:
                if isinstance(event, Added):
                    if event.partition.source in self._left:
                        self._retired[old] = event.partition.source
                    else:
                        ranks[old], new = new, new + 1
                        events.append(event)
                    old += 1
                elif isinstance(event, Decided | Swap | NewModel):
                    events.append(event)
                elif isinstance(event, Skipped | Idle | Ended) and event.rank in ranks:
                    events.append(replace(event, rank=ranks[event.rank]))
            new += sum(isinstance(event, Added) for event in opening)
            cut = {ranks[rank]: span for rank, span in epoch.cut.items() if rank in ranks}
            for rank, (start, stop) in epoch.cut.items():
                if rank not in ranks:
                    self.unread[self._retired[rank]] += stop - start
            made = Epoch(epoch.number, cut, in_order([*events, *opening]), epoch.at)
            opening = []
            self.copied += 1
            self.records += made.size
            yield made
        if opening and self._begins:
            yield Epoch(self._totals.next_epoch, {}, in_order(opening), self._totals.at)
