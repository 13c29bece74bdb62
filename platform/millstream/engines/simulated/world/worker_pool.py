"""A pool of workers without processes: the roles of a real run, and channels whose messages a scheduler delivers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType

import pyarrow as pa

from millstream.engines.job import Job
from millstream.engines.local.channel import pack, unpack
from millstream.engines.simulated.world.background import SimulatedBackground
from millstream.engines.simulated.world.faults import Killed
from millstream.engines.simulated.world.files import SimulatedFiles, UnsyncedFiles
from millstream.engines.simulated.world.graphs import Graphs
from millstream.engines.simulated.world.scheduler import Ready, Stuck
from millstream.engines.simulated.world.trace import describe
from millstream.engines.simulated.world.world import World
from millstream.engines.workers.legs import legs_of
from millstream.engines.workers.messages import Message
from millstream.engines.workers.role_names import COORDINATOR, Send, role_names
from millstream.engines.workers.roles import Role, handle, role_of
from millstream.errors import WorkerLost
from millstream.log.ranges import Range, read_table, records_schema

__all__ = ["SimulatedWorkerPool"]

_SILENCE_SECONDS = 0.1
_NEVER_LEFT = 0.5
"""The share of deaths in which messages are lost that the worker had not sent yet."""


class SimulatedWorkerPool:
    """Starts the roles of a job in a world; as a context manager, ends them.

    A channel keeps the order of its messages and delivers each message once, as a socket between two processes does.
    Between channels any order is possible. A role handles one message at a time; the messages that it sends enter their
    channels at once. `packing`: each message is serialized and read back, as between processes.
    """

    def __init__(self, job: Job, world: World, graphs: Graphs, unsynced: UnsyncedFiles, *, packing: bool) -> None:
        self.names = role_names(job.config.engine.workers)
        self.running: str | None = None
        self._world, self._scheduler = world, world.scheduler
        self._graphs, self._packing = graphs, packing
        self._borrowed = [graphs.lend() for _ in self.names]
        schema = records_schema(job.graph.fields)

        def read(ranges: Sequence[Range]) -> pa.Table:
            return read_table(ranges, job.logs.__getitem__, schema)

        self._backgrounds = {name: SimulatedBackground(self._scheduler, name) for name in self.names}
        layers = job.lifecycle.checkpoints.layers
        self._roles: dict[str, Role] = {}
        for name, graph in zip(self.names, self._borrowed, strict=True):
            files = SimulatedFiles(unsynced, world, name)
            own = replace(layers, files=files, background=self._backgrounds[name])
            send = self._send_of(name)
            self._roles[name] = role_of(name, len(self.names) - 1, graph, legs_of(graph), read, send, own, job.versions)
        self._channels: dict[tuple[str, str], deque[Message | memoryview]] = {}
        self._arrived: deque[Message] = deque()
        self._gone: set[str] = set()
        self._stopped: set[str] = set()
        self._lost: str | None = None

    # ------------------------------------------------------------ the coordinator's side

    def send(self, name: str, message: Message) -> None:
        self._world.step()
        if name in self._gone - self._stopped and self._scheduler.rng.random() < _NEVER_LEFT:
            self._lose(f"{name} is gone")
        self._carry(COORDINATOR, name, message)
        self._scheduler.interleave()
        self._raise_if_lost()

    def receive(self, seconds: float | None) -> Message | None:
        self._world.step()
        until = float("inf") if seconds is None else self._scheduler.now + seconds
        self._scheduler.interleave()
        while not self._arrived:
            self._raise_if_lost()
            if not self._scheduler.step(until):
                if seconds is None:
                    message = "the coordinator waits for a message, and no worker has a message to send"
                    raise Stuck(message)
                self._scheduler.idle(until)
            if self._scheduler.now >= until:
                break
        if not self._arrived:
            self._raise_if_lost()
            return None
        return self._arrived.popleft()

    def _lose(self, how: str) -> None:
        self._lost = self._lost or how

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            self._scheduler.trace(lambda: f"coordinator: {self._lost}")
            raise WorkerLost(self._lost)

    # ------------------------------------------------------------ the workers' side

    def ready(self) -> Iterator[Ready]:
        for (sender, receiver), channel in self._channels.items():
            if channel and receiver not in self._gone:
                yield f"{sender} -> {receiver}", lambda ends=(sender, receiver): self._deliver(*ends)  # type: ignore[misc]
        for name in self.alive:
            for actor, step in self._backgrounds[name].ready():
                yield actor, lambda name=name, step=step: self._run(name, step)  # type: ignore[misc]

    def _deliver(self, sender: str, receiver: str) -> None:
        carried = self._channels[sender, receiver].popleft()
        message: Message = unpack(carried) if isinstance(carried, memoryview) else carried
        self._scheduler.trace(lambda: f"{sender} -> {receiver}: {describe(message)}")
        if receiver == COORDINATOR:
            self._arrived.append(message)
            self._scheduler.progress()
            return

        def work() -> None:
            self._world.step()
            handle(self._roles[receiver], message, self._send_of(receiver))

        self._run(receiver, work)

    def _run(self, name: str, work: Callable[[], None]) -> None:
        """Let a worker do some work; other workers may work in between."""
        before, self.running = self.running, name
        try:
            work()
        except Killed:
            pass
        finally:
            self.running = before

    def _send_of(self, name: str) -> Send:
        def send(receiver: str, message: Message) -> None:
            self._world.step()
            self._carry(name, receiver, message)

        return send

    def _carry(self, sender: str, receiver: str, message: Message) -> None:
        carried = pack(message) if self._packing else message
        self._channels.setdefault((sender, receiver), deque()).append(carried)

    # ------------------------------------------------------------ deaths

    @property
    def alive(self) -> list[str]:
        return [name for name in self.names if name not in self._gone]

    def hit(self, name: str, *, stopped: bool) -> None:
        """Kill or stop a worker; the coordinator notices the loss at some later time."""
        rng, scheduler = self._scheduler.rng, self._scheduler
        scheduler.trace(lambda: f"*** {name} is {'stopped' if stopped else 'killed'}")
        self._gone.add(name)
        if stopped:
            self._stopped.add(name)
            scheduler.at(scheduler.now + _SILENCE_SECONDS, lambda: self._lose(f"{name} has not moved for a while"))
            return
        for (sender, _), channel in self._channels.items():
            if sender == name and channel and rng.random() < _NEVER_LEFT:
                for _ in range(rng.randrange(len(channel) + 1)):
                    channel.pop()
        scheduler.at(scheduler.now + rng.expovariate(1000), lambda: self._lose(f"{name} was killed"))

    def __enter__(self) -> SimulatedWorkerPool:
        self._scheduler.join(self)
        self._world.workers = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._scheduler.leave(self)
        self._world.workers = None
        self._roles = {}
        for graph in self._borrowed:
            self._graphs.take_back(graph)
