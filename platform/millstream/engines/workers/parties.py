"""What readers and the keeper do with what they are told. No I/O, no clock: messages in, messages out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.engines.workers.exchange import ORDER, Exchange, dealt, gathered, in_place
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
    Saved,
    Skip,
    Take,
)
from millstream.engines.workers.stages import Stages
from millstream.log.epochs import Epoch, PartitionName
from millstream.steps.chain import Chain, InHand, begun
from millstream.steps.graph import Graph
from millstream.steps.keys import owner
from millstream.steps.processing import Processing

__all__ = ["COORDINATOR", "KEEPER", "Party", "Post", "ReadRanges", "heard", "party_names", "party_of", "reader_name"]

COORDINATOR = "coordinator"
KEEPER = "keeper"

Post = Callable[[str, Message], None]
"""Sends a message to the party of this name."""

ReadRanges = Callable[[Sequence[Range]], pa.Table]
"""Reads from the logs."""


def reader_name(place: int) -> str:
    """What the reader at a place is called.

    >>> reader_name(0)
    'reader 0'
    """
    return f"reader {place}"


class Reader:
    """Reads whole epochs, takes them through the first steps, and owns its share of the keys of keyed ones."""

    def __init__(self, place: int, readers: int, graph: Graph, stages: Stages, read: ReadRanges, post: Post) -> None:
        self._place, self._readers = place, readers
        self._graph, self._stages = graph, stages
        self._read, self._post = read, post
        self._head = Chain(graph, stages.head)
        self._names: dict[int, PartitionName] = {}
        self._keyed = [_Owned(graph, stages, stage, readers) for stage in range(1, len(stages.keyed) + 1)]

    def hear(self, message: Message) -> None:
        match message:
            case Read():
                self._names |= {wanted.rank: wanted.partition for wanted in message.ranges}
                hand = begun(message.epoch, self._read(message.ranges), self._graph)
                self._head.run(hand, self._position)
                self._pass_on(hand, 1)
            case Part():
                self._keyed[message.stage - 1].exchange.take(message.hand)
            case Allow():
                for owned in self._keyed:
                    owned.exchange.allow(message)
            case Restore():
                for owned in self._keyed:
                    owned.restore(message.states, self._place, self._readers)
            case AskSave():
                self._post(COORDINATOR, Saved(message.number, {owned.name: owned.save() for owned in self._keyed}))
            case _:
                raise AssertionError(message)
        for owned in self._keyed:
            while (parts := owned.exchange.ready()) is not None:
                self._pass_on(owned.run(gathered(parts), self._position), owned.stage + 1)

    def _pass_on(self, hand: InHand, stage: int) -> None:
        key = self._stages.key_of(stage)
        if key is None:
            self._post(KEEPER, Part(stage, hand))
            return
        for place, part in enumerate(dealt(hand, key, self._readers)):
            self._post(reader_name(place), Part(stage, part))

    def _position(self, rank: int, offset: int) -> str:
        named = self._names.get(rank)
        return f"{named.source}/{named.name} offset {offset}" if named else f"partition {rank} offset {offset}"


class _Owned:
    """One keyed step, with the keys that are this reader's."""

    def __init__(self, graph: Graph, stages: Stages, stage: int, readers: int) -> None:
        node = stages.keyed[stage - 1]
        self.stage, self.name = stage, node.name
        self.exchange = Exchange(1 if stage == 1 else readers)
        self._step = node.step
        self._chain = Chain(graph, [node], whole=False)

    def run(self, hand: InHand, position: Callable[[int, int], str]) -> InHand:
        settled, records = hand.outputs, hand.records
        hand.outputs = {}
        self._chain.run(hand, position)
        for name, tables in in_place(hand.outputs, records).items():
            settled.setdefault(name, []).extend(tables)
        hand.outputs = settled
        return hand

    def save(self) -> Mapping[str, Any]:
        return self._step.save()

    def restore(self, states: Mapping[str, Mapping[str, Any]], place: int, readers: int) -> None:
        own = {key: value for key, value in states.get(self.name, {}).items() if owner(key, readers) == place}
        self._step.restore(own)


class Keeper:
    """Puts epochs in their order again, and has the steps that cannot be shared; says what epochs came to."""

    def __init__(self, readers: int, graph: Graph, stages: Stages, post: Post) -> None:
        self._post = post
        self._exchange = Exchange(readers if stages.keyed else 1)
        self._epochs: dict[int, Epoch] = {}
        self._processing = Processing(graph, [*stages.keyed, *stages.rest])
        self._processing.run_ahead(node.name for node in stages.keyed)

    def hear(self, message: Message) -> None:
        match message:
            case Take():
                self._epochs[message.epoch.number] = message.epoch
            case Part():
                self._exchange.take(message.hand)
            case Allow():
                self._exchange.allow(message)
            case Restore():
                self._processing.restore(message.states, message.partitions)
            case Skip():
                self._processing.skip(message.epoch)
            case AskSave():
                self._post(COORDINATOR, Saved(message.number, self._processing.save()))
            case _:
                raise AssertionError(message)
        while (parts := self._exchange.ready()) is not None:
            hand = gathered(parts)
            if ORDER in hand.records.column_names:
                hand.records = hand.records.drop_columns([ORDER])
            self._post(COORDINATOR, Done(self._processing.complete(self._epochs.pop(hand.epoch), hand)))


Party = Reader | Keeper


def party_names(workers: int) -> list[str]:
    """The parties of so many workers, the keeper last.

    >>> party_names(3)
    ['reader 0', 'reader 1', 'keeper']
    """
    return [*(reader_name(place) for place in range(workers - 1)), KEEPER]


def party_of(name: str, readers: int, graph: Graph, stages: Stages, read: ReadRanges, post: Post) -> Party:
    """The party of this name."""
    if name == KEEPER:
        return Keeper(readers, graph, stages, post)
    return Reader(int(name.rpartition(" ")[2]), readers, graph, stages, read, post)


def heard(party: Party, message: Message, post: Post) -> None:
    """Let a party hear a message; what goes wrong in its steps is the coordinator's to know."""
    try:
        party.hear(message)
    except Exception as error:
        post(COORDINATOR, Failed(error))
