"""A limit of a keyed step, as a limit for each shard: so it does not depend on the number of processes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ShardLimit"]

_LEAST = 100
"""The least part of a shard. Of evenly divided keys, the fullest of 64 shards has 100 when all have about 5,000."""


@dataclass(frozen=True)
class ShardLimit:
    """The most things of a kind that a keyed step may hold: `most` in all its `shards`, an equal part in each of them.

    >>> limit = ShardLimit("most", 6400, 64)
    >>> limit.each, limit.describe(13), limit.problem
    (100, 'in shard 13, and `most` 6,400 allows 100 in each of 64 shards', None)
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

    @property
    def problem(self) -> str | None:
        """The reason to refuse the limit, if a shard would reach its part long before all shards together do."""
        if self.shards == 1 or self.most >= self.shards * _LEAST:
            return None
        return (
            f"{self.most:,} is divided between {self.shards} shards of keys, so the run would stop with more than "
            f"{self.each:,} in one of them; the smallest value is {self.shards * _LEAST:,}, {_LEAST} for each shard, "
            "or give the run fewer shards (`guarantee.shards`)"
        )

    def describe(self, shard: int) -> str:
        """The shard and the limit, as the end of a sentence about what the shard holds."""
        if self.shards == 1:
            return f"and `{self.option}` allows {self.most:,}"
        return (
            f"in shard {shard}, and `{self.option}` {self.most:,} allows {self.each:,} in each of {self.shards} shards"
        )
