"""The sources of a fork: those that continue at the positions of the old run, those that begin, and those that left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from millstream.errors import AlteredLog, Contradiction
from millstream.log.contracts import Log
from millstream.log.epochs import Added, Ended, Event, PartitionName, Totals
from millstream.runs.config_difference import difference
from millstream.runs.directory import RunDirectory
from millstream.runs.identities import alteration, known_sources

__all__ = ["SourceChange", "opening_events", "retired", "source_changes"]


@dataclass(frozen=True)
class SourceChange:
    """A source of the old config or of the new one. A source that does not continue `begins`, or has left."""

    source: str
    continues: bool
    begins: bool
    reason: str = ""
    added: bool = False
    """True if the old config has no source of this name."""
    unread: int = 0
    """The records after the base that the old run has read from it, and that the fork cannot read."""

    def describe(self) -> str:
        """Describe the change in a few words."""
        if self.continues:
            return "continues at its positions"
        unread = f"; {self.unread:,} records that it read after the checkpoint are not learned" if self.unread else ""
        begins = "begins at its start" if self.begins else "is dropped"
        return f"{begins}: {self.reason}{unread}"


def source_changes(
    original: RunDirectory, fixed: Mapping[str, Any], logs: Mapping[str, Log], totals: Totals
) -> list[SourceChange]:
    """Compare the logs of the new config with those that the old run has read; an altered log is refused."""
    was, now = _by_name(original.fixed["source"]), _by_name(fixed["source"])
    known = known_sources(original)
    changes = []
    for name in logs:
        if name not in was:
            reason = "the old config has no such source"
            changes.append(SourceChange(name, continues=False, begins=True, reason=reason, added=True))
            continue
        found = _alteration(name, known.get(name, {}), logs, totals, f"{original.path}")
        if found is None:
            changes.append(SourceChange(name, continues=True, begins=False))
        elif was[name] == now[name]:
            message = (
                f"{found[1]}; put it back, or say in the config that it is another source: one with another path, "
                "address or name begins at its start"
            )
            raise found[0](message)
        else:
            reason = f"it is another log ({difference(was[name], now[name])}), so the positions do not carry over"
            changes.append(SourceChange(name, continues=False, begins=True, reason=reason))
    gone = [name for name in was if name not in logs]
    left = [SourceChange(name, False, False, "the new config has no such source") for name in gone]
    return [*changes, *left]


def retired(totals: Totals, changes: Iterable[SourceChange]) -> tuple[Totals, Collection[int]]:
    """The totals without the sources that left or are other logs now, and the ranks of their partitions.

    The partitions keep their ranks, because the state may have records of them, and get a source name that no config
    can have: the old one with the base's epoch, as in `news@12`.
    """
    names = {change.source for change in changes if not change.continues}
    ranks = [rank for rank, partition in enumerate(totals.partitions) if partition.source in names]
    partitions = list(totals.partitions)
    for rank in ranks:
        partitions[rank] = replace(partitions[rank], source=f"{partitions[rank].source}@{totals.base.epoch}")
    ended = totals.ended | set(ranks)
    return replace(totals, partitions=partitions, ended=ended, idle=totals.idle - set(ranks)), ranks


def opening_events(changes: Iterable[SourceChange], logs: Mapping[str, Log], ranks: Collection[int]) -> Sequence[Event]:
    """The events of the first epoch: partitions of sources that begin, and the end of those with these ranks."""
    events: list[Event] = []
    for change in changes:
        if change.begins:
            log = logs[change.source]
            for index, partition in enumerate(log.partitions()):
                number = partition.number if partition.number is not None else index
                name = PartitionName(change.source, partition.name, number)
                events.append(Added(name, log.beginning(partition.name)))
    return [*events, *(Ended(rank) for rank in ranks)]


def _by_name(sources: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sources of the fixed parts by name; a single one is named `source`."""
    return {"source": sources} if isinstance(sources.get("type"), str) else sources


def _alteration(
    name: str, known: Mapping[str, list[int | str]], logs: Mapping[str, Log], totals: Totals, reader: str
) -> tuple[type[Contradiction], str] | None:
    found = alteration({name: known}, logs, reader)
    if found is not None:
        return found
    names = {partition.name for partition in logs[name].partitions()}
    for rank, partition in enumerate(totals.partitions):
        if partition.source != name:
            continue
        if partition.name not in names:
            return Contradiction, f"{name}/{partition.name} was read by {reader} and is gone"
        if logs[name].end(partition.name) < totals.positions[rank]:
            return AlteredLog, f"{name}/{partition.name} is shorter than the part that {reader} has read"
    return None
