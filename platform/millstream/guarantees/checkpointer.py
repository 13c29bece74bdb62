"""The checkpointer: takes one checkpoint at a time, in four parts that follow each other.

1. The owners of state write their sections into layers and report them.
2. The manifest, which names the sections of all owners, is written, but not before the sinks have the epochs.
3. The epoch log gets the checkpoint's line. Once the line is durable, the checkpoint counts.
4. After some checkpoints, those that are no longer needed are removed, with their layers.

Parts 1, 2 and 4 go on in the background; the driver looks after them between epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millstream.log.epochs import EpochLog
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.background import Background, Task, Work
from millstream.state.checkpoints import Checkpoint, CheckpointStore
from millstream.state.layers import Sections

__all__ = ["Checkpointer"]

_THINNED_EVERY = 4
"""The number of checkpoints after which those that are no longer needed are removed."""


@dataclass
class _Request:
    """A checkpoint in the making: the tasks of its parts so far."""

    epoch: int
    applied: AppliedEpochs
    watermarks: Mapping[str, int | None]
    saving: Task[Sections]
    delivered: bool = False
    naming: Task[Checkpoint] | None = None
    logged: Checkpoint | None = None


class Checkpointer:
    """Takes checkpoints. `passed` is called after each part with its name, and `counted` once a checkpoint counts.

    `remove_old` does the work of part 4. A checkpoint that the driver waits for is
    written in the `foreground`.
    """

    def __init__(
        self,
        log: EpochLog,
        store: CheckpointStore,
        foreground: Background,
        passed: Callable[[str, int], None],
        counted: Callable[[Checkpoint, float], None],
        remove_old: Callable[[], Work[None]],
    ) -> None:
        self._log, self._store, self._foreground = log, store, foreground
        self._passed, self._counted, self._remove_old = passed, counted, remove_old
        self._request: _Request | None = None
        self._thinning: Task[None] | None = None
        self._added = 0
        """The checkpoints that count since the last removal."""

    @property
    def busy(self) -> bool:
        return self._request is not None or self._thinning is not None

    @property
    def logged(self) -> bool:
        """True if a line was appended that is not yet durable."""
        return self._request is not None and self._request.logged is not None

    def start(
        self, epoch: int, applied: AppliedEpochs, watermarks: Mapping[str, int | None], saving: Task[Sections]
    ) -> None:
        """Begin a checkpoint of the state that `saving` writes; its manifest waits for `delivered`."""
        assert not self.busy, "one checkpoint at a time"
        self._request = _Request(epoch, applied, watermarks, saving)

    def delivered(self) -> None:
        """Take note that every sink has the epochs of the checkpoint in the making."""
        if self._request is not None:
            self._request.delivered = True

    def advance(self) -> None:
        """Begin the next part if the part in progress is done. A line that is appended here is not yet durable."""
        if self._thinning is not None and self._thinning.done:
            self._thinning.result()
            self._thinning = None
        request = self._request
        if request is None:
            return
        if request.naming is None and request.delivered and request.saving.done:
            self._name(request, self._store.layers.background)
        if request.naming is not None and request.logged is None and request.naming.done:
            self._append_line(request, request.naming)

    def synced(self) -> None:
        """Take note that the epoch log is durable."""
        request = self._request
        if request is None or request.logged is None or request.naming is None:
            return
        self._request = None
        self._store.counts(request.logged)
        self._counted(request.logged, request.saving.seconds + request.naming.seconds)
        self._added += 1
        if self._added == _THINNED_EVERY:
            self._added = 0
            self._thinning = self._store.layers.background.start(self._remove_old())

    def wait(self) -> None:
        """Wait until the checkpoint in the making counts; this thread writes its manifest."""
        request = self._request
        if request is None:
            return
        assert request.delivered, "a checkpoint is never ahead of the sinks"
        request.saving.result()
        if request.naming is None:
            self._name(request, self._foreground)
        if request.naming is not None:
            request.naming.result()
        self.advance()
        self._log.sync()
        self.synced()

    def settle(self) -> None:
        """Wait until nothing is in the making or in the background."""
        self.wait()
        if self._thinning is not None:
            self._thinning.result()
            self._thinning = None

    def tidy(self) -> None:
        """Wait until nothing is in the making, and remove what is no longer needed."""
        self.settle()
        if self._added:
            self._added = 0
            self._foreground.start(self._remove_old())

    def abandon(self) -> None:
        """Give up the checkpoint in the making, unless it has its line. Wait for the background of this process."""
        request, self._request = self._request, None
        thinning, self._thinning = self._thinning, None
        for task in (request.saving if request else None, request.naming if request else None, thinning):
            if task is not None:
                task.leave()
        if request is not None and request.logged is not None:
            self._log.sync()
            self._store.counts(request.logged)

    def _name(self, request: _Request, background: Background) -> None:
        sections = request.saving.result()
        self._passed("layers", request.epoch)
        request.naming = background.start(
            self._store.write(request.epoch, request.applied, sections, request.watermarks)
        )

    def _append_line(self, request: _Request, naming: Task[Checkpoint]) -> None:
        checkpoint = naming.result()
        self._passed("manifest", request.epoch)
        self._log.checkpoint(checkpoint.number, checkpoint.epoch, checkpoint.name, checkpoint.digest)
        request.logged = checkpoint
