"""The lifecycle of epochs: epochs pass their five points in the order that `delivery.order` gives.

Only this module combines processing, receipts, sinks, checkpoints and commits. Every engine gives its epochs to the
lifecycle in order. A group of epochs passes each point as a whole: one durable write of receipts, one append to each
sink, one checkpoint at most.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.digests import Digest
from millstream.errors import AlteredCheckpoint, AlteredLog, Truncated
from millstream.guarantees.builds import BuildCheck
from millstream.guarantees.checkpointer import Checkpointer
from millstream.guarantees.contracts import LifecycleObserver, NoObserver, Steps
from millstream.guarantees.crash_point import Armed
from millstream.guarantees.delivery import Delivery, Point, due, order
from millstream.guarantees.earlier_receipts import EarlierReceipts
from millstream.guarantees.replay import compare_replay
from millstream.guarantees.retention import Retention
from millstream.guarantees.sink_guard import SinkGuard
from millstream.log.contracts import Sink
from millstream.log.epochs import Epoch, EpochLog, EpochReceipt
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import Foreground, Work
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.version_store import VersionStore
from millstream.steps.processor import EpochResult
from millstream.timestamps import wall_clock

__all__ = ["PAUSE", "DeliveryPlan", "EpochLifecycle"]


PAUSE, _LONGEST_PAUSE = 9, 1.0
"""The pause after a background checkpoint: nine times its duration, but at most one second. Short checkpoints then take
a tenth of the time, and a crash replays about a second of work."""


@dataclass(frozen=True)
class DeliveryPlan:
    """The delivery of a pipeline, and the number of epochs between checkpoints and between commits.

    `keep` is the period, in microseconds, that the base of the run stays behind; None: the base stays at the beginning.
    """

    delivery: Delivery
    checkpoint_every: int = 1
    commit_every: int = 1
    keep: int | None = None


@dataclass
class _Group:
    """Epochs that pass their points together; if `synchronous`, a point is durable before the next point begins."""

    epochs: Sequence[Epoch]
    synchronous: bool
    results: list[EpochResult] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.epochs[-1].number


@dataclass
class EpochLifecycle:
    """Advances epochs through their points: call `start`, then `take` with epochs in order, then `save` and `end`.

    After the loss of a worker, `start` may be called again, with new steps; it continues from the durable state.
    """

    plan: DeliveryPlan
    log: EpochLog
    checkpoints: CheckpointStore
    sinks: Mapping[str, Sink]
    sink_keys: Mapping[str, str]
    crash: Armed | None = None
    observer: LifecycleObserver = field(default_factory=NoObserver)
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], int] = wall_clock
    pause: float = PAUSE
    build: BuildCheck = field(default_factory=BuildCheck)
    versions: VersionStore | None = None
    _steps: Steps = field(init=False)
    _guard: SinkGuard = field(init=False)
    _checkpointer: Checkpointer = field(init=False)
    _retention: Retention = field(init=False)
    _actions: Mapping[Point, Callable[[_Group], None]] = field(init=False)
    _receipts: EarlierReceipts = field(default_factory=EarlierReceipts)
    _applied: AppliedEpochs = field(default_factory=AppliedEpochs)
    _watermarks: Mapping[str, int | None] = field(default_factory=dict)
    _last: int = -1
    _checkpoint_epoch: int = -1
    _pause_until: float = float("-inf")
    _covered: int | None = None
    """The last epoch that may be committed: a checkpoint that this start has written or loaded covers this epoch."""
    _settled: int = -1
    """The last epoch that was committed, and that all sinks had, when the last checkpoint began to count."""
    _dirty: bool = False

    def __post_init__(self) -> None:
        self._foreground = Foreground(self.clock)
        self._checkpointer = Checkpointer(
            self.log,
            self.checkpoints,
            self._foreground,
            self._pass_checkpoint_part,
            self._on_checkpoint,
            self._remove_old,
        )
        self._retention = Retention(self.log, self.checkpoints, self.plan.keep, self.wall_clock, self.versions)
        self._guarded = self.plan.delivery is Delivery.EXACTLY_ONCE
        self._actions = {
            Point.CUT: self._cut,
            Point.PROCESS: self._process,
            Point.DELIVER: self._deliver,
            Point.CHECKPOINT: self._checkpoint,
            Point.COMMIT: self._commit,
        }

    # ------------------------------------------------------------ start

    def start(self, steps: Steps) -> int:
        """Load the newest usable state into the steps; return the first epoch to process."""
        self._checkpointer.abandon()
        self.checkpoints.begin()
        self._retention.clean()
        self._steps, self._covered, self._dirty = steps, None, False
        totals = self.log.totals
        self._guard = SinkGuard(self.log, self.sinks, self.sink_keys)
        checkpoint = self.checkpoints.newest()
        if not self._guarded:
            self._check_newest(checkpoint)
        elif checkpoint is not None:
            self._guard.catch_up(checkpoint.epoch)
            checkpoint = self.checkpoints.newest(upto=self._guard.lowest(checkpoint.epoch))
        newest = max(self.checkpoints.ahead(), totals.committed, self._guard.highest())
        if newest >= totals.next_epoch and newest >= 0:
            message = (
                f"the epoch log ends with epoch {totals.next_epoch - 1}, but epoch {newest} is in a checkpoint "
                "or was delivered: the log was truncated; start over with --fresh"
            )
            raise AlteredLog(message)
        self._check_base(checkpoint)
        self._applied = checkpoint.applied.copy() if checkpoint else AppliedEpochs()
        self._watermarks = checkpoint.watermarks if checkpoint else {}
        self._checkpoint_epoch = checkpoint.epoch if checkpoint else -1
        if self._guarded and checkpoint is not None:
            self._covered = checkpoint.epoch  # an earlier start may have written this checkpoint without a commit
        first = (self._checkpoint_epoch if self._guarded else totals.committed) + 1
        steps.restore(self.checkpoints.newest_states(checkpoint), totals.partitions)
        self._last = first - 1
        self._read_log(first)
        self.build.note(self.log, self._receipts)
        self.observer.started(first)
        return first

    def _check_newest(self, checkpoint: Checkpoint | None) -> None:
        """Refuse to begin with an older checkpoint than the last one: only exactly_once replays the epochs between."""
        last = self.log.totals.checkpoint
        if last != (checkpoint.number if checkpoint is not None else -1):
            message = (
                f"{self.checkpoints.manifest(last)} is gone, and {self.plan.delivery} needs the newest checkpoint; "
                "put the file back, or start over with --fresh"
            )
            raise AlteredCheckpoint(message)

    def _check_base(self, checkpoint: Checkpoint | None) -> None:
        """Refuse to begin before the base, whose earlier epochs are gone."""
        base = self.log.totals.base
        if base.epoch > (checkpoint.epoch if checkpoint is not None else -1):
            held = self._guard.lowest(base.epoch)
            cause = f"a sink lost its rows after epoch {held}" if held < base.epoch else "its checkpoint is missing"
            message = (
                f"{self.log.folder} begins after epoch {base.epoch}, its base (checkpoint {base.checkpoint}), and "
                f"{cause}: what is older is gone; put the files back, or start over with --fresh"
            )
            raise Truncated(message)

    def _read_log(self, first: int) -> None:
        """Skip the epochs between the checkpoint and `first`; read the receipts from epoch `first` on."""
        reader = self.log.reader()
        if self._checkpoint_epoch + 1 < first:
            lost = reader.epochs(self._checkpoint_epoch + 1)
            for epoch in itertools.takewhile(lambda epoch: epoch.number < first, lost):
                self._steps.skip(epoch)
        lines = reader.lines(first) if first < self.log.totals.next_epoch else ()
        self._receipts = EarlierReceipts(lines)

    # ------------------------------------------------------------ epochs

    def group_size(self, epochs: Sequence[Epoch]) -> int:
        """The number of epochs in the next group; `epochs` are the next epochs.

        With exactly_once, a group has all epochs up to the epoch of an armed crash; with other deliveries, one epoch.
        """
        if not self._guarded:
            return min(1, len(epochs))
        armed = self.crash.point.epoch if self.crash is not None else None
        return next((index for index, epoch in enumerate(epochs, 1) if epoch.number == armed), len(epochs))

    def take(self, epochs: Sequence[Epoch]) -> None:
        """Advance epochs that are ready through all points, group by group."""
        while epochs:
            count = self.group_size(epochs)
            self._advance(epochs[:count])
            epochs = epochs[count:]

    def _advance(self, epochs: Sequence[Epoch]) -> None:
        # Until an armed crash comes, checkpoints are not written in the background: the crash must find them complete.
        armed = self.crash is not None and epochs[-1].number <= self.crash.point.epoch
        group = _Group(epochs, synchronous=armed or not self._guarded)
        for point in order(self.plan.delivery):
            self._actions[point](group)
            for epoch in epochs:
                self._pass_crash_point(point, epoch.number)
        for result in group.results:
            self.observer.finished_epoch(result)

    def _cut(self, group: _Group) -> None:
        """Check the cuts, which the cutter has written."""
        numbers = [epoch.number for epoch in group.epochs]
        assert numbers == list(range(self._last + 1, self._last + 1 + len(numbers))), (self._last, numbers)
        assert group.last < self.log.totals.next_epoch, "an epoch's cut is in the log before any effect of the epoch"
        assert self._guarded or self.log.totals.committed < numbers[0], "nothing of a new epoch is committed"

    def _process(self, group: _Group) -> None:
        """Process the epochs, and make their receipts durable before a sink gets the first row of these epochs."""
        assert self.plan.delivery is not Delivery.AT_MOST_ONCE or self.log.totals.committed >= group.last
        for epoch in group.epochs:
            group.results.append(self._process_epoch(epoch))
        self._applied.drop_before(self.log.totals.base.epoch + 1)
        self._checkpointer.advance()
        if self._guarded:
            if self._may_checkpoint(group.last, group.synchronous):
                self._start_checkpoint(synchronous=group.synchronous)
            self._steps.work_ahead()
        self._sync()

    def _process_epoch(self, epoch: Epoch) -> EpochResult:
        """Process an epoch and write its receipt. A replay that differs raises an error before any effect."""
        attempt, before = self._receipts.take(epoch.number)
        result = self._steps.process(epoch, attempt)
        assert result.epoch.number == epoch.number == self._last + 1
        if before is not None:
            changed = self._changed_sinks(before)
            compare_replay(before, result.receipt, outputs=self._guarded, other_sinks=changed)
        self.log.receipt(result.receipt)
        self._applied.add(epoch.number)
        self._watermarks = result.receipt.watermarks
        self._last = epoch.number
        self._dirty = True
        return result

    def _changed_sinks(self, receipt: EpochReceipt) -> set[str]:
        """The outputs whose sinks were removed since this receipt, or added after its epoch."""
        begun = self.log.totals.sinks
        later = {name for name, key in self.sink_keys.items() if begun.get(key, receipt.epoch + 1) > receipt.epoch}
        return later | (receipt.outputs.keys() - self.sinks.keys())

    def _deliver(self, group: _Group) -> None:
        """Append to every sink the rows that it does not have."""
        assert len(group.results) == len(group.epochs), "rows are delivered after their epochs are processed"
        for name, sink in self.sinks.items():
            wanted = [r for r in group.results if not self._guarded or self._guard.lacks(name, r.epoch.number)]
            if wanted:
                progress = self._guard.progress_after(name, (r.receipt for r in wanted), group.last)
                sink.append(pa.concat_tables([r.rows[name] for r in wanted]), progress)
                self._guard.advance(name, progress, back=not self._guarded)
            self._pass_crash_point(Point.DELIVER, group.last, name)

    def _checkpoint(self, group: _Group) -> None:
        """Write a checkpoint if one is due: in the background, or durable on return if the group waits."""
        assert self.plan.delivery is Delivery.AT_MOST_ONCE or self._guard.lowest(group.last) >= group.last
        if not self._guarded and due(group.last, self.plan.checkpoint_every):
            self._start_checkpoint(synchronous=True)
        self._checkpointer.delivered()
        if group.synchronous:
            self._checkpointer.wait()
        else:
            self._checkpointer.advance()

    def _commit(self, group: _Group) -> None:
        if self.plan.delivery is Delivery.AT_MOST_ONCE:
            assert group.last > self.log.totals.committed
            self.log.commit(group.last)
            self.log.sync()
            return
        wanted = any(due(epoch.number, self.plan.commit_every) for epoch in group.epochs)
        if wanted and self._commit_covered(group.last) and group.synchronous:
            self.log.sync()

    def _pass_crash_point(self, point: Point, epoch: int, part: str | None = None) -> None:
        if self.crash is not None:
            self.crash.pass_by(point, epoch, part)

    # ------------------------------------------------------------ checkpoints and commits

    def _may_checkpoint(self, last: int, synchronous: bool = False) -> bool:
        """True if a checkpoint after this epoch is due, the previous one is written and its pause is over."""
        if last - self._checkpoint_epoch < self.plan.checkpoint_every:
            return False
        return synchronous or not (self._checkpointer.busy or self.clock() < self._pause_until)

    def _start_checkpoint(self, *, synchronous: bool = False) -> None:
        """Begin a checkpoint of the epochs that are processed."""
        assert not self._guarded or self._last >= self._checkpoint_epoch, "other deliveries repeat epochs"
        self._checkpointer.settle()
        background = self._foreground if synchronous else self.checkpoints.layers.background
        saving = self._steps.save(self.checkpoints.next_layer, background)
        self._checkpointer.start(self._last, self._applied.copy(), self._watermarks, saving)
        self._checkpoint_epoch = self._last

    def _sync(self) -> None:
        """Make the epoch log durable; a checkpoint whose line it has counts then."""
        self.log.sync()
        self._checkpointer.synced()

    def _on_checkpoint(self, checkpoint: Checkpoint, seconds: float) -> None:
        self._covered = checkpoint.epoch
        self._settled = min(self.log.totals.committed, self._guard.lowest(checkpoint.epoch))
        self._pause_until = self.clock() + min(self.pause * seconds, _LONGEST_PAUSE)
        self.observer.checkpointed(checkpoint, seconds)

    def _remove_old(self) -> Work[None]:
        """Move the base, compact the epoch log, and remove checkpoints and layers that are no longer needed."""
        behind = self.checkpoints.newest(upto=self._guard.lowest(self._last)) if self._guarded else None
        return self._remove_upto(self._settled, set() if behind is None else {behind.number})

    def _remove_upto(self, settled: int, needed: Collection[int]) -> Work[None]:
        yield from self._retention.work(settled)
        yield from self.checkpoints.thin({*needed, *self._retention.needed(settled)})

    def _pass_checkpoint_part(self, part: str, epoch: int) -> None:
        self._pass_crash_point(Point.CHECKPOINT, epoch, part)

    def _commit_covered(self, epoch: int) -> bool:
        """Commit up to `epoch`, but only epochs that a checkpoint covers; False if there was nothing to commit."""
        if self._covered is None:
            return False
        committed = min(epoch, self._covered)
        if committed <= self.log.totals.committed:
            return False
        self.log.commit(committed)
        return True

    def on_idle(self) -> None:
        """Use a time without ready epochs: with exactly_once, write a due checkpoint in the background, or commit.

        With the other deliveries, do nothing: they promise after which epochs there are checkpoints.
        """
        if not self._guarded:
            return
        self._checkpointer.advance()
        if self._checkpointer.logged:
            self._sync()
        if self._checkpointer.busy:
            return
        if self._may_checkpoint(self._last):
            self._start_checkpoint()
            self._checkpointer.delivered()
        elif due(self._last, self.plan.commit_every) and self._commit_covered(self._last):
            self.log.sync()

    # ------------------------------------------------------------ ends

    @property
    def delivered(self) -> Mapping[str, Digest]:
        """By sink, the digest of all rows that were ever appended to it; known after `start`."""
        return self._guard.sums

    def save(self) -> None:
        """Take a checkpoint of all epochs, unless there is one."""
        self._checkpointer.settle()
        if (
            self._dirty and self._covered != self._last
        ):  # without a checkpoint that covers the last epoch, it may not be committed
            self._start_checkpoint(synchronous=True)
            self._checkpointer.delivered()
        self._checkpointer.tidy()

    def end(self) -> None:
        """End cleanly, after `save`: commit all epochs, close the sinks."""
        self._commit_covered(self._last)
        self.log.sync()
        for sink in self.sinks.values():
            sink.close()

    def abandon(self) -> None:
        """End without a commit: give up the checkpoint in the making, and write nothing else."""
        self._checkpointer.abandon()
