"""The runs in a folder, read from their run directories alone: no source, sink or plug-in is opened."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from millstream.errors import Contradiction, MillstreamError
from millstream.log.epochs import EpochReader, Totals
from millstream.runs.directory import RunDirectory
from millstream.runs.watch.run_status import state_of

__all__ = ["RunEntry", "list_runs", "run_entry"]


@dataclass(frozen=True)
class RunEntry:
    """One run directory. `state` is that of `RunStatus`, or unreadable, with the reason in `problem`."""

    name: str
    state: str
    pipeline: str | None = None
    engine: str | None = None
    delivery: str | None = None
    records: int | None = None
    accuracy: float | None = None
    age: float | None = None
    """The seconds since the run has written to its directory."""
    problem: str | None = None


def list_runs(folder: Path, now: float) -> list[RunEntry]:
    """Return the runs whose run directories are in a folder, by name; `now` is the time in seconds since 1970."""
    return [run_entry(found.parent, now) for found in sorted(folder.glob("*/run.json"))]


def run_entry(path: Path, now: float) -> RunEntry:
    """Return the entry of one run directory."""
    try:
        directory = RunDirectory.find(path)
        config = _config(directory)
        totals = _totals(directory)
        error = "" if directory.error.exists() else None
        return RunEntry(
            name=path.name,
            state="running" if directory.in_use else state_of(directory, totals, error),
            pipeline=config.get("name"),
            engine=config.get("engine", {}).get("type"),
            delivery=config.get("guarantee", {}).get("delivery"),
            records=totals.records,
            accuracy=totals.accuracy,
            age=_age(directory, now),
        )
    except MillstreamError as error:
        return RunEntry(path.name, "unreadable", problem=str(error))
    except Exception as error:  # any damage of one run directory: the others are listed
        return RunEntry(path.name, "unreadable", problem=f"{path} is damaged: {type(error).__name__}: {error}")


def _totals(directory: RunDirectory) -> Totals:
    if not any(directory.epochs.glob("*")):
        return Totals()
    reader = EpochReader(directory.epochs)
    return reader.with_base(lambda _: reader.totals())


def _config(directory: RunDirectory) -> Mapping[str, Any]:
    """Return the config of the last start; it is empty if the first start was interrupted before it wrote one."""
    with suppress(FileNotFoundError):
        config = yaml.safe_load(directory.config.read_text())
        if not isinstance(config, dict):
            message = f"{directory.config} was altered: it is no mapping"
            raise Contradiction(message)
        return config
    return {}


def _age(directory: RunDirectory, now: float) -> float:
    written = [directory.path / "run.json", directory.config, directory.summary, *directory.epochs.glob("*")]
    times: list[float] = []
    for path in written:
        with suppress(FileNotFoundError):  # not written yet, or removed meanwhile
            times.append(path.stat().st_mtime)
    return max(0.0, now - max(times))
