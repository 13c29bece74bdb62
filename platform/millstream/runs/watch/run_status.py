"""The status of a running or ended run, read from its directory and its sources. Changes nothing."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.log.checked_source import open_log
from millstream.log.contracts import OpenContext
from millstream.log.epochs import Base, EpochReader, Totals
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import RunOutput, load_run, outputs_of
from millstream.runs.shadow.status import ShadowStatus, shadow_status
from millstream.runs.watch.event_time import EventTimeStatus, event_time_status
from millstream.runs.watch.progress_file import read_run_stats
from millstream.runs.watch.run_stats import RunStats
from millstream.state.checkpoints import CheckpointReader
from millstream.state.savepoints import savepoints
from millstream.timestamps import format_time

__all__ = ["RunStatus", "ended_cleanly", "run_status", "state_of"]

_OUTPUTS = "outputs"
_SMALL = 4 << 20


@dataclass(frozen=True)
class Epochs:
    """The number of epochs past each point; `checkpointed` counts the epochs in the newest checkpoint."""

    cut: int
    processed: int
    checkpointed: int
    committed: int


@dataclass(frozen=True)
class PartitionStatus:
    """The offset up to which a partition is cut, and its end; None if the end is unknown."""

    source: str
    partition: str
    position: int
    end: int | None

    @property
    def behind(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True)
class OutputStatus:
    """The rows that were ever appended to an output (None: unknown), and their location."""

    rows: int | None
    location: str


@dataclass(frozen=True)
class RunStatus:
    """A run at one moment.

    `state` is running, ended (cleanly), interrupted (the next start recovers), forked (not started yet) or failed.
    """

    run: str
    pipeline: str
    engine: str
    delivery: str
    state: str
    process: int | None
    epochs: Epochs
    records: int
    processed: int
    accuracy: float | None
    baselines: Mapping[str, float] | None
    """The accuracy of each baseline, by name."""
    steps: Mapping[str, Mapping[str, Any]]
    """If several steps predict, for each of them its accuracy and its baselines."""
    shadows: Mapping[str, ShadowStatus]
    """By step with a shadow, its versions and their accuracies."""
    partitions: tuple[PartitionStatus, ...]
    event_time: EventTimeStatus
    rounds: Mapping[str, int]
    """The rounds of each cycle in the last epoch."""
    unknown: Mapping[str, str]
    """The reason why the end of a source, or the rows of `outputs`, are unknown."""
    checkpointed_at: str | None
    checkpoint_age: float | None
    """The seconds since the last checkpoint was written."""
    savepoints: Mapping[str, int]
    """By name of a savepoint the number of its checkpoint."""
    outputs: Mapping[str, OutputStatus]
    error: str | None
    stats: RunStats | None
    """The statistics that a running run writes to live.json; None for other runs."""

    @property
    def behind(self) -> int | None:
        """The offsets of all partitions that are not yet cut; None if the end of a partition is unknown."""
        known = [partition.behind for partition in self.partitions if partition.behind is not None]
        return sum(known) if len(known) == len(self.partitions) and self.unknown.keys() <= {_OUTPUTS} else None


def run_status(directory: RunDirectory, loaded: Loaded | None = None) -> RunStatus:
    """The status of a run at this moment; `loaded` is its config, if this process has it."""
    loaded = load_run(directory) if loaded is None else loaded
    outputs = outputs_of(
        directory, loaded
    )  # may take seconds of imports, so it comes before reading the run's progress
    running = directory.in_use
    totals, processed, epoch_log = _epoch_log(directory)
    checkpoint = CheckpointReader(directory.path, totals.checkpoint).newest()
    checkpointed_at = checkpoint.at if checkpoint is not None else None
    now, run_stats = time.time(), read_run_stats(directory) if running else None
    partitions, unknown = _partitions(directory, loaded, totals)
    config = loaded.config
    error = directory.error.read_text() if directory.error.exists() else None
    return RunStatus(
        run=str(directory.path),
        pipeline=config.name,
        engine=config.engine.type,
        delivery=str(config.guarantee.delivery),
        state="running" if running else state_of(directory, totals, error),
        process=directory.holder if running else None,
        epochs=Epochs(
            totals.next_epoch, processed + 1, checkpoint.epoch + 1 if checkpoint else 0, totals.committed + 1
        ),
        records=totals.records,
        processed=totals.processed,
        accuracy=totals.accuracy,
        baselines=totals.baseline_accuracies,
        steps={
            step: {"accuracy": scores.accuracy, "baselines": scores.baseline_accuracies}
            for step, scores in (totals.scores.items() if len(totals.scores) > 1 else ())
        },
        shadows=shadow_status(loaded, directory, totals),
        partitions=partitions,
        event_time=event_time_status(totals),
        rounds=totals.rounds,
        unknown=unknown,
        checkpoint_age=max(0.0, round(now - checkpointed_at / 1e6, 3)) if checkpointed_at is not None else None,
        checkpointed_at=format_time(checkpointed_at - checkpointed_at % 1_000_000)
        if checkpointed_at is not None
        else None,
        savepoints={each.name: each.checkpoint for each in savepoints(directory.path)},
        outputs={
            name: OutputStatus(_rows(output, epoch_log, unknown), output.location) for name, output in outputs.items()
        },
        error=None if error is None else loaded.redact(error),
        stats=run_stats,
    )


def _rows(output: RunOutput, epoch_log: str | None, unknown: dict[str, str]) -> int | None:
    """The number of rows; None if it is unknown, with the reason in `unknown`."""
    if not output.found or _OUTPUTS in unknown:  # if one sink cannot be reached, do not wait for the others
        return None
    try:
        progress = output.progress()
    except MillstreamError as error:
        unknown[_OUTPUTS] = output.loaded.redact(f"{error}")
        return None
    return progress.rows if progress is not None and progress.log == epoch_log else 0


def ended_cleanly(directory: RunDirectory, totals: Totals) -> bool:
    """True if no record was processed after the last clean end."""
    if not directory.summary.exists():
        return False
    processed: int = json.loads(directory.summary.read_text())["processed"]
    return processed == totals.processed


def state_of(directory: RunDirectory, totals: Totals, error: str | None) -> str:
    """The state of a run that is not running: failed, ended (cleanly), interrupted, or forked and not started yet."""
    if error is not None:
        return "failed"
    if directory.origin.exists() and not totals.processed and not directory.summary.exists():
        return "forked"
    return "ended" if ended_cleanly(directory, totals) else "interrupted"


def _epoch_log(directory: RunDirectory) -> tuple[Totals, int, str | None]:
    """The totals of the epoch log, the last epoch with a receipt, and the log's id; -1 and None without a log."""
    directory.check_epoch_log()
    if not any(directory.epochs.glob("*")):
        return Totals(), -1, None
    reader = EpochReader(directory.epochs)

    def read(base: Base) -> tuple[Totals, int]:
        totals = reader.totals()
        receipts = reader.receipts(max(totals.committed, base.epoch + 1))
        return totals, max((receipt.last for receipt in receipts), default=totals.committed)

    return *reader.with_base(read), reader.id


