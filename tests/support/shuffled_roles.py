"""The roles of a run in one process: a seed decides in which order their messages arrive, and their work is counted."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.engines.local.channel import pack, unpack
from millstream.engines.workers.legs import legs_of
from millstream.engines.workers.messages import EpochPart, Message
from millstream.engines.workers.role_names import COORDINATOR, SEQUENCER, role_names
from millstream.engines.workers.roles import handle, role_of
from millstream.log.ranges import Range
from millstream.state.layers import Layers
from millstream.steps.graph import Graph
from millstream.steps.keys import keys_of
from millstream.steps.nodes import Node

__all__ = ["ShuffledPool", "Work"]

_SECONDS = 60.0


@dataclass
class Work:
    """The records that a step got in one role, and their keys."""

    records: int = 0
    keys: set[str | None] = field(default_factory=set)


class ShuffledPool:
    """A pool of roles whose messages are serialized and read back, as between processes.

    Messages between two roles keep their order; any other order is possible.
    """

    def __init__(
        self,
        readers: int,
        graph: Callable[[], Graph],
        read: Callable[[Sequence[Range]], pa.Table],
        layers: Layers,
        seed: int = 0,
    ) -> None:
        self.names = role_names(readers + 1)
        self.work: dict[tuple[str, str], Work] = {}
        """The work by role and step."""
        self.parts: list[EpochPart] = []
        """The parts that one reader has sent to itself or another one."""
        self.carried: list[tuple[Message, int]] = []
        """The messages from and to the coordinator, each with its size in bytes."""
        self._rng = random.Random(seed)
        self._channels: dict[tuple[str, str], deque[memoryview]] = {}
        self._changed = threading.Condition()  # layers are written in the background
        self._roles = {}
        for name in self.names:
            own = graph()
            for node in own.steps:
                self._count(name, node)
            self._roles[name] = role_of(name, readers, own, legs_of(own), read, self._send_of(name), layers)

    def send(self, name: str, message: Message) -> None:
        self._carry(COORDINATOR, name, message)

    def receive(self, seconds: float | None) -> Message | None:
        while True:
            with self._changed:
                assert self._changed.wait_for(self._waiting, _SECONDS), "no role has a message"
                ends = self._rng.choice(self._waiting())
                message: Message = unpack(self._channels[ends].popleft())
            if ends[1] == COORDINATOR:
                return message
            handle(self._roles[ends[1]], message, self._send_of(ends[1]))

    def _waiting(self) -> list[tuple[str, str]]:
        return sorted(ends for ends, messages in self._channels.items() if messages)

    def _send_of(self, sender: str) -> Callable[[str, Message], None]:
        return lambda receiver, message: self._carry(sender, receiver, message)

    def _carry(self, sender: str, receiver: str, message: Message) -> None:
        data = pack(message)
        with self._changed:
            self._channels.setdefault((sender, receiver), deque()).append(data)
            if isinstance(message, EpochPart) and receiver != SEQUENCER:
                self.parts.append(message)
            if COORDINATOR in (sender, receiver):
                self.carried.append((message, len(data)))
            self._changed.notify()

    def _count(self, role: str, node: Node) -> None:
        work = self.work[role, node.name] = Work()
        process: Callable[[pa.Table], Any] = node.step.process

        def counted(records: pa.Table) -> Any:
            work.records += records.num_rows
            if node.traits.key_fields:
                work.keys.update(keys_of(records, node.traits.key_fields).to_pylist())
            return process(records)

        vars(node.step)["process"] = counted
