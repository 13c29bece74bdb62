"""A thread that writes checkpoints in the background, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import Checkpoint, CheckpointStore, States

__all__ = ["CheckpointWriter"]


class CheckpointWriter:
    """Writes checkpoints in the background, one at a time; the next `start` or `wait` raises an error of the thread."""

    def __init__(self, store: CheckpointStore, done: Callable[[Checkpoint], None]) -> None:
        self._store = store
        self._done = done
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, epoch: int, applied: AppliedEpochs, states: States) -> None:
        """Start to write a checkpoint, after the previous one is written."""
        self.wait()
        self._thread = threading.Thread(target=self._write, args=(epoch, applied, states), name="millstream-checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Wait until no checkpoint is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _write(self, epoch: int, applied: AppliedEpochs, states: States) -> None:
        try:
            self._done(self._store.write(epoch, applied, states))
        except BaseException as error:  # the next call of `wait` raises it
            self._error = error
