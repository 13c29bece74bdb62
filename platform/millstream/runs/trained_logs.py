"""The logs on which a version was trained, compared with those of a run."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.errors import AlteredLog, Contradiction, Truncated
from millstream.log.contracts import Log
from millstream.state.model_version import Trained

__all__ = ["check_logs"]


def check_logs(logs: Mapping[str, Log], trained: Mapping[str, Mapping[str, Trained]], uri: str) -> None:
    """Refuse the version `uri` if the logs, by source, are not those that it has learned up to its positions."""
    if missing := trained.keys() - logs.keys():
        message = (
            f"{uri} was trained on the source {', '.join(sorted(missing))}, and this config reads {', '.join(logs)}; "
            "give the source the same name"
        )
        raise Contradiction(message)
    for source, parts in trained.items():
        names = {partition.name for partition in logs[source].partitions()}
        for partition, part in parts.items():
            if partition not in names:
                message = f"{uri} was trained on {source}/{partition}, which the source does not have"
                raise Contradiction(message)
            _check_log(logs[source], source, partition, part, uri)


def _check_log(log: Log, source: str, partition: str, part: Trained, uri: str) -> None:
    """Refuse a partition that is another log, or that lacks the records after the position."""
    try:
        first = log.resume(partition, part.upto)
    except Truncated as error:
        message = f"{uri} was trained up to offset {part.upto:,} of {source}/{partition}, and what follows is gone"
        raise Truncated(f"{message}: {error}; train a newer version") from None
    end = log.end(partition)
    if end < part.upto or (now := log.identity(partition, part.upto)) != part.identity:
        seen = f"it ends at {end:,}" if end < part.upto else f"then {part.identity[:80]}, now {now[:80]}"
        message = (
            f"{uri} was trained on another log: {source}/{partition} up to offset {part.upto:,} is not the one that it "
            f"has learned ({seen}); a model continues only on the log that it has learned"
        )
        raise AlteredLog(message)
    if first > part.upto:
        message = (
            f"{uri} was trained up to offset {part.upto:,} of {source}/{partition}, and the log now begins at "
            f"{first:,}: {first - part.upto:,} records that it has not learned are gone; train a newer version"
        )
        raise Truncated(message)
