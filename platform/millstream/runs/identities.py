"""Identities of a run's sources, compared at every start, so that a run refuses an altered log."""

from __future__ import annotations

import json
from collections.abc import Mapping

from millstream.errors import AlteredLog, Contradiction
from millstream.log.contracts import Log
from millstream.log.epochs import Totals
from millstream.log.journal.durability import write_whole
from millstream.runs.directory import RunDirectory

__all__ = ["check_sources", "refuse_altered", "remember_sources"]

_SHOWN = 80


def check_sources(directory: RunDirectory, logs: Mapping[str, Log], totals: Totals) -> None:
    """Refuse partitions that are missing or altered; then store the present identities."""
    refuse_altered(directory, logs)
    for rank, read in enumerate(totals.partitions):
        if logs[read.source].end(read.name) < totals.positions.get(rank, 0):
            message = (
                f"{read.source}/{read.name} is shorter than the part that this run has read; "
                "put it back, or start over with --fresh"
            )
            raise AlteredLog(message)
    remember_sources(directory, logs)


def refuse_altered(directory: RunDirectory, logs: Mapping[str, Log], *, replay: bool = False) -> None:
    """Refuse partitions that are missing, or altered since the run in this directory read them.

    A `replay` may read as far as the replayed run did, even if the log reports an earlier end at this start.
    """
    known: dict[str, dict[str, list[int | str]]] = {}
    if directory.sources.exists():
        known = json.loads(directory.sources.read_text())
    for source, partitions in known.items():
        names = {partition.name for partition in logs[source].partitions()}
        for name, (upto, identity) in partitions.items():
            if name not in names:
                message = f"{source}/{name} was read by this run and is gone; put it back, or start over with --fresh"
                raise Contradiction(message)
            end = logs[source].end(name)
            reaches = replay or end >= int(upto)
            now = logs[source].identity(name, int(upto)) if reaches else f"its end is {end:,}"
            if now != identity:
                message = (
                    f"{source}/{name} was altered since this run read it up to offset {int(upto):,} "
                    f"(then {str(identity)[:_SHOWN]}, now {now[:_SHOWN]}); put it back, or start over with --fresh"
                )
                raise AlteredLog(message)


def remember_sources(directory: RunDirectory, logs: Mapping[str, Log]) -> None:
    """Store the end and the identity of every partition."""
    known: dict[str, dict[str, list[int | str]]] = {}
    for source, log in logs.items():
        for partition in log.partitions():
            upto = log.end(partition.name)
            known.setdefault(source, {})[partition.name] = [upto, log.identity(partition.name, upto)]
    write_whole(directory.sources, json.dumps(known, indent=1))
