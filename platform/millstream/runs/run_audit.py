"""An audit of a run directory: a golden run of its epoch log, and the comparison row by row."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from millstream.config.load import Loaded
from millstream.config.models import Guarantee
from millstream.digests import Digest, row_hashes
from millstream.engines.script_import import refuse_run_in_import
from millstream.errors import Contradiction, MillstreamError
from millstream.guarantees.audit import Audit, OutputAudit, audit, audit_output
from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import Base, Epoch, EpochReader, Event, SinkAdded, SinkRemoved, Totals
from millstream.runs.directory import RunDirectory
from millstream.runs.outputs import RunOutput, outputs_of
from millstream.runs.sinks import default_sink, sink_key
from millstream.runs.start import Options, start
from millstream.runs.user_code import changed_code, last_code, user_code
from millstream.runs.watch.run_status import ended_cleanly
from millstream.state.applied_epochs import AppliedEpochs
from millstream.state.checkpoints import Checkpoint, read_newest
from millstream.state.digests import states_digest
from millstream.state.stored_states import States
from millstream.steps.contracts import Array

__all__ = ["audit_run"]


def audit_run(
    run: Path,
    loaded: Loaded,
    against: tuple[Path, Loaded] | None = None,
    making: Callable[[], None] = lambda: None,
) -> Audit:
    """Compare a run with a golden run; without one, make a temporary one, after a call of `making`.

    `loaded` is the config of the run; `against` is the golden run with its config.
    """
    refuse_run_in_import()
    directory = RunDirectory.find(run)
    with loaded.redacting():
        last = _last_committed(directory)
        if against is not None:
            other, other_loaded = RunDirectory.find(against[0]), against[1]
            found = _compare(directory, loaded, other, other_loaded, last)
            return replace(found, changed_code=changed_code(directory.code, last_code(other.code)))
        with tempfile.TemporaryDirectory(prefix="millstream-audit-") as folder:
            golden = Path(folder) / "golden"
            plain = _golden_config(loaded)
            making()
            start(plain, Options(golden, replay=directory.path, replay_last=last))
            found = _compare(directory, loaded, RunDirectory(golden), plain, last)
            return replace(found, changed_code=changed_code(directory.code, user_code(plain.config)))


def _golden_config(loaded: Loaded) -> Loaded:
    """The config of the golden run: the same pipeline on the local engine, with outputs in its own run directory."""
    if unset := [problem for problem in loaded.unset() if problem.path[0] not in ("sinks", "mlflow")]:
        loaded.refuse(unset)
    config = loaded.config
    changes = {
        "sinks": dict.fromkeys(config.sinks, default_sink()),  # their keys choose outputs and the names of outputs
        "guarantee": Guarantee(
            delivery=config.guarantee.delivery, shards=config.guarantee.shards
        ),  # without crashes, `recovery` and `checkpoint_every` change nothing
        "engine": config.engine.model_copy(update={"type": "local", "placement": {}}),
        "mlflow": False,
        "keep": None,
    }
    return replace(loaded, config=config.model_copy(update=changes))


def _last_committed(directory: RunDirectory) -> int:
    """The last epoch of a run that ended cleanly; refuses one that did not."""
    if directory.in_use:
        message = f"{directory.path} is running; wait until it has ended, or stop it, then audit it"
        raise MillstreamError(message)
    directory.check_epoch_log()
    totals = EpochReader(directory.epochs).totals()
    if totals.committed < 0 and totals.processed:
        message = (
            f"{directory.path} was interrupted before its first commit; run it again first, so that it recovers, "
            "then audit it"
        )
        raise MillstreamError(message)
    if totals.committed < 0:
        message = f"{directory.path} has not committed an epoch yet; there is nothing to audit"
        raise MillstreamError(message)
    if not ended_cleanly(directory, totals):
        message = (
            f"{directory.path} was interrupted after {_processed(directory, totals):,} epochs, of which "
            f"{totals.committed + 1:,} are committed; "
            "run it again first, so that it recovers, then audit it"
        )
        raise MillstreamError(message)
    return totals.committed


def _processed(directory: RunDirectory, totals: Totals) -> int:
    """The number of epochs that the run has processed, those before its base included."""
    receipts = EpochReader(directory.epochs).receipts(max(totals.committed, totals.base.epoch + 1))
    return 1 + max((receipt.last for receipt in receipts), default=totals.committed)


def _compare(directory: RunDirectory, loaded: Loaded, golden: RunDirectory, golden_loaded: Loaded, last: int) -> Audit:
    reader, golden_reader = EpochReader(directory.epochs), EpochReader(golden.epochs)
    _check_bases(reader.base, golden_reader.base, golden, directory)
    counts = _records_by_epoch(reader, golden_reader, last, golden, directory)
    newest, golden_newest = read_newest(directory.path, _digest), read_newest(golden.path, _digest)
    applied = newest[0] if newest is not None else AppliedEpochs()
    sinks = reader.totals().sinks
    earlier = reader.rows_before_base() if golden_reader.base.epoch >= 0 else {}
    outputs: dict[str, OutputAudit] = {}
    later: dict[str, int] = {}
    golden_outputs = outputs_of(golden, golden_loaded)
    for name, output in outputs_of(directory, loaded).items():
        key = sink_key(output.sink, name)
        if (first := sinks.get(key, 0)) > reader.base.epoch + 1:
            later[name] = first
            continue
        if name not in golden_outputs:
            message = f"{golden.path} has no output {name}; give a golden run of the same pipeline"
            raise Contradiction(message)
        before, once = earlier.get(key, Digest()), Delivery(loaded.config.guarantee.delivery) is Delivery.EXACTLY_ONCE
        outputs[name] = audit_output(*_hashes(output), *_hashes(golden_outputs[name]), before, once=once)
    same = newest is not None and golden_newest is not None and newest[1] == golden_newest[1]
    return audit(counts, applied, same, outputs, later)


def _check_bases(base: Base, other: Base, golden: RunDirectory, directory: RunDirectory) -> None:
    """Refuse a golden run that begins elsewhere than the run, unless it has all epochs."""
    if other.epoch not in (-1, base.epoch):
        message = (
            f"{golden.path} begins after epoch {other.epoch}, and {directory.path} after epoch {base.epoch}, its base; "
            f"make it again with `millstream run CONFIG --run DIR --replay {directory.path} --set keep=null`"
        )
        raise Contradiction(message)


def _records_by_epoch(
    own: EpochReader, reader: EpochReader, last: int, golden: RunDirectory, directory: RunDirectory
) -> Mapping[int, int]:
    """The number of records of each epoch, from the golden run's receipts; both runs must have the same cuts."""
    begin = own.base.epoch + 1
    for mine, other in zip(own.epochs(begin), reader.epochs(begin), strict=False):
        if mine.number > last:
            break
        if mine.cut != other.cut or _log_events(mine) != _log_events(other):
            message = (
                f"{golden.path} has other cuts, from epoch {mine.number} on; "
                f"make it with `millstream run CONFIG --run DIR --replay {directory.path}`"
            )
            raise Contradiction(message)
    counts: dict[int, int] = {}
    for receipt in reader.receipts(begin):
        counts |= {epoch: records for epoch, records in receipt.counts.items() if epoch >= begin}
    if len(counts) != last + 1 - begin:
        message = (
            f"{golden.path} has processed {len(counts)} epochs, and {directory.path} {last + 1 - begin}: "
            "the cuts differ; "
            f"make it with `millstream run CONFIG --run DIR --replay {directory.path}`"
        )
        raise Contradiction(message)
    return counts


def _log_events(epoch: Epoch) -> list[Event]:
    """The events of the sources, without the events of sinks."""
    return [event for event in epoch.events if not isinstance(event, SinkAdded | SinkRemoved)]


def _digest(checkpoint: Checkpoint, states: States) -> tuple[AppliedEpochs, Digest]:
    return checkpoint.applied, states_digest(states)


def _hashes(output: RunOutput) -> tuple[Array, Array]:
    """For each row that a reader of the sink sees, the hash of the identity and the hash of the content."""
    empty = np.zeros(0, np.uint64)
    identities, contents = [empty], [empty]
    for rows in output.read():
        identities.append(row_hashes(rows, output.identity))
        contents.append(row_hashes(rows))
    return np.concatenate(identities), np.concatenate(contents)
