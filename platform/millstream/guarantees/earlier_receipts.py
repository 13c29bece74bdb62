"""The receipts that earlier starts wrote of the epochs that a start processes again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from millstream.log.epochs import Build, Epoch, EpochReceipt

__all__ = ["EarlierReceipts"]


class EarlierReceipts:
    """By epoch, the number of attempts so far, and the receipt of the first one; taken when the epoch is replayed."""

    def __init__(self, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        """Read lines of an epoch log: receipts before the event of another build are attempts, and not compared."""
        self._attempts: Counter[int] = Counter()
        self.comparable: dict[int, EpochReceipt] = {}
        for line in lines:
            if "receipt" in line:
                self._add(EpochReceipt.from_line(line))
            elif "cut" in line and any(isinstance(event, Build) for event in Epoch.from_line(line).events):
                self.forget()

    def _add(self, receipt: EpochReceipt) -> None:
        for number in receipt.counts:
            self._attempts[number] += 1
            if receipt.merged is None:
                self.comparable.setdefault(number, receipt)

    def forget(self) -> None:
        """Compare none of these receipts: another build wrote them."""
        self.comparable.clear()

    def take(self, epoch: int) -> tuple[int, EpochReceipt | None]:
        """The number of this attempt, and the receipt with which its own is compared, if there is one."""
        return self._attempts.pop(epoch, 0) + 1, self.comparable.pop(epoch, None)
