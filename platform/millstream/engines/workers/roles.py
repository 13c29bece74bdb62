"""What readers and the sequencer do with what they are told. No I/O, no clock: messages in, messages out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.engines.workers.exchange import ORDER, Exchange, gather, in_place, scatter
from millstream.engines.workers.messages import (
    Allow,
    AskSave,
    Done,
    Failed,
    Message,
    Part,
    Range,
    Read,
    Restore,
    Rows,
    Saved,
    Skip,
    Take,
)
from millstream.engines.workers.stages import Stages
from millstream.errors import MillstreamError, StepFailed
from millstream.log.epochs import Epoch, PartitionName
from millstream.state.keyed import Entries, Keyed
from millstream.state.saves import States
from millstream.state.touched import Array, Touched
from millstream.steps.chain import Chain, EpochInProgress, begin_epoch
from millstream.steps.graph import Graph, Node
from millstream.steps.keys import owner
from millstream.steps.processor import EpochProcessor

__all__ = ["COORDINATOR", "SEQUENCER", "Post", "ReadRanges", "Role", "heard", "reader_name", "role_names", "role_of"]

COORDINATOR = "coordinator"
SEQUENCER = "sequencer"

Post = Callable[[str, Message], None]
"""Sends a message to the role of this name."""

ReadRanges = Callable[[Sequence[Range]], pa.Table]
"""Reads from the logs."""


def reader_name(place: int) -> str:
    """What the reader at a place is called.

    >>> reader_name(0)
    'reader 0'
    """
    return f"reader {place}"


class Reader:
    """Reads whole epochs, takes them through the first steps, and owns its share of the keys of a keyed one."""

    def __init__(self, place: int, readers: int, graph: Graph, stages: Stages, read: ReadRanges, post: Post) -> None:
        self._readers = readers
        self._graph = graph
        self._read, self._post = read, post
        self._head = Chain(graph, stages.head)
        self._names: dict[int, PartitionName] = {}
        self._named: set[int] = set()
        """The partitions whose names the other readers were told."""
        self._owned = _Owned(graph, stages.keyed, place, readers) if stages.keyed is not None else None

    def hear(self, message: Message) -> None:
        if isinstance(message, Read):
            self._names |= {wanted.rank: wanted.partition for wanted in message.ranges}
            hand = begin_epoch(message.epoch, self._read(message.ranges), self._graph)
            self._head.run(hand, self._position)
            self._pass_on(hand)
        elif self._owned is not None:
            if isinstance(message, Part):
                self._names |= message.names
            self._owned.hear(message, self._post, self._position)

    def _pass_on(self, hand: EpochInProgress) -> None:
        if self._owned is None:
            self._post(SEQUENCER, Part(hand))
            return
        names = {rank: self._names[rank] for rank in hand.inputs if rank not in self._named}
        self._named |= names.keys()
        for place, part in enumerate(scatter(hand, self._owned.key, self._readers)):
            self._post(reader_name(place), Part(part, names))

    def _position(self, rank: int, offset: int) -> str:
        named = self._names.get(rank)
        return f"{named.source}/{named.name} offset {offset}" if named else f"partition {rank} offset {offset}"


class _Owned:
    """A keyed step, with the keys that are this reader's."""

    def __init__(self, graph: Graph, node: Node, place: int, readers: int) -> None:
        self.key = str(node.traits.key)
        self._name, self._step = node.name, node.step
        self._place, self._readers = place, readers
        self._exchange = Exchange(parts=1)
        self._chain = Chain(graph, [node], whole=False)
        self._told = _Told()

    def hear(self, message: Message, post: Post, position: Callable[[int, int], str]) -> None:
        match message:
            case Part():
                self._exchange.take(message.hand)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self._restore(message.states.get(self._name, {}))
            case AskSave():
                post(COORDINATOR, self._told.saved(message.number, {self._name: self._step.save()}))
            case _:
                raise AssertionError(message)
        while (parts := self._exchange.ready()) is not None:
            post(SEQUENCER, Part(self._run(parts[0], position)))

    def _run(self, hand: EpochInProgress, position: Callable[[int, int], str]) -> EpochInProgress:
        settled, records = hand.outputs, hand.records
        hand.records, hand.outputs = records.drop_columns([ORDER]), {}
        self._chain.run(hand, position)
        try:
            hand.records = in_place(hand.records, records)
            made = {name: [in_place(table, records) for table in tables] for name, tables in hand.outputs.items()}
        except StepFailed as error:
            message = f"step '{self._name}' failed in epoch {hand.epoch}: {error}"
            raise StepFailed(message) from error
        hand.outputs = {name: [*settled.get(name, ()), *made.get(name, ())] for name in {**settled, **made}}
        return hand

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._told = _Told()
        self._step.restore({key: value for key, value in state.items() if owner(key, self._readers) == self._place})