def _partitions(
    directory: RunDirectory, loaded: Loaded, totals: Totals
) -> tuple[tuple[PartitionStatus, ...], dict[str, str]]:
    ends: dict[tuple[str, str], int] = {}
    unknown: dict[str, str] = {}
    for source in loaded.config.logs:
        try:
            loaded.need(*source.path)
            with _copy_cache(directory.path / "cache" / source.name) as cache:
                log = open_log(source.config, OpenContext(loaded.folder, cache, loaded.config.name, fail_fast=True))
                try:
                    for partition in log.partitions():
                        ends[source.name, partition.name] = log.end(partition.name)
                finally:
                    log.close()
        except Exception as error:  # any error of a source: report it, and show the rest of the status
            unknown[source.name] = loaded.redact(f"{error}" or type(error).__name__)
    read = {source.name for source in loaded.config.logs}
    positions = {
        (partition.source, partition.name): totals.positions.get(rank, 0)
        for rank, partition in enumerate(totals.partitions)
        if partition.source in read  # a fork may have left sources behind
    }
    names = [*positions, *(name for name in ends if name not in positions)]
    return tuple(PartitionStatus(*name, positions.get(name, 0), ends.get(name)) for name in names), unknown


@contextmanager
def _copy_cache(cache: Path) -> Iterator[Path]:
    """A temporary copy of a source's cache: large files are links, small files are copies that may be changed."""

    def copy(source: str, target: str) -> None:
        if Path(source).stat().st_size > _SMALL:
            Path(target).symlink_to(Path(source).absolute())
        else:
            shutil.copyfile(source, target)

    with tempfile.TemporaryDirectory(prefix="millstream-status-") as folder:
        target = Path(folder) / "cache"
        target.mkdir()
        if cache.is_dir():
            shutil.copytree(
                cache, target, copy_function=copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.tmp")
            )
        yield target
