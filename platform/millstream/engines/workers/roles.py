"""The roles of workers: readers and the sequencer. No I/O and no clock: a role receives and sends messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.engines.workers.exchange import ORDER, Exchange, gather, scatter, with_order
from millstream.engines.workers.messages import (
    Allow,
    Done,
    EpochPart,
    Failed,
    Message,
    Read,
    Restore,
    Rows,
    Skip,
    StateReply,
    StateRequest,
    Take,
)
from millstream.engines.workers.stages import Stages
from millstream.errors import MillstreamError, StepFailed
from millstream.log.epochs import Epoch, PartitionTable
from millstream.log.ranges import Range
from millstream.state.checkpoints import States
from millstream.state.dirty_rows import ArraySnapshot
from millstream.state.keyed_state import Entries, KeyedSnapshot
from millstream.steps.chain import Chain, EpochInProgress, begin_epoch
from millstream.steps.graph import Graph, Node
from millstream.steps.keys import owner
from millstream.steps.processor import EpochProcessor

__all__ = ["COORDINATOR", "SEQUENCER", "Role", "Send", "handle", "role_names", "role_of"]

COORDINATOR = "coordinator"
SEQUENCER = "sequencer"

Send = Callable[[str, Message], None]
"""Sends a message to the role of this name."""

_ReadRanges = Callable[[Sequence[Range]], pa.Table]
"""Reads from the logs."""


def _reader_name(index: int) -> str:
    """The name of the reader with this index.

    >>> _reader_name(0)
    'reader 0'
    """
    return f"reader {index}"


class Reader:
    """Reads whole epochs, runs the first steps, and owns its share of the keys of a keyed step."""

    def __init__(self, index: int, readers: int, graph: Graph, stages: Stages, read: _ReadRanges, send: Send) -> None:
        self._readers = readers
        self._graph = graph
        self._read, self._send = read, send
        self._head = Chain(graph, stages.head)
        self._partitions = PartitionTable()
        self._named: set[int] = set()
        """The partitions whose names were sent to the other readers."""
        self._owned = _OwnedKeys(graph, stages.keyed, index, readers) if stages.keyed is not None else None

    def handle(self, message: Message) -> None:
        if isinstance(message, Read):
            self._partitions.learn({wanted.rank: wanted.partition for wanted in message.ranges})
            records = self._read(message.ranges)
            epoch = begin_epoch(message.epoch, message.at, records, self._graph, self._partitions)
            self._head.run(epoch, self._partitions)
            self._send_on(epoch)
        elif self._owned is not None:
            if isinstance(message, EpochPart):
                self._partitions.learn(message.names)
            self._owned.handle(message, self._send, self._partitions)

    def _send_on(self, epoch: EpochInProgress) -> None:
        if self._owned is None:
            self._send(SEQUENCER, EpochPart(epoch))
            return
        names = {rank: self._partitions[rank] for rank in epoch.inputs if rank not in self._named}
        self._named |= names.keys()
        for index, part in enumerate(scatter(epoch, self._owned.key, self._readers)):
            self._send(_reader_name(index), EpochPart(part, names))


class _OwnedKeys:
    """A keyed step with the keys that this reader owns."""

    def __init__(self, graph: Graph, node: Node, index: int, readers: int) -> None:
        self.key = str(node.traits.key)
        self._name, self._step = node.name, node.step
        self._index, self._readers = index, readers
        self._exchange = Exchange(parts=1)
        self._chain = Chain(graph, [node])
        self._sent = _SentStates()

    def handle(self, message: Message, send: Send, partitions: PartitionTable) -> None:
        match message:
            case EpochPart():
                self._exchange.take(message.part)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self._restore(message.states.get(self._name, {}))
            case StateRequest():
                send(COORDINATOR, self._sent.message(message.number, {self._name: self._step.save()}))
            case _:
                raise AssertionError(message)
        while (parts := self._exchange.ready()) is not None:
            send(SEQUENCER, EpochPart(self._run(parts[0], partitions)))

    def _run(self, epoch: EpochInProgress, partitions: PartitionTable) -> EpochInProgress:
        earlier, records = epoch.outputs, epoch.records
        epoch.records, epoch.outputs = records.drop_columns([ORDER]), {}
        self._chain.run(epoch, partitions)
        try:
            epoch.records = with_order(epoch.records, records)
            made = {name: [with_order(table, records) for table in tables] for name, tables in epoch.outputs.items()}
        except StepFailed as error:
            message = f"step '{self._name}' failed in epoch {epoch.epoch}: {error}"
            raise StepFailed(message) from error
        epoch.outputs = {name: [*earlier.get(name, ()), *made.get(name, ())] for name in {**earlier, **made}}
        return epoch

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._sent = _SentStates()
        self._step.restore({key: value for key, value in state.items() if owner(key, self._readers) == self._index})


class _SentStates:
    """The states sent to the coordinator; of a state that tracks its changes, only the changes are sent next."""

    def __init__(self) -> None:
        self._by_key: dict[str, KeyedSnapshot] = {}
        self._arrays: dict[tuple[str, str], ArraySnapshot] = {}

    def message(self, number: int, states: States) -> StateReply:
        by_key = {step: state for step, state in states.items() if isinstance(state, KeyedSnapshot)}
        changed = {step: _changes(before, by_key[step]) for step, before in self._by_key.items()}
        self._by_key = by_key
        sent = {step: state for step, state in states.items() if step not in changed}
        dirty: dict[str, dict[str, Array | Rows]] = {}
        for step, state in sent.items():
            arrays = (
                {} if step in by_key else {n: value for n, value in state.items() if isinstance(value, ArraySnapshot)}
            )
            if arrays:
                dirty[step] = {name: self._dirty_rows(step, name, array) for name, array in arrays.items()}
                sent[step] = {name: value for name, value in state.items() if name not in arrays}
        return StateReply(number, sent, changed, dirty)

    def _dirty_rows(self, step: str, name: str, array: ArraySnapshot) -> Array | Rows:
        indices = array.since(self._arrays.get((step, name)))
        self._arrays[step, name] = array
        return np.asarray(array) if indices is None else Rows(indices, array.rows(indices))


def _changes(before: KeyedSnapshot, now: KeyedSnapshot) -> Mapping[str, bytes | None]:
    changes = now.since(before)
    if changes is None:  # the state does not track its changes since the last snapshot
        changes = Entries(now).since(Entries(before))
    return changes or {}


class Sequencer:
    """Puts epochs back in order, runs the steps that readers cannot run, and sends the results."""

    def __init__(self, readers: int, graph: Graph, stages: Stages, send: Send) -> None:
        self._send = send
        self._epochs: dict[int, Epoch] = {}
        if stages.keyed is None:
            self._exchange = Exchange(parts=1)
            self._processor = EpochProcessor(graph, stages.rest)
        else:
            self._exchange = Exchange(parts=readers)
            self._processor = EpochProcessor(graph, [stages.keyed, *stages.rest])
            self._processor.run_ahead([stages.keyed.name])
        self._scattered = stages.keyed is not None
        self._sent = _SentStates()

    def handle(self, message: Message) -> None:
        match message:
            case Take():
                self._epochs[message.epoch.number] = message.epoch
            case EpochPart():
                self._exchange.take(message.part)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self._sent = _SentStates()
                self._processor.restore(message.states, message.partitions)
            case Skip():
                self._processor.skip(message.epoch)
            case StateRequest():
                self._send(COORDINATOR, self._sent.message(message.number, self._processor.save()))
            case _:
                raise AssertionError(message)
        while (parts := self._exchange.ready()) is not None:
            epoch = gather(parts) if self._scattered else parts[0]
            self._send(COORDINATOR, Done(self._processor.complete(self._epochs.pop(epoch.epoch), epoch)))


Role = Reader | Sequencer


def role_names(workers: int) -> list[str]:
    """The names of the roles for this number of workers, the sequencer last.

    >>> role_names(3)
    ['reader 0', 'reader 1', 'sequencer']
    """
    return [*(_reader_name(index) for index in range(workers - 1)), SEQUENCER]


def role_of(name: str, readers: int, graph: Graph, stages: Stages, read: _ReadRanges, send: Send) -> Role:
    """Make the role of this name."""
    if name == SEQUENCER:
        return Sequencer(readers, graph, stages, send)
    return Reader(int(name.rpartition(" ")[2]), readers, graph, stages, read, send)


def handle(role: Role, message: Message, send: Send) -> None:
    """Let a role handle a message; send a failure to the coordinator."""
    try:
        role.handle(message)
    except Exception as error:
        known = isinstance(error, MillstreamError | OSError)  # other exceptions may not be picklable
        sent = error if known else MillstreamError(f"{type(error).__name__}: {error}")
        send(COORDINATOR, Failed(sent, message.epoch if isinstance(message, Read) else None))
