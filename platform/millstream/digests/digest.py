"""The value of a digest: a number of rows, and the sums of the two lanes of their hashes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Digest"]

_LANE = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest of rows, or of the entries of a state: their number, and the sums of the two lanes of their hashes.

    >>> some, others = Digest(2, 1, 7), Digest(3, 4, 2**64 - 1)
    >>> str(some + others), Digest.parse("5-00000000000000050000000000000006") == some + others
    ('5-00000000000000050000000000000006', True)
    >>> some + others - others == some
    True
    """

    count: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            self.count + other.count, (self.first + other.first) & _LANE, (self.second + other.second) & _LANE
        )

    def __sub__(self, other: Digest) -> Digest:
        return Digest(
            self.count - other.count, (self.first - other.first) & _LANE, (self.second - other.second) & _LANE
        )

    def __str__(self) -> str:
        return f"{self.count}-{self.lanes}"

    @property
    def lanes(self) -> str:
        """Both lanes in hexadecimal digits."""
        return f"{self.first:016x}{self.second:016x}"

    @staticmethod
    def of(count: int, lanes: str) -> Digest:
        """A digest from its count and the hexadecimal digits of its lanes."""
        return Digest(count, int(lanes[:16], 16), int(lanes[16:], 16))

    @staticmethod
    def parse(text: str) -> Digest:
        """A digest from its text."""
        count, _, lanes = text.partition("-")
        return Digest.of(int(count), lanes)
