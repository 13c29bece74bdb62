"""Digests of sets of rows that add up: the sum of two sets' digests is the digest of both sets together."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Digest"]

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Digest:
    """The number of rows, and the sums modulo 2^64 of two 64-bit hashes of each row; as text `count-hex32`.

    >>> print(Digest(2, 7, _MASK) + Digest(1, 1, 2))
    3-00000000000000080000000000000001
    >>> Digest.parse("3-00000000000000080000000000000001") == Digest(3, 8, 1)
    True
    """

    count: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            self.count + other.count, (self.first + other.first) & _MASK, (self.second + other.second) & _MASK
        )

    def __str__(self) -> str:
        return f"{self.count}-{self.first:016x}{self.second:016x}"

    @staticmethod
    def parse(text: str) -> Digest:
        count, _, lanes = text.partition("-")
        return Digest(int(count), int(lanes[:16], 16), int(lanes[16:], 16))
