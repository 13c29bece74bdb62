"""A limit of a keyed step, as a limit for each shard: so it does not depend on the number of processes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ShardLimit"]


@dataclass(frozen=True)
class ShardLimit:
    """The most things of a kind that a keyed step may hold: `most` in all its `shards`, an equal part in each of them.

    >>> limit = ShardLimit("most", 100, 64)
    >>> limit.each, limit.describe(13)
    (2, 'in shard 13, and `most` 100 allows 2 in each of 64 shards')
    >>> ShardLimit("most", 100, 1).describe(0)
    'and `most` allows 100'
    """

    option: str
    most: int
    shards: int

    @property
    def each(self) -> int:
        """The most in one shard, rounded up."""
        return -(-self.most // self.shards)

    def describe(self, shard: int) -> str:
        """The shard and the limit, as the end of a sentence about what the shard holds."""
        if self.shards == 1:
            return f"and `{self.option}` allows {self.most:,}"
        return (
            f"in shard {shard}, and `{self.option}` {self.most:,} allows {self.each:,} in each of {self.shards} shards"
        )