class _Told:
    """The states that the coordinator was told, so that what has changed since is enough where they know it."""

    def __init__(self) -> None:
        self._by_key: dict[str, Keyed] = {}
        self._arrays: dict[tuple[str, str], Touched] = {}

    def saved(self, number: int, states: States) -> Saved:
        by_key = {step: state for step, state in states.items() if isinstance(state, Keyed)}
        changed = {step: _changes(before, by_key[step]) for step, before in self._by_key.items()}
        self._by_key = by_key
        told = {step: state for step, state in states.items() if step not in changed}
        touched: dict[str, dict[str, Array | Rows]] = {}
        for step, state in told.items():
            arrays = {} if step in by_key else {n: value for n, value in state.items() if isinstance(value, Touched)}
            if arrays:
                touched[step] = {name: self._touched(step, name, array) for name, array in arrays.items()}
                told[step] = {name: value for name, value in state.items() if name not in arrays}
        return Saved(number, told, changed, touched)

    def _touched(self, step: str, name: str, array: Touched) -> Array | Rows:
        places = array.since(self._arrays.get((step, name)))
        self._arrays[step, name] = array
        return np.asarray(array) if places is None else Rows(places, array.rows(places))


def _changes(before: Keyed, now: Keyed) -> Mapping[str, bytes | None]:
    changes = now.since(before)
    if changes is None:  # it is of no kind that knows of the one before
        changes = Entries(now).since(Entries(before))
    return changes or {}


class Sequencer:
    """Puts epochs in their order again, and has the steps that cannot be shared; says what epochs came to."""

    def __init__(self, readers: int, graph: Graph, stages: Stages, post: Post) -> None:
        self._post = post
        self._epochs: dict[int, Epoch] = {}
        if stages.keyed is None:
            self._exchange = Exchange(parts=1)
            self._processing = EpochProcessor(graph, stages.rest)
        else:
            self._exchange = Exchange(parts=readers)
            self._processing = EpochProcessor(graph, [stages.keyed, *stages.rest])
            self._processing.run_ahead([stages.keyed.name])
        self._dealt = stages.keyed is not None
        self._told = _Told()

    def hear(self, message: Message) -> None:
        match message:
            case Take():
                self._epochs[message.epoch.number] = message.epoch
            case Part():
                self._exchange.take(message.hand)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self._told = _Told()
                self._processing.restore(message.states, message.partitions)
            case Skip():
                self._processing.skip(message.epoch)
            case AskSave():
                self._post(COORDINATOR, self._told.saved(message.number, self._processing.save()))
            case _:
                raise AssertionError(message)
        while (parts := self._exchange.ready()) is not None:
            hand = gather(parts) if self._dealt else parts[0]
            self._post(COORDINATOR, Done(self._processing.complete(self._epochs.pop(hand.epoch), hand)))


Role = Reader | Sequencer


def role_names(workers: int) -> list[str]:
    """The roles of so many workers, the sequencer last.

    >>> role_names(3)
    ['reader 0', 'reader 1', 'sequencer']
    """
    return [*(reader_name(place) for place in range(workers - 1)), SEQUENCER]


def role_of(name: str, readers: int, graph: Graph, stages: Stages, read: ReadRanges, post: Post) -> Role:
    """The role of this name."""
    if name == SEQUENCER:
        return Sequencer(readers, graph, stages, post)
    return Reader(int(name.rpartition(" ")[2]), readers, graph, stages, read, post)


def heard(role: Role, message: Message, post: Post) -> None:
    """Let a role hear a message; what goes wrong in its steps is the coordinator's to know."""
    try:
        role.hear(message)
    except Exception as error:
        known = isinstance(error, MillstreamError | OSError)  # those of others may not travel
        told = error if known else MillstreamError(f"{type(error).__name__}: {error}")
        post(COORDINATOR, Failed(told, message.epoch if isinstance(message, Read) else None))
