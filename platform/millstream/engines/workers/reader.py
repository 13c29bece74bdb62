"""A reader: reads whole epochs, runs the first steps, and owns its shards of the keyed steps. No I/O and no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from millstream.engines.workers.cycle_runner import CycleRunner
from millstream.engines.workers.leg_results import LegResults
from millstream.engines.workers.leg_runner import LegRunner, Passed, chain_of
from millstream.engines.workers.legs import RECORDS, Legs
from millstream.engines.workers.messages import (
    Allow,
    Boundary,
    EpochPart,
    Finish,
    Finished,
    Message,
    Read,
    Restore,
    Round,
    StateRequest,
)
from millstream.engines.workers.places import Places
from millstream.engines.workers.role_names import COORDINATOR, SEQUENCER, Send, reader_names
from millstream.engines.workers.scatter import Scatter
from millstream.engines.workers.state_writer import StateWriter
from millstream.log.epochs import PartitionTable
from millstream.log.ranges import Range
from millstream.state.layers import Layers
from millstream.state.stored_states import States
from millstream.steps.chain import begin_epoch
from millstream.steps.contracts import OwnsShards
from millstream.steps.graph import Graph
from millstream.steps.outcome import outcome_of
from millstream.steps.processor import restore_steps
from millstream.steps.runner import save_state

__all__ = ["Reader"]


class Reader:
    """The role with this index, of several readers."""

    def __init__(
        self,
        index: int,
        readers: int,
        graph: Graph,
        legs: Legs,
        read: Callable[[Sequence[Range]], pa.Table],
        send: Send,
        layers: Layers,
    ) -> None:
        self._graph, self._legs, self._read, self._send = graph, legs, read, send
        self._head, self._results = chain_of(graph, legs, legs.head), LegResults(graph, legs, legs.head)
        self._places = any(leg.needs_order for leg in legs.fed_by(legs.head))
        self._runners = [(CycleRunner if leg.cycle else LegRunner)(graph, legs, leg, readers) for leg in legs.keyed]
        self._owned = [leg.steps[0] for leg in legs.keyed]
        for node in self._owned:
            if isinstance(node.step, OwnsShards):
                node.step.own(lambda shard: shard % readers == index)
        self._scatter = Scatter(legs, reader_names(readers), SEQUENCER, layers.shards, index)
        self._partitions = PartitionTable()
        keyed = [node.name for node in self._owned]
        self._writer = StateWriter(layers, keyed, lambda message: send(COORDINATOR, message))

    def handle(self, message: Message) -> None:
        match message:
            case Read():
                self._begin(message)
            case EpochPart():
                self._partitions.learn(message.names)
                for runner in self._runners:
                    runner.take(message)
            case Boundary() | Round():
                for runner in self._runners:
                    runner.take(message)
            case Allow():
                for runner in self._runners:
                    runner.allow(message)
            case Restore():
                self._partitions.learn(dict(enumerate(message.partitions)))
                restore_steps(self._graph, self._owned, message.states)
            case StateRequest():
                self._writer.begin(message, self._states())
            case Finish():
                self._send(COORDINATOR, Finished(outcome_of(self._states())))
            case _:
                raise AssertionError(message)
        for runner in self._runners:
            while (passed := runner.run_next(self._partitions)) is not None:
                self._pass_on(passed)

    def _begin(self, message: Read) -> None:
        """Read an epoch and run the first steps, which have no state."""
        self._partitions.learn({wanted.rank: wanted.partition for wanted in message.ranges})
        records = self._read(message.ranges)
        epoch = begin_epoch(message.epoch, message.at, records, self._graph, self._partitions)
        assert epoch.records is not None, "an epoch begins with the records of the log"
        places = Places.of_log(epoch.records) if self._places else None
        self._head.run(epoch, self._partitions)
        tables = self._results.take_records(epoch, places)
        self._pass_on(Passed(message.epoch, self._legs.head, RECORDS, tables, self._results.report(epoch)))

    def _pass_on(self, passed: Passed) -> None:
        ranks = list(passed.report.inputs) if passed.report is not None else ()
        for receiver, part in self._scatter.parts(passed, self._partitions, ranks).items():
            self._send(receiver, part)
        if passed.sent_back is not None:
            self._send(SEQUENCER, passed.sent_back)

    def _states(self) -> States:
        """The state of this reader's keys, after all epochs that were allowed."""
        assert all(runner.idle for runner in self._runners), "all epochs that were allowed are done"
        return {node.name: save_state(node) for node in self._owned}
