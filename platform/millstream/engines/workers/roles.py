"""The roles of workers: readers and the sequencer. No I/O and no clock: a role receives and sends messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from millstream.engines.workers.legs import Legs, Place
from millstream.engines.workers.messages import Message, Read
from millstream.engines.workers.reader import Reader
from millstream.engines.workers.role_names import COORDINATOR, SEQUENCER, Send, reader_names
from millstream.engines.workers.sequencer import Sequencer
from millstream.engines.workers.state_writer import failure
from millstream.log.ranges import Range
from millstream.state.layers import Layers
from millstream.state.stored_states import StoredStates
from millstream.steps.graph import Graph
from millstream.steps.model_events import NO_VERSIONS, Versions
from millstream.steps.processor import EVENT_TIME

__all__ = ["Role", "handle", "owned_states", "role_of"]

Role = Reader | Sequencer


def owned_states(name: str, readers: int, legs: Legs, states: StoredStates) -> StoredStates:
    """The states that the role of this name owns: reader i has the shards of keyed steps that are i modulo readers.

    All other state is the sequencer's. Readers may read event time too, by which their steps find late records, and the
    whole state of a step of which one stream goes to all.
    """
    keyed = [leg.steps[0].name for leg in legs.all if leg.place is Place.KEYED]
    if name == SEQUENCER:
        return states.owned(lambda shard: True, states.sections.keys() - keyed)
    index = reader_names(readers).index(name)
    to_all = [leg.steps[0].name for leg in legs.keyed if leg.to_all is not None]
    return states.owned(lambda shard: shard % readers == index, keyed, whole=[EVENT_TIME, *to_all])


def role_of(
    name: str,
    readers: int,
    graph: Graph,
    legs: Legs,
    read: Callable[[Sequence[Range]], pa.Table],
    send: Send,
    layers: Layers,
    versions: Versions = NO_VERSIONS,
) -> Role:
    """Make the role of this name. `read` reads from the logs; `versions` has the versions of models of the run."""
    if name == SEQUENCER:
        return Sequencer(readers, graph, legs, send, layers, versions)
    return Reader(reader_names(readers).index(name), readers, graph, legs, read, send, layers)


def handle(role: Role, message: Message, send: Send) -> None:
    """Let a role handle a message; send a failure to the coordinator."""
    try:
        role.handle(message)
    except Exception as error:
        send(COORDINATOR, failure(error, message.epoch if isinstance(message, Read) else None))
