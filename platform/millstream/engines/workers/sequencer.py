"""The sequencer: puts epochs back in order, runs the steps that readers cannot share, and owns event time. No I/O."""

from __future__ import annotations

from collections import deque

from millstream.engines.workers.gather import Gather
from millstream.engines.workers.leg_runner import LegRunner
from millstream.engines.workers.legs import Leg, Legs
from millstream.engines.workers.messages import (
    Allow,
    Boundary,
    Done,
    EpochPart,
    Finish,
    Finished,
    Message,
    Restore,
    SentBack,
    Skip,
    StateRequest,
    Take,
)
from millstream.engines.workers.role_names import COORDINATOR, SEQUENCER, Send, reader_names
from millstream.engines.workers.round_decisions import RoundDecisions
from millstream.engines.workers.scatter import Scatter
from millstream.engines.workers.state_writer import StateWriter
from millstream.log.epochs import Epoch
from millstream.state.layers import Layers
from millstream.steps.graph import Graph
from millstream.steps.model_events import NO_VERSIONS, Versions
from millstream.steps.processor import EpochBoundary, EpochProcessor

__all__ = ["Sequencer"]


class Sequencer:
    """Runs the legs of one process, computes the boundaries of epochs, and sends the results."""

    def __init__(
        self, readers: int, graph: Graph, legs: Legs, send: Send, layers: Layers, versions: Versions = NO_VERSIONS
    ) -> None:
        self._send = send
        self._runners = [LegRunner(graph, legs, leg, readers, self._take_models) for leg in legs.one]
        self._processor = EpochProcessor(graph, [node for leg in legs.one for node in leg.steps], versions)
        self._gather = Gather(graph, legs, readers)
        names = reader_names(readers)
        self._waiting_for_ends = names if any(leg.phases > 1 for leg in legs.keyed) else []
        """The readers to which something happens at a boundary."""
        self._decisions, self._readers = RoundDecisions(graph, legs, readers), names
        self._scatter = Scatter(legs, names, SEQUENCER, layers.shards, 0)
        self._epochs: dict[int, Epoch] = {}
        self._next: deque[int] = deque()
        """The epochs that are allowed and whose boundary is not known."""
        self._unfinished: deque[int] = deque()
        """The epochs that are allowed and not done."""
        self._boundaries: dict[int, EpochBoundary] = {}
        keyed = self._processor.keyed
        self._writer = StateWriter(layers, keyed, lambda message: send(COORDINATOR, message))

    def handle(self, message: Message) -> None:
        match message:
            case Take():
                self._epochs[message.epoch.number] = message.epoch
            case EpochPart():
                self._take(message)
            case Allow():
                self._allow(message)
            case Restore():
                self._processor.restore(message.states, message.partitions)
            case SentBack():
                self._decide(message)
            case Skip():
                self._processor.skip(message.epoch)
            case StateRequest():
                assert not self._unfinished, "all epochs that were allowed are done"
                self._writer.begin(message, self._processor.save())
            case Finish():
                self._send(COORDINATOR, Finished(self._processor.outcome()))
            case _:
                raise AssertionError(message)
        self._pass_boundaries()
        for runner in self._runners:  # a leg reads earlier legs only
            self._run(runner)
        self._finish()

    def _take(self, part: EpochPart) -> None:
        self._gather.take(part)
        for runner in self._runners:
            runner.take(part)

    def _take_models(self, number: int, leg: Leg) -> None:
        """Let the steps of a leg take their models. The epoch is known: its cut comes before the leave to begin it."""
        self._processor.take_models(self._epochs[number], leg.steps)

    def _decide(self, report: SentBack) -> None:
        """Let the readers begin the next round of a cycle, or end the cycle, once all have reported."""
        decision = self._decisions.take(report)
        if decision is not None:
            for reader in self._readers:
                self._send(reader, decision)

    def _allow(self, message: Allow) -> None:
        for runner in self._runners:
            runner.allow(message)
        epochs = range(message.start, message.stop)
        self._next.extend(epochs)
        self._unfinished.extend(epochs)

    def _pass_boundaries(self) -> None:
        """Advance event time over the epochs that are allowed and read, before their records are processed."""
        while self._next and self._next[0] in self._epochs:
            number = self._next[0]
            latest = self._gather.latest(number)
            if latest is None:
                return
            self._next.popleft()
            passed = self._boundaries[number] = self._processor.boundary(self._epochs[number], latest)
            boundary = Boundary(number, passed.risen)
            for runner in self._runners:
                runner.take(boundary)
            for reader in self._waiting_for_ends:
                self._send(reader, boundary)

    def _run(self, runner: LegRunner) -> None:
        """Run a leg as far as its parts have arrived."""
        while (passed := runner.run_next(self._processor.partitions)) is not None:
            ranks = range(len(self._processor.partitions))
            for receiver, part in self._scatter.parts(passed, self._processor.partitions, ranks).items():
                if receiver == SEQUENCER:
                    self._take(part)
                else:
                    self._send(receiver, part)

    def _finish(self) -> None:
        """Send the results of the epochs that are done."""
        while self._unfinished and self._gather.complete(self._unfinished[0]):
            number = self._unfinished.popleft()
            boundary = self._boundaries.pop(number)
            result = self._processor.result(self._epochs.pop(number), self._gather.pop(number), boundary)
            self._send(COORDINATOR, Done(result))
