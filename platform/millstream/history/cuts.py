"""The cuts of a history: copied from a run, or those that a run makes which stops at the end of its logs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.config.models import Config
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import LogCutter, ReplayCutter
from millstream.errors import AlteredLog, Contradiction
from millstream.history.plan import Block, Plan, ReadPartition, blocks_of, gaps_of
from millstream.history.setup import Opened
from millstream.log.contracts import Log
from millstream.log.epochs import Epoch, EpochLog, EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.identities import refuse_altered_since

__all__ = ["check_logs", "make_plan", "replayed"]

_SHOWN = 80


def replayed(path: Path) -> EpochReader:
    """The epoch log of a run whose cuts can be taken; one whose first epochs are gone is refused."""
    directory = RunDirectory.find(path)
    directory.check_epoch_log()
    reader = EpochReader(directory.epochs)
    if (base := reader.base.epoch) >= 0:
        message = (
            f"{path} begins after epoch {base}, its base: the cuts before it are gone (`keep` in the config), and a "
            "history begins with the first record; take another run, or leave out --replay"
        )
        raise Contradiction(message)
    return reader


def make_plan(opened: Opened, replay: Path | None, block_records: int) -> None:
    """Cut the logs and write the plan, unless it is there; then check that the logs are still those of the plan."""
    if opened.folder.has_plan:
        check_logs(opened.folder.plan(), opened.logs)
        return
    opened.folder.remove_cuts()
    epoch_log = EpochLog(opened.folder.epochs)
    try:
        original = None if replay is None else _original(replay, opened.logs)
        for _ in _cut(opened.config, opened.logs, epoch_log, original):
            pass
        epoch_log.sync()
        totals, reader = epoch_log.totals, epoch_log.reader()
        gaps = gaps_of(reader)
        blocks = blocks_of(reader.epochs(), len(totals.partitions), block_records)
    finally:
        epoch_log.close()
    begins = _begins(blocks)
    partitions = []
    for rank, name in enumerate(totals.partitions):
        end = totals.positions[rank]
        identity = opened.logs[name.source].identity(name.name, end)
        begin = begins.get(rank, end)
        partitions.append(ReadPartition(name.source, name.name, name.number, begin, end, identity))
    cuts = "" if original is None else original.id
    plan = Plan(cuts, totals.next_epoch, tuple(blocks), tuple(partitions), tuple(gaps))
    opened.folder.write_plan(plan)


def check_logs(plan: Plan, logs: Mapping[str, Log]) -> None:
    """Refuse logs that are not those of the plan, or that were altered since."""
    for partition in plan.partitions:
        log, label = logs[partition.source], f"{partition.source}/{partition.name}"
        if partition.name not in [known.name for known in log.partitions()]:
            raise Contradiction(f"{label} was read before and is gone; put it back, or choose another --out")
        end = log.end(partition.name)
        now = log.identity(partition.name, partition.end) if end >= partition.end else f"its end is {end:,}"
        if now != partition.identity:
            message = (
                f"{label} is another log, or was altered since it was read up to offset {partition.end:,} "
                f"(then {partition.identity[:_SHOWN]}, now {now[:_SHOWN]}); put it back, or choose another --out"
            )
            raise AlteredLog(message)


def _original(replay: Path, logs: Mapping[str, Log]) -> EpochReader:
    refuse_altered_since(RunDirectory.find(replay), logs)
    return replayed(replay)


def _cut(config: Config, logs: Mapping[str, Log], epoch_log: EpochLog, original: EpochReader | None) -> Iterator[Epoch]:
    """Cut to the present ends of the logs, or as the original run has done."""
    size = config.engine.epoch
    backpressure = Backpressure(size.max_records)
    cutter: LogCutter | ReplayCutter
    if original is not None:
        cutter = ReplayCutter(logs, epoch_log, backpressure, original)
    else:
        idle = {source.name: source.times.idle for source in config.logs}
        cutter = LogCutter(logs, epoch_log, backpressure, size.max_records, size.max_wait / 1e6, True, idle=idle)
    while not cutter.done:
        epoch = cutter.cut(time.monotonic())
        if epoch is not None:
            backpressure.release(epoch.number)
            yield epoch


def _begins(blocks: list[Block]) -> dict[int, int]:
    begins: dict[int, int] = {}
    for block in blocks:
        for rank, (start, _) in block.spans.items():
            begins.setdefault(rank, start)
    return begins
