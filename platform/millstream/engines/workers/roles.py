"""The roles of workers: readers and the sequencer. No I/O and no clock: a role receives and sends messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from millstream.engines.workers.exchange import ORDER, Exchange, gather, scatter, with_order
from millstream.engines.workers.messages import (
    Allow,
    Done,
    EpochPart,
    Failed,
    Finish,
    Finished,
    Message,
    Read,
    Restore,
    Skip,
    StateRequest,
    StateWritten,
    Take,
)
from millstream.engines.workers.stages import Stages
from millstream.errors import MillstreamError, StepFailed
from millstream.log.epochs import Epoch, PartitionTable
from millstream.log.ranges import Range
from millstream.state.background import Work
from millstream.state.layer_writer import LayerWriter
from millstream.state.layers import Layers
from millstream.state.stored_states import States, StoredStates
from millstream.steps.chain import Chain, EpochInProgress, begin_epoch
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node
from millstream.steps.outcome import outcome_of
from millstream.steps.processor import EpochProcessor
from millstream.steps.runner import save_state

__all__ = ["COORDINATOR", "SEQUENCER", "Role", "Send", "handle", "owned_states", "role_names", "role_of"]

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
    """Reads whole epochs, runs the first steps, and owns its shards of a keyed step."""

    def __init__(
        self, readers: int, graph: Graph, stages: Stages, read: _ReadRanges, send: Send, layers: Layers
    ) -> None:
        self._readers, self._shards = readers, layers.shards
        self._graph = graph
        self._read, self._send = read, send
        self._head = Chain(graph, stages.head, after=[*([stages.keyed] if stages.keyed else []), *stages.rest])
        self._read_later = {stream for node in stages.rest for stream in node.reads}
        """The streams that the sequencer reads."""
        self._partitions = PartitionTable()
        self._named: set[int] = set()
        """The partitions whose names were sent to the other readers."""
        self._owned = _OwnedKeys(graph, stages.keyed, stages.rest, layers, send) if stages.keyed is not None else None

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
            self._owned.handle(message, self._partitions)

    def _send_on(self, epoch: EpochInProgress) -> None:
        if self._owned is None:
            self._send(SEQUENCER, EpochPart(epoch))
            return
        keyed = self._owned.node
        epoch.merged[keyed.name] = self._head.input_of(keyed, epoch, self._partitions)
        epoch.tables = {name: table for name, table in epoch.tables.items() if name in self._read_later}
        if not any(self._graph.streams[name].maker is None for name in self._read_later):
            epoch.records = None
        names = {rank: self._partitions[rank] for rank in epoch.inputs if rank not in self._named}
        self._named |= names.keys()
        for index, part in enumerate(scatter(epoch, keyed.name, self._owned.key, self._shards, self._readers)):
            self._send(_reader_name(index), EpochPart(part, names))


class _OwnedKeys:
    """A keyed step with the shards that this reader owns."""

    def __init__(self, graph: Graph, node: Node, rest: Sequence[Node], layers: Layers, send: Send) -> None:
        self.key = node.traits.key_fields
        self.node, self._send = node, send
        self._exchange = Exchange(parts=1)
        self._chain = Chain(graph, [node], after=rest)
        self._writing = _Writing(layers, {node.name}, send)

    def handle(self, message: Message, partitions: PartitionTable) -> None:
        match message:
            case EpochPart():
                self._exchange.take(message.part)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self.node.step.restore(message.states[self.node.name])
            case StateRequest():
                self._writing.begin(message, {self.node.name: save_state(self.node)})
            case Finish():
                self._send(COORDINATOR, Finished(outcome_of({self.node.name: save_state(self.node)})))
            case _:
                raise AssertionError(message)
        while (parts := self._exchange.ready()) is not None:
            self._send(SEQUENCER, EpochPart(self._run(parts[0], partitions)))

    def _run(self, epoch: EpochInProgress, partitions: PartitionTable) -> EpochInProgress:
        earlier, before, records = epoch.outputs, epoch.tables, epoch.merged[self.node.name]
        epoch.merged, epoch.outputs, epoch.tables = {self.node.name: records.drop_columns([ORDER])}, {}, {}
        self._chain.run(epoch, partitions)

        def ordered(name: str, made: pa.Table) -> pa.Table:
            return with_order(made, records, children=self.node.traits.makes_children and name == self.node.name)

        try:
            epoch.tables = before | {name: ordered(name, table) for name, table in epoch.tables.items()}
            made = {name: [ordered(name, table) for table in tables] for name, tables in epoch.outputs.items()}
        except StepFailed as error:
            message = f"step '{self.node.name}' failed in epoch {epoch.epoch}: {error}"
            raise StepFailed(message) from error
        epoch.outputs = {name: [*earlier.get(name, ()), *made.get(name, ())] for name in {**earlier, **made}}
        return epoch


class _Writing:
    """Writes the layers of a role in the background."""

    def __init__(self, layers: Layers, keyed: Collection[str], send: Send) -> None:
        self._layers, self._send = layers, send
        self._writer = LayerWriter(layers, keyed)

    def begin(self, request: StateRequest, states: States) -> None:
        self._layers.background.start(self._write(request, states))

    def _write(self, request: StateRequest, states: States) -> Work[None]:
        try:
            sections = yield from self._writer.write(request.layer, states)
        except Exception as error:
            self._send(COORDINATOR, _failure(error))
            return
        self._send(COORDINATOR, StateWritten(request.number, sections))


class Sequencer:
    """Puts epochs back in order, runs the steps that readers cannot run, and sends the results."""

    def __init__(self, readers: int, graph: Graph, stages: Stages, send: Send, layers: Layers) -> None:
        self._send = send
        self._epochs: dict[int, Epoch] = {}
        self._exchange = Exchange(parts=1 if stages.keyed is None else readers)
        self._processor = EpochProcessor(graph, stages.rest)
        self._scattered = stages.keyed is not None
        self._writing = _Writing(layers, self._processor.keyed, send)

    def handle(self, message: Message) -> None:
        match message:
            case Take():
                self._epochs[message.epoch.number] = message.epoch
            case EpochPart():
                self._exchange.take(message.part)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self._processor.restore(message.states, message.partitions)
            case Skip():
                self._processor.skip(message.epoch)
            case StateRequest():
                self._writing.begin(message, self._processor.save())
            case Finish():
                self._send(COORDINATOR, Finished(self._processor.outcome()))
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


def owned_states(name: str, readers: int, stages: Stages, states: StoredStates) -> StoredStates:
    """The states that the role of this name owns: reader i has the shards of the keyed step that are i modulo readers.

    All other state is the sequencer's.
    """
    keyed = {stages.keyed.name} if stages.keyed is not None else set()
    if name == SEQUENCER:
        return states.owned(lambda shard: True, states.sections.keys() - keyed)
    index = _reader_index(name)
    return states.owned(lambda shard: shard % readers == index, keyed)


def role_of(
    name: str, readers: int, graph: Graph, stages: Stages, read: _ReadRanges, send: Send, layers: Layers
) -> Role:
    """Make the role of this name."""
    if name == SEQUENCER:
        return Sequencer(readers, graph, stages, send, layers)
    return Reader(readers, graph, stages, read, send, layers)


def _reader_index(name: str) -> int:
    return int(name.rpartition(" ")[2])


def handle(role: Role, message: Message, send: Send) -> None:
    """Let a role handle a message; send a failure to the coordinator."""
    try:
        role.handle(message)
    except Exception as error:
        send(COORDINATOR, _failure(error, message.epoch if isinstance(message, Read) else None))


def _failure(error: Exception, epoch: int | None = None) -> Failed:
    known = isinstance(error, MillstreamError | OSError)  # other exceptions may not be picklable
    return Failed(error if known else MillstreamError(f"{type(error).__name__}: {error}"), epoch)
