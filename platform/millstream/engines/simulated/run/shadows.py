"""Shadows of a simulated run: versions that enter at random epochs, and swaps at random epochs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millstream.config.models import Config
from millstream.engines.simulated.world.graphs import Graphs
from millstream.engines.simulated.world.logs import MemoryLog, Recorded
from millstream.log.epochs import Added, Epoch, Event, NewModel, PartitionName, Swap, Totals
from millstream.log.ranges import ranges_of, read_table, records_schema
from millstream.shadow_names import shadow_of
from millstream.state.model_version import ModelVersion
from millstream.steps.processor import EpochProcessor

__all__ = ["RandomShadows", "trained_versions"]

_SHARE, _MOST = 0.3, 4
"""The share of looks at the logs after which an event comes, and the most events of a run."""
_VERSION = "models:/simulated/1"


def trained_versions(config: Config, graphs: Graphs, records: Recorded) -> Mapping[str, ModelVersion]:
    """For each step with a shadow a version of its model, which has learned the first half of each partition."""
    champions = [step.beside for step in config.steps if step.beside is not None]
    if not champions:
        return {}
    parts = [(source, part) for source, each in records.items() for part in each]
    cut = {rank: (part.start, part.start + part.size // 2) for rank, (_, part) in enumerate(parts)}
    names = [PartitionName(source, part.partition.name, rank) for rank, (source, part) in enumerate(parts)]
    added = tuple(Added(name, part.start) for name, (_, part) in zip(names, parts, strict=True))
    epoch, graph = Epoch(0, cut, added, 1 << 60), graphs.lend()
    logs = {source: MemoryLog(each, graph.fields) for source, each in records.items()}
    processor = EpochProcessor(graph)
    processor.restore({}, [])
    ranges = ranges_of(epoch, names)
    processor.process(epoch, read_table(ranges, logs.__getitem__, records_schema(graph.fields)))
    versions = {}
    for step in champions:
        node = graph.node(step)
        options = node.config.model.model_dump(mode="json")
        versions[step] = ModelVersion(step, node.step.save(), ({"model": options},), {}, "")
    graphs.take_back(graph)
    return versions


@dataclass
class RandomShadows:
    """An inbox for all starts of a run, with `digests` of versions by the names of the champions."""

    rng: random.Random
    digests: Mapping[str, str]
    left: int = _MOST

    def take(self, totals: Totals) -> Sequence[Event]:
        if not self.digests or not self.left or self.rng.random() >= _SHARE:
            return ()
        self.left -= 1
        champion = self.rng.choice(sorted(self.digests))
        shadow = shadow_of(champion)
        if shadow in totals.models.versions and self.rng.random() < 2 / 3:
            return [Swap(champion, _VERSION)]
        entered = self.rng.choice((champion, shadow, shadow))
        return [NewModel(entered, _VERSION, self.digests[champion], {})]
