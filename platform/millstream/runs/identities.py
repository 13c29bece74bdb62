"""Identities of a run's sources, compared at every start, so that a run refuses an altered log."""

from __future__ import annotations

import json
from collections.abc import Mapping

from millstream.errors import AlteredLog, Contradiction
from millstream.log.contracts import Log
from millstream.log.epochs import Totals
from millstream.log.journal.durability import write_whole
from millstream.runs.config_difference import difference
from millstream.runs.directory import RunDirectory

__all__ = [
    "alteration",
    "check_sources",
    "known_sources",
    "refuse_altered_since",
    "refuse_other_source",
    "remember_sources",
]

_SHOWN = 80


def check_sources(directory: RunDirectory, logs: Mapping[str, Log], totals: Totals) -> None:
    """Refuse partitions that are missing or altered; then store the present identities.

    The partitions of sources that a fork left behind are not checked.
    """
    _refuse_altered(directory, logs)
    for rank, read in enumerate(totals.partitions):
        if read.source in logs and logs[read.source].end(read.name) < totals.positions.get(rank, 0):
            message = (
                f"{read.source}/{read.name} is shorter than the part that this run has read; "
                "put it back, or start over with --fresh"
            )
            raise AlteredLog(message)
    remember_sources(directory, logs)


def _refuse_altered(directory: RunDirectory, logs: Mapping[str, Log]) -> None:
    """Refuse partitions that are missing, or altered since the run in this directory read them."""
    if found := alteration(known_sources(directory), logs, "this run"):
        kind, message = found
        raise kind(f"{message}; put it back, or start over with --fresh")


def refuse_other_source(original: RunDirectory, directory: RunDirectory, logs: Mapping[str, Log]) -> None:
    """Refuse to replay a run in this directory if its sources are not those that the original run has read."""
    known = known_sources(original)
    mine = f"{original.path} cannot be replayed with another source"
    if missing := [name for name in known if name not in logs]:
        message = f"{mine}: it read {', '.join(missing)}, and this config reads {', '.join(logs)}; use its sources"
        raise Contradiction(message)
    found = alteration(known, logs, f"the replayed run {original.path}", may_end_earlier=True)
    if found is None:
        return
    kind, message = found
    was, now = original.fixed["source"], directory.fixed["source"]
    if was != now:
        message = f"{mine}: {difference(was, now)}; use the source of that run, or replay a run of this source"
        raise Contradiction(message)
    raise kind(f"{message}; put it back, or replay a run of this source")


def refuse_altered_since(original: RunDirectory, logs: Mapping[str, Log]) -> None:
    """Refuse logs that are not those that a run has read, or that were altered since."""
    known = known_sources(original)
    if missing := [name for name in known if name not in logs]:
        message = f"{original.path} read {', '.join(missing)}, and this config reads {', '.join(logs)}"
        raise Contradiction(f"{message}; use its sources, or take another run")
    if found := alteration(known, logs, f"the run {original.path}", may_end_earlier=True):
        kind, message = found
        raise kind(f"{message}; put it back, or take another run")


def known_sources(directory: RunDirectory) -> dict[str, dict[str, list[int | str]]]:
    """Return the end and the identity of every partition that the run in this directory has read."""
    if not directory.sources.exists():
        return {}
    known: dict[str, dict[str, list[int | str]]] = json.loads(directory.sources.read_text())
    return known


def alteration(
    known: Mapping[str, Mapping[str, list[int | str]]],
    logs: Mapping[str, Log],
    reader: str,
    *,
    may_end_earlier: bool = False,
) -> tuple[type[Contradiction], str] | None:
    """Return the error for the first partition that is missing or altered since `reader` has read it.

    A log of a replay `may_end_earlier` at its start: it can still be read as far as the replayed run did.
    """
    for source, partitions in known.items():
        names = {partition.name for partition in logs[source].partitions()}
        for name, (upto, identity) in partitions.items():
            if name not in names:
                return Contradiction, f"{source}/{name} was read by {reader} and is gone"
            end = logs[source].end(name)
            reaches = may_end_earlier or end >= int(upto)
            now = logs[source].identity(name, int(upto)) if reaches else f"its end is {end:,}"
            if now != identity:
                return AlteredLog, (
                    f"{source}/{name} was altered since {reader} read it up to offset {int(upto):,} "
                    f"(then {str(identity)[:_SHOWN]}, now {now[:_SHOWN]})"
                )
    return None


def remember_sources(directory: RunDirectory, logs: Mapping[str, Log]) -> None:
    """Store the end and the identity of every partition."""
    known: dict[str, dict[str, list[int | str]]] = {}
    for source, log in logs.items():
        for partition in log.partitions():
            upto = log.end(partition.name)
            known.setdefault(source, {})[partition.name] = [upto, log.identity(partition.name, upto)]
    write_whole(directory.sources, json.dumps(known, indent=1))
