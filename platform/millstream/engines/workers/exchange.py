"""The exchange between roles: epochs are scattered by key, and gathered in their order.

The parts of an epoch may arrive in any order, and between parts of other epochs. The exchange holds them until all
parts of the epoch have arrived and the epoch is next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.digests import Digest
from millstream.engines.workers.messages import Allow
from millstream.errors import StepFailed
from millstream.log.epochs import Scores
from millstream.records import OFFSET, PATH, RANK
from millstream.steps.chain import EpochInProgress
from millstream.steps.child_paths import with_parent_paths
from millstream.steps.contracts import Array
from millstream.steps.keys import keys_of, shards_of

__all__ = ["ORDER", "Exchange", "gather", "scatter", "with_order"]

ORDER = "_order"
"""The column with the index of a record in its epoch, while the epoch is in parts."""


class Exchange:
    """Holds epochs until all their parts have arrived and they are allowed to change state.

    >>> exchange = Exchange(parts=2)
    >>> exchange.allow(Allow(5, 7))
    >>> for epoch in (6, 5, 6):
    ...     exchange.take(EpochInProgress(epoch, None, {}, {}, {}))
    >>> exchange.ready() is None
    True
    >>> exchange.take(EpochInProgress(5, None, {}, {}, {}))
    >>> [part.epoch for part in exchange.ready()], [part.epoch for part in exchange.ready()]
    ([5, 5], [6, 6])
    """

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self._held: dict[int, list[EpochInProgress]] = {}
        self._allowed: deque[int] = deque()

    def allow(self, message: Allow) -> None:
        """Allow these epochs to change state; they follow the epochs allowed before."""
        assert not self._allowed or message.start == self._allowed[-1] + 1, (self._allowed, message)
        self._allowed.extend(range(message.start, message.stop))

    def take(self, part: EpochInProgress) -> None:
        held = self._held.setdefault(part.epoch, [])
        held.append(part)
        assert len(held) <= self._parts, f"epoch {part.epoch} has {len(held)} parts of {self._parts}"

    def ready(self) -> list[EpochInProgress] | None:
        """Return the parts of the next epoch, each epoch only once; None if it is not allowed or not complete."""
        if not self._allowed or len(self._held.get(self._allowed[0], ())) < self._parts:
            return None
        return self._held.pop(self._allowed.popleft())


def scatter(epoch: EpochInProgress, step: str, key: Sequence[str], shards: int, owners: int) -> list[EpochInProgress]:
    """Split the merged input of a keyed step into one part for each owner of shards.

    The first part also has the other streams of the epoch, its counts and its digests.
    """
    records = epoch.merged[step]
    records = records.append_column(ORDER, pa.array(np.arange(records.num_rows)))
    owner_of = shards_of(keys_of(records, key), shards) % owners
    first, *others = ({step: records.filter(pa.array(owner_of == owner))} for owner in range(owners))
    return [
        replace(epoch, merged=first),
        *(EpochInProgress(epoch.epoch, None, {}, {}, {}, merged=part) for part in others),
    ]


def gather(parts: Sequence[EpochInProgress]) -> EpochInProgress:
    """Join the parts of an epoch, with its records in step order."""
    whole = EpochInProgress(parts[0].epoch, None, {}, {}, {})
    tables: dict[str, list[pa.Table]] = {}
    ordered: dict[str, list[pa.Table]] = {}
    made: dict[str, list[pa.Table]] = {}
    for part in parts:
        whole.inputs |= part.inputs
        whole.latest |= part.latest
        whole.records = whole.records if part.records is None else part.records
        whole.order = part.order or whole.order
        for step, digest in part.streams.items():
            whole.streams[step] = whole.streams.get(step, Digest()) + digest
        for step, scores in part.scores.items():
            whole.scores[step] = whole.scores.get(step, Scores()) + scores
        for stream, table in part.tables.items():
            tables.setdefault(stream, []).append(table)
        for name, rows in part.outputs.items():
            for table in rows:
                (made if ORDER in table.column_names else ordered).setdefault(name, []).append(table)
    whole.tables = {
        stream: _in_order(shares) if ORDER in shares[0].column_names else shares[0] for stream, shares in tables.items()
    }
    for name in {**ordered, **made}:
        rows = [_in_order(made[name])] if name in made else []
        whole.outputs[name] = [*ordered.get(name, []), *rows]
    return whole


def with_order(made: pa.Table, records: pa.Table, *, children: bool = False) -> pa.Table:
    """Add to the rows of a step the order of the records from which they were made, so that `gather` can sort them.

    The rows have the identities of these records, or are their `children`.
    The step does not see the order column and need not pass it on.
    """
    paths = pc.unique(records[PATH]) if PATH in records.column_names else None
    parents = with_parent_paths(made, records.schema) if children else made
    known, wanted = _identities(records, paths), _identities(parents, paths)
    if np.array_equal(known, wanted):
        return made.append_column(ORDER, records[ORDER])
    by_identity = np.argsort(known)
    found = np.searchsorted(known[by_identity], wanted)
    complete = (found < len(known)).all() and (known[by_identity][found] == wanted).all()
    indices = records[ORDER].to_numpy()[by_identity][found] if complete else np.zeros(0, np.int64)
    if not complete or (indices[1:] < indices[:-1]).any():
        message = (
            "it made rows that are not those of records that it was given, in their order, so they cannot be ordered "
            "among the rows of other workers; make one row for a record, in order, or declare the step global"
        )
        raise StepFailed(message)
    return made.append_column(ORDER, pa.array(indices))


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    return table.take(pa.array(np.argsort(table[ORDER].to_numpy(), kind="stable"))).drop_columns([ORDER])


def _identities(records: pa.Table, paths: pa.Array | None) -> Array:
    """The identities of records; a path by its index in `paths`, -1 if it is not there."""
    found = np.zeros(records.num_rows, [("rank", np.int64), ("offset", np.int64), ("path", np.int64)])
    found["rank"], found["offset"] = records[RANK].to_numpy(), records[OFFSET].to_numpy()
    if paths is not None and PATH in records.column_names:
        found["path"] = pc.fill_null(pc.index_in(records[PATH], paths), -1).to_numpy()
    elif paths is not None:
        found["path"] = -1
    return found
