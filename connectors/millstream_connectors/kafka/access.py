"""The topic of one output, over a connection of its own: what can be asked without disturbing whoever writes there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.log.formats.rows import table_of
from millstream_connectors.kafka.cluster import Cluster, Topic
from millstream_connectors.kafka.coordinators import Coordinators
from millstream_connectors.kafka.fetching import Fetcher
from millstream_connectors.kafka.marks import HEADER, Marks, Signature

__all__ = ["Access"]


@dataclass(frozen=True)
class Access:
    """A connection to the topic of an output; `where` is the topic's name for people, waits are up to `patience`."""

    cluster: Cluster
    signature: Signature
    where: str
    patience: float
    coordinators: Coordinators = field(init=False)
    marks: Marks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coordinators", Coordinators(self.cluster))
        object.__setattr__(self, "marks", Marks(self.cluster, self.coordinators, self.signature, self.patience))

    def topic(self) -> Topic | None:
        return self.cluster.topic(self.signature.topic)

    def never_written(self) -> bool:
        """Whether no message ever was in the topic: it has just been made."""
        topic = self.topic()
        pairs = topic.pairs if topic is not None else []
        return not any(self.cluster.ends(pairs, "read_uncommitted").values())

    def settle(self) -> None:
        """Wait until what we have committed is there to be read."""
        self.coordinators.settle(self.signature.id)

    def rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Our rows that are committed, by partition, in order of their offsets: all of them, or an error."""
        topic = self.topic()
        if topic is None:
            return
        pairs = topic.pairs
        begins, ends = self.cluster.beginnings(pairs), self.marks.ends_of_ours(pairs)
        fetcher = Fetcher(self.cluster, "read_committed", skip_removed=True)
        for pair in pairs:
            for records in fetcher.read(pair, begins[pair], ends[pair]):
                ours = self.signature.ours(records.headers(HEADER.encode()))
                values = [value for value, own in zip(records.values(), ours, strict=True) if own and value]
                if values:
                    yield table_of(b"\n".join(values), schema)

    def close(self) -> None:
        self.cluster.close()
