"""The Space-Saving sketch: the most frequent values of a stream, in a fixed number of counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Counted", "SpaceSaving"]


@dataclass(frozen=True)
class Counted:
    """A value that a sketch counts: its true count is at most `count`, and at least `count - error`."""

    value: str
    count: int
    error: int


class SpaceSaving:
    """Counts values with at most `counters` of them at a time (Metwally, Agrawal, El Abbadi, 2005).

    A value without a counter takes over the least counter with its count, which becomes the new value's error. So no
    error is greater than `total / counters`, and each value with a true count above that has a counter. Of several
    least counters, the one that has been least for longest is taken over, so the same values in the same order always
    give the same sketch.

    >>> sketch = SpaceSaving(2)
    >>> for value in "aaabbc":
    ...     sketch.add(value)
    >>> sketch.top(2), sketch.total
    ([Counted(value='a', count=3, error=0), Counted(value='c', count=3, error=2)], 6)
    """

    def __init__(self, counters: int, total: int = 0, counted: Sequence[Counted] = ()) -> None:
        self._most = counters
        self.total = total
        """The number of values that were added."""
        self._counts: dict[str, int] = {}
        self._errors: dict[str, int] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        """The values by their counts, each in the order in which they reached the count."""
        self._least = 0
        for each in counted:
            self._counts[each.value], self._errors[each.value] = each.count, each.error
            self._by_count.setdefault(each.count, {})[each.value] = None
        self._least = min(self._by_count, default=0)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, value: str) -> None:
        """Count a value."""
        self.total += 1
        count = self._counts.get(value)
        if count is None:
            error = 0
            if len(self._counts) == self._most:
                error = count = self._least
                old = next(iter(self._by_count[count]))
                del self._counts[old], self._errors[old]
                self._leave(old, count)
            self._errors[value] = error
            count = error
        else:
            self._leave(value, count)
        self._counts[value] = count + 1
        self._by_count.setdefault(count + 1, {})[value] = None
        if count + 1 < self._least or self._least not in self._by_count:
            self._least = count + 1

    def top(self, number: int) -> list[Counted]:
        """The values with the greatest counts, of equal ones the first in the order of text."""
        return sorted(self.counted(), key=lambda each: (-each.count, each.value))[:number]

    def counted(self) -> list[Counted]:
        """All values that have a counter, in an order in which a new sketch continues as this one."""
        return [
            Counted(value, count, self._errors[value])
            for count in sorted(self._by_count)
            for value in self._by_count[count]
        ]

    @staticmethod
    def union(counters: int, sketches: Sequence[SpaceSaving]) -> SpaceSaving:
        """The sketch of several streams; the errors add up.

        >>> other = SpaceSaving(2, 5, [Counted("b", 2, 0), Counted("c", 3, 1)])
        >>> SpaceSaving.union(2, [SpaceSaving(2, 3, [Counted("a", 3, 0)]), other]).top(2)
        [Counted(value='a', count=5, error=2), Counted(value='c', count=3, error=1)]
        """
        counts: dict[str, int] = {}
        errors: dict[str, int] = {}
        everywhere = 0  # the greatest count of a value that has no counter in any of the sketches
        for sketch in sketches:
            missing = sketch._missing()
            everywhere += missing
            for value, count in sketch._counts.items():
                counts[value] = counts.get(value, 0) + count - missing
                errors[value] = errors.get(value, 0) + sketch._errors[value] - missing
        kept = sorted(counts, key=lambda value: (-counts[value], value))[:counters]
        counted = [Counted(value, counts[value] + everywhere, errors[value] + everywhere) for value in reversed(kept)]
        return SpaceSaving(counters, sum(sketch.total for sketch in sketches), counted)

    def _missing(self) -> int:
        """The greatest count that a value without a counter may have."""
        return self._least if len(self._counts) == self._most else 0

    def _leave(self, value: str, count: int) -> None:
        values = self._by_count[count]
        del values[value]
        if not values:
            del self._by_count[count]
