"""The epochs that may change the state of a leg and that the leg has not run yet."""

from __future__ import annotations

from collections import deque

from millstream.engines.workers.messages import Allow

__all__ = ["AllowedEpochs"]


class AllowedEpochs:
    """The allowed epochs in their order.

    >>> epochs = AllowedEpochs()
    >>> epochs.allow(Allow(5, 7))
    >>> epochs.first, epochs.pop(), epochs.pop(), epochs.first is None
    (5, 5, 6, True)
    """

    def __init__(self) -> None:
        self._epochs: deque[int] = deque()

    @property
    def first(self) -> int | None:
        """The epoch that is next; None if the leg has run all epochs that are allowed."""
        return self._epochs[0] if self._epochs else None

    def allow(self, message: Allow) -> None:
        """Allow these epochs to change state; they follow the epochs allowed before."""
        assert not self._epochs or message.start == self._epochs[-1] + 1, (self._epochs, message)
        self._epochs.extend(range(message.start, message.stop))

    def pop(self) -> int:
        """Return the epoch that is next, which the leg has run."""
        return self._epochs.popleft()
