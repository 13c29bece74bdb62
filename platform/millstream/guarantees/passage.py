"""The passage of epochs through their five points, in the order that the delivery decides.

The one place where processing, notes, sinks, saves and commits meet; every engine hands its epochs to it in order.

    exactly_once, at_least_once   cut, process, deliver, save, commit
    at_most_once                  cut, commit, process, save, deliver
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

import pyarrow as pa

from millstream.errors import AlteredLog, DifferentReplay, ForeignSink
from millstream.guarantees.crash import Armed
from millstream.guarantees.delivery import Delivery, Point, due
from millstream.log.contracts import Mark, Sink
from millstream.log.epochs import Epoch, EpochLog, Note, PartitionName
from millstream.state.applied import Applied
from millstream.state.saver import Saver
from millstream.state.saves import Save, SaveStore, States
from millstream.steps.processor import EpochResult

__all__ = ["Passage", "Plan", "Steps"]


_KEPT_SAVES = 3
"""How many saves are there to go back to, for a sink that has lost its last appends."""
_REST, _LONGEST_REST = 9, 1.0
"""With exactly_once, saves beside the work rest so many times as long as the last one took, but not longer than this
many seconds: they take a tenth of the time of what they share with the work, and a crash repeats little."""


@dataclass(frozen=True)
class Plan:
    """The guarantee of a pipeline, as its config says it."""

    delivery: Delivery
    save_every: int = 1
    commit_every: int = 1


class Steps(Protocol):
    """All steps of a pipeline with their state, wherever they are: `steps.processing` has them in this process."""

    partitions: list[PartitionName]

    def process(self, epoch: Epoch, records: pa.Table, attempt: int = 1) -> EpochResult: ...

    def skip(self, epoch: Epoch) -> None: ...

    def ask_save(self) -> Callable[[], States]: ...

    def go_on(self) -> None: ...

    def restore(self, states: States, partitions: Sequence[PartitionName]) -> None: ...


@dataclass
class Passage:
    """Takes epochs through their points. Call `start`, `take` in order of epochs, `end` for a clean end.

    `start` may be called again, after what held the steps was lost: everything goes back to what is durable.
    `began` is told of the first epoch to take, `through` of every epoch that has passed all points, `saved`, from the
    thread that wrote it, of every save and the seconds that took.
    """

    plan: Plan
    processing: Steps
    log: EpochLog
    saves: SaveStore
    sinks: Mapping[str, Sink]
    sink_names: Mapping[str, str]
    crash: Armed | None = None
    began: Callable[[int], None] = lambda first: None
    through: Callable[[EpochResult], None] = lambda processed: None
    saved: Callable[[Save, float], None] = lambda save, seconds: None
    clock: Callable[[], float] = time.monotonic
    saver_of: Callable[[SaveStore, Callable[[Save], None]], Saver] = Saver
    """Whoever writes the saves beside the work."""
    _held: dict[str, int] = field(default_factory=dict)
    _unmarked: set[str] = field(default_factory=set)
    _notes: dict[int, list[Note]] = field(default_factory=dict)
    _applied: Applied = field(default_factory=Applied)
    _last: int = -1
    _saved_epoch: int = -1
    _saving_since: float = 0.0
    _rested: float = float("-inf")
    """When saves have rested from the last one."""
    _covered: int | None = None
    _dirty: bool = False
    _saver: Saver = field(init=False)

    def __post_init__(self) -> None:
        self._saver = self.saver_of(self.saves, self._save_done)

    def start(self) -> int:
        """Load the state to go on from; the first epoch to take."""
        self._saver.wait()
        self._unmarked, self._notes, self._covered, self._dirty = set(), {}, None, False
        totals = self.log.totals
        self._held = {name: self._holds(name, sink) for name, sink in self.sinks.items()}
        exactly = self.plan.delivery is Delivery.EXACTLY_ONCE
        save = self.saves.newest()
        if exactly and save is not None:
            self._catch_up(save.epoch)
            save = self.saves.newest(upto=min(self._held.values(), default=save.epoch))
        newest = max([save.epoch if save else -1, totals.committed, *self._held.values()])
        if newest >= totals.next_epoch and newest >= 0:
            message = (
                f"the epoch log ends with epoch {totals.next_epoch - 1}, but epoch {newest} has been saved or "
                "delivered: the log was truncated; start over with --fresh"
            )
            raise AlteredLog(message)
        self._applied = save.applied.copy() if save else Applied()
        self._saved_epoch = save.epoch if save else -1
        if exactly and save is not None:
            self._covered = save.epoch  # what was saved and not yet committed is not done again
        first = (self._saved_epoch if exactly else totals.committed) + 1
        self.processing.restore(self.saves.load(save) if save else {}, totals.partitions)
        self._last = first - 1
        reader = self.log.reader()
        if self._saved_epoch + 1 < first:
            lost = reader.epochs(self._saved_epoch + 1)
            for epoch in itertools.takewhile(lambda epoch: epoch.number < first, lost):
                self.processing.skip(epoch)
        if first < totals.next_epoch:
            for note in reader.notes(first):
                self._notes.setdefault(note.epoch, []).append(note)
        self.began(first)
        return first

    def _holds(self, name: str, sink: Sink) -> int:
        mark, key, totals = sink.mark(), self.sink_names[name], self.log.totals
        if mark is None:
            self._unmarked.add(name)
            return totals.sinks.get(key, totals.next_epoch) - 1
        if mark.log != self.log.id:
            message = (
                f"sink '{name}' holds rows of another run's epoch log ({mark.log}, this one is {self.log.id}); "
                "give it a place of its own, or move those rows away"
            )
            raise ForeignSink(message)
        back = totals.next_epoch if key in totals.removed else totals.returned.get(key, 0)
        return max(mark.epoch, back - 1)  # one that was away counts as having what was made meanwhile

    def _catch_up(self, saved: int) -> None:
        """What a sink holds whose mark is older than the newest save, which was written after it had all until then.

        It holds the epochs that follow without rows for it: such marks may be lost with the power. Where there were
        rows, the mark is gone or was set back. A sink that keeps its rows has lost those: they are made again, but for
        one that tells nothing at all. Of one that does not, the save proves what it got; what was made since is not
        guessed to be there or not.
        """
        behind = {name: held for name, held in self._held.items() if held < saved}
        if not behind:
            return
        gone: dict[str, int] = {}
        unsure: set[str] = set()
        for note in self.log.reader().notes(min(behind.values()) + 1):
            for name, held in behind.items():
                if note.epoch > held and name in note.outputs:
                    if note.epoch > saved:
                        unsure.add(name)
                    else:
                        gone.setdefault(name, note.epoch)
                elif note.epoch == held + 1:
                    behind[name] = note.epoch
        for name, epoch in gone.items():
            keeps = self.sinks[name].keeps
            if name in (self._unmarked if keeps else unsure):
                self._refuse_lost(name, epoch)
            if not keeps:
                behind[name] = saved
        self._held |= behind

    def _refuse_lost(self, name: str, epoch: int) -> NoReturn:
        """What was delivered may have been read: to deliver it again, on a guess, is not exactly once."""
        message = (
            f"sink '{name}' got rows of epoch {epoch} and others from this run, and does not tell of them: "
            "what it held was removed, or is elsewhere; put it back, start over with --fresh, or give the output "
            "another sink, where rows begin with the next epoch"
        )
        raise ForeignSink(message)

    def take(self, epochs: Sequence[tuple[Epoch, pa.Table]]) -> None:
        """Take epochs that are ready through all points; with exactly_once they may be delivered as one append."""
        if self.plan.delivery is not Delivery.EXACTLY_ONCE:
            for epoch, records in epochs:
                self._take_one(epoch, records)
            return
        alone = self.crash.point.epoch if self.crash else None
        group: list[tuple[Epoch, pa.Table]] = []
        for epoch, records in epochs:
            if epoch.number == alone:
                self._take_group(group)
                group = []
                if self._dirty and self._last - self._saved_epoch >= self.plan.save_every:
                    self._save(self._last)  # so that what the crash shows is of this epoch
                self._take_one(epoch, records)
            else:
                group.append((epoch, records))
        self._take_group(group)

    def rest(self) -> None:
        """Nothing is there to be taken: with exactly_once, save and commit what is not yet, beside the waiting.

        With the other deliveries it is part of what they promise after which epochs there is a save.
        """
        if self.plan.delivery is not Delivery.EXACTLY_ONCE or self.crash is not None or self._saver.busy:
            return
        if self._may_save(self._last):
            self._start_save(self._last, self._applied.copy(), self.processing.ask_save())
        elif due(self._last, self.plan.commit_every) and self._commit(self._last):
            self.log.sync()

    def _may_save(self, last: int) -> bool:
        """Whether a save after this epoch is wanted, and the one before has been written and rested from."""
        return (
            last - self._saved_epoch >= self.plan.save_every and not self._saver.busy and self.clock() >= self._rested
        )

    def _take_one(self, epoch: Epoch, records: pa.Table) -> None:
        number = epoch.number
        self._passed(Point.CUT, number)
        if self.plan.delivery is Delivery.AT_MOST_ONCE:
            self.log.commit(number)
            self.log.sync()
            self._passed(Point.COMMIT, number)
            processed = self._process(epoch, records)
            self._save_if_due(number)
            self._passed(Point.SAVE, number)
            self._deliver([processed])
        else:
            processed = self._process(epoch, records)
            self._deliver([processed])
            self._save_if_due(number)
            self._passed(Point.SAVE, number)
            if due(number, self.plan.commit_every) and self._commit(number):
                self.log.sync()
            self._passed(Point.COMMIT, number)
        self.through(processed)

    def _take_group(self, group: Sequence[tuple[Epoch, pa.Table]]) -> None:
        """Several epochs with exactly_once: one durable write of notes, one append to each sink, one save at most."""
        if not group:
            return
        done = [self._processed(epoch, records) for epoch, records in group]
        last = group[-1][0].number
        asked = self.processing.ask_save() if self._may_save(last) else None
        applied = self._applied.copy()
        self.processing.go_on()
        self.log.sync()
        self._deliver(done)
        if asked is not None:
            self._start_save(last, applied, asked)
        if any(due(epoch.number, self.plan.commit_every) for epoch, _ in group):
            self._commit(last)
        for processed in done:
            self.through(processed)

    def _process(self, epoch: Epoch, records: pa.Table) -> EpochResult:
        processed = self._processed(epoch, records)
        self.log.sync()
        self._passed(Point.PROCESS, epoch.number)
        return processed

    def _processed(self, epoch: Epoch, records: pa.Table) -> EpochResult:
        """Process an epoch and write its note; a replay that differs stops here, before any effect."""
        before = self._notes.pop(epoch.number, [])
        processed = self.processing.process(epoch, records, attempt=len(before) + 1)
        for note in before[:1]:
            self._compare(note, processed.note)
        self.log.note(processed.note)
        self._applied.add(epoch.number)
        self._last = epoch.number
        self._dirty = True
        return processed

    def _compare(self, first: Note, again: Note) -> None:
        where = f"epoch {again.epoch} came out differently on its replay"
        for rank in sorted(first.inputs.keys() | again.inputs.keys()):
            if first.inputs.get(rank) != again.inputs.get(rank):
                partition = self.processing.partitions[rank]
                was, now = first.inputs.get(rank, (0, ""))[0], again.inputs.get(rank, (0, ""))[0]
                detail = f"{was} records became {now}" if was != now else f"the {now} records have other content"
                message = f"{where}: in {partition.source}/{partition.name} {detail}; the log was altered since"
                raise AlteredLog(message)
        if self.plan.delivery is not Delivery.EXACTLY_ONCE:
            return  # the model has moved on, so outputs may differ
        self._compare_made(where, "step", first.steps, again.steps)
        self._compare_made(where, "output", first.outputs, again.outputs)

    def _compare_made(self, where: str, kind: str, first: Mapping[str, object], again: Mapping[str, object]) -> None:
        for name in [*again, *first]:
            if first.get(name) != again.get(name):
                message = (
                    f"{where}: {kind} '{name}' gave something else for the same records; if it draws at random or "
                    "reads a clock, say `deterministic: false` and choose another delivery"
                )
                raise DifferentReplay(message)

    def _deliver(self, done: Sequence[EpochResult]) -> None:
        """Append to every sink what it does not have: the guard of exactly_once."""
        last = done[-1].epoch.number
        for name, sink in self.sinks.items():
            guarded = self.plan.delivery is Delivery.EXACTLY_ONCE
            wanted = [p for p in done if not guarded or p.epoch.number > self._held[name]]
            if wanted:
                sink.append(pa.concat_tables([p.rows[name] for p in wanted]), Mark(self.log.id, last))
            self._passed(Point.DELIVER, last, name)
        self._passed(Point.DELIVER, last)

    def _save_if_due(self, epoch: int) -> None:
        if due(epoch, self.plan.save_every):
            self._save(epoch)

    def _save(self, epoch: int) -> None:
        """A save that is durable on return."""
        self._start_save(epoch, self._applied.copy(), self.processing.ask_save())
        self._saver.wait()

    def _start_save(self, epoch: int, applied: Applied, asked: Callable[[], States]) -> None:
        self._saving_since = self.clock()
        self._saver.start(epoch, applied, asked())
        self._saved_epoch = epoch

    def _save_done(self, save: Save) -> None:
        self._covered = save.epoch
        self.saves.drop_before(self.saves.numbers()[-_KEPT_SAVES:][0])
        now = self.clock()
        took = now - self._saving_since
        self._rested = now + min(_REST * took, _LONGEST_REST)
        self.saved(save, took)

    def _commit(self, epoch: int) -> bool:
        """C := max(C, min(epoch, the newest save written since this start, or gone on from with exactly_once))."""
        if self._covered is None:
            return False
        committed = min(epoch, self._covered)
        if committed <= self.log.totals.committed:
            return False
        self.log.commit(committed)
        return True

    def end(self) -> None:
        """A clean end: save and commit what is not yet, close the sinks."""
        self._saver.wait()
        if self._dirty and self._covered != self._last:  # a save of this start, so that it may be committed
            self._save(self._last)
        self._commit(self._last)
        self.log.sync()
        for sink in self.sinks.values():
            sink.close()

    def abandon(self) -> None:
        """An end that is not clean: nothing more is written; what is being written is waited for."""
        self._saver.wait()

    def _passed(self, point: Point, epoch: int, sink: str | None = None) -> None:
        if self.crash is not None:
            self.crash.pass_by(point, epoch, sink)
