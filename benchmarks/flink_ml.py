"""Flink ML's OnlineLogisticRegression and Millstream's `ftrl` under the same failures: the harness and its command.

`.venv/bin/python benchmarks/flink_ml.py` prints the table of docs/flink_ml.md. The first start fetches Flink's jars.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # as in the Makefile, before NumPy is imported
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.contenders import millstream_ftrl
from benchmarks.contenders.flink_ml import FlinkMl, Job, Models
from benchmarks.contenders.ftrl_reference import distance, log_loss, trained
from benchmarks.kit.failure_table import Outcome, table_lines, write
from benchmarks.kit.history import Machine
from benchmarks.kit.labelled_streams import NAMES, LabelledStream, labelled_stream
from benchmarks.kit.measurement import Unmeasured
from millstream.arrays import Array

RECORDS, HELD_OUT = 12_000, 5_000
BATCH, ALPHA, BETA, CHECKPOINT_EVERY = 100, 0.1, 0.1, 500
FAILURES = (3_050, 6_050, 9_050, 11_950)
KILLED_AT = 3_050
ON_SPARK = "words"
"""The stream that Millstream also learns on Spark."""
_ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if everything was measured, 1 if Flink's jars or a Java compiler cannot be had."""
    parser = argparse.ArgumentParser(prog="flink_ml.py", description=str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="streams of each kind; 10 unless given")
    parser.add_argument("--out", type=Path, help="write the figures to this file; .bench/flink_ml.json unless given")
    options = parser.parse_args(arguments)
    began = time.monotonic()

    def say(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{minutes:3}:{seconds:02}  {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="millstream-flink-ml-") as name:
        try:
            flink = FlinkMl(Path(name), say)
        except Unmeasured as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1
        outcomes = _measured(flink, Path(name), options.seeds, say)
    print("\n".join(["", *table_lines(outcomes)]))
    out = options.out or _ROOT / ".bench" / "flink_ml.json"
    write(out, outcomes, seeds=options.seeds, machine=asdict(Machine.here()), java=flink.version, pins=flink.pins)
    print(f"written to {out}")
    return 0


def _measured(flink: FlinkMl, folder: Path, seeds: int, say: Callable[[str], None]) -> list[Outcome]:
    """The outcomes of all systems; those of one row follow each other in the order of the seeds."""

    def outcomes(cell: tuple[str, int]) -> list[Outcome]:
        name, seed = cell
        whole = labelled_stream(name, seed, RECORDS + HELD_OUT)
        stream, held_out = whole.part(0, RECORDS), whole.part(RECORDS, RECORDS + HELD_OUT)
        work = folder / f"{name}-{seed}"
        work.mkdir()
        found = [
            *_flink_outcomes(flink, work, name, seed, stream, held_out),
            *_millstream_outcomes(work, name, seed, stream, held_out),
        ]
        shutil.rmtree(work)
        say(f"{name}, seed {seed}")
        return found

    cells = [(name, seed) for name in NAMES for seed in range(seeds)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # the work is done in other processes
        found = [outcome for each in threads.map(outcomes, cells) for outcome in each]
    rows = list(dict.fromkeys(outcome.row for outcome in found))
    return sorted(found, key=lambda outcome: rows.index(outcome.row))


def _flink_outcomes(
    flink: FlinkMl, work: Path, name: str, seed: int, stream: LabelledStream, held_out: LabelledStream
) -> Iterator[Outcome]:
    """Clean twice, one exception at each of the records, and one kill of the whole cluster."""
    file = stream.write_sparse(work / "stream.txt")
    job = Job(file, stream.vectors.shape[1], BATCH, ALPHA, BETA, CHECKPOINT_EVERY)
    failing = [replace(job, failure="exception", fail_at=record) for record in FAILURES]
    killing = replace(job, failure="kill", fail_at=KILLED_AT)
    clean, again, *failed, killed = flink.run([job, job, *failing], killing)

    def outcome(failure: str, at: tuple[int, ...], models: Models) -> Outcome:
        restored = at[0] // CHECKPOINT_EVERY * CHECKPOINT_EVERY if at else None
        reference = trained(stream.vectors, stream.labels, BATCH, ALPHA, BETA, emptied_at=restored)
        return Outcome(
            name,
            "Flink ML",
            failure,
            at,
            seed,
            distance(models.last, clean.last),
            models.last.tobytes() == clean.last.tobytes(),
            (models.records, models.digest) == (clean.records, clean.digest) and models.records == RECORDS,
            log_loss(clean.last, held_out.vectors, held_out.labels),
            log_loss(models.last, held_out.vectors, held_out.labels),
            models.versions[-1],
            distance(models.last, reference),
        )

    yield outcome("none, second run", (), again)
    for record, models in zip(FAILURES, failed, strict=True):
        yield outcome("exception", (record,), models)
    yield outcome("SIGKILL", (KILLED_AT,), killed)


def _millstream_outcomes(
    work: Path, name: str, seed: int, stream: LabelledStream, held_out: LabelledStream
) -> Iterator[Outcome]:
    """Kills at all of the records in one run on the local engine, and one kill on Spark where it is asked for."""

    def run(folder: str, engine: str, kills: Sequence[int] = ()) -> millstream_ftrl.Trained:
        return millstream_ftrl.run(
            work / folder, stream, ALPHA, BETA, engine=engine, checkpoint_every=CHECKPOINT_EVERY, kills=kills
        )

    def loss(weights: Array) -> float:
        return log_loss(weights, held_out.scaled(), held_out.labels)

    clean = run("clean", "local")
    runs: list[tuple[str, tuple[int, ...]]] = [("local", FAILURES)]
    if name == ON_SPARK:
        runs.append(("spark", (KILLED_AT,)))
    for engine, kills in runs:
        model = run(engine, engine, kills)
        yield Outcome(
            name,
            f"Millstream, {engine}",
            "SIGKILL",
            kills,
            seed,
            distance(model.weights, clean.weights),
            model.digest == clean.digest,
            model.records == RECORDS and model.state == clean.state,
            loss(clean.weights),
            loss(model.weights),
        )


if __name__ == "__main__":
    raise SystemExit(main())
