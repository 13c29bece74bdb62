"""Compare `millstream advise` with real runs that SIGKILL ends at random moments: `python scripts/advice_runs.py 50`.

Each run processes 160,000 records whose labels come in bursts of known `deff`, in 80 epochs, with about four kills; the
same command resumes it until it ends. The errors of the labels' shares, in the rows and in the model's state, are
compared with the advice for as many failures.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

import millstream as ms
from millstream.arrays import Array
from millstream.config.load import load_config
from millstream.engines.fork_server import fork_server, start_process
from millstream.guarantees.delivery import Delivery
from millstream.guarantees.lifecycle import EpochLifecycle
from millstream.log.epochs import Epoch
from millstream.study.advice import advise
from millstream.study.conditions import MONTH, conditions_of

RECORDS, EPOCH, KILLS = 160_000, 2_000, 4
NAMES, SHARES, SAME = ("a", "b", "c", "d"), (0.4, 0.3, 0.2, 0.1), 0.95
INTERVALS = {Delivery.AT_LEAST_ONCE: (2, 4), Delivery.AT_MOST_ONCE: (4, 1)}
CONFIG = """\
name: burst
source: {{type: files, path: labels.jsonl}}
pipeline: {{use: text_topics, features: {{type: hashed_text, dimensions: 1024}}, popularity: null}}
guarantee: {{delivery: {delivery}, checkpoint_every: {intervals[0]}, commit_every: {intervals[1]}}}
engine: {{type: local, epoch: {{max_records: {epoch}}}}}
"""


def labels_in_bursts() -> Array:
    """Each record repeats the label before with probability `SAME`: deff is about (1 + SAME) / (1 - SAME)."""
    rng = np.random.default_rng(1)
    fresh = rng.random(RECORDS) >= SAME
    fresh[0] = True
    return rng.choice(len(NAMES), RECORDS, p=SHARES)[np.maximum.accumulate(np.where(fresh, np.arange(RECORDS), 0))]


def run_once(folder: Path, run: Path, wait: float | None) -> tuple[bool, float]:
    """Start the run, and kill it after `wait` seconds of work; true if it was killed, and the time of its work.

    The seconds are those of CPU time: on a busy machine a start gets less of it, and is not killed earlier for that.
    """
    context = fork_server(load_config(folder / "burst.yaml").config)
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=report_run, args=(folder / "burst.yaml", run, writing))
    start_process(process)
    writing.close()
    began = reading.recv()
    clock = (~(process.pid or 0) << 3) | 2  # the clock of the CPU time of another process, as clock_getcpuclockid(3)
    while not (ended := reading.poll(0.002)) and (wait is None or time.clock_gettime(clock) - began < wait):
        pass
    spent = reading.recv() - began if ended else 0.0
    if not ended:
        process.kill()
    process.join()
    reading.close()
    if process.exitcode not in (0, -signal.SIGKILL):
        message = f"{run} ended with {process.exitcode}"
        raise RuntimeError(message)
    return process.exitcode != 0, spent


def report_run(config: Path, run: Path, writing: Connection) -> None:
    """Run in this process; send its CPU time after the first epoch, which imports libraries, and after the last one."""
    advance, save = EpochLifecycle._advance, EpochLifecycle.save

    def first(lifecycle: EpochLifecycle, epochs: Sequence[Epoch]) -> None:
        advance(lifecycle, epochs)
        EpochLifecycle._advance = advance  # type: ignore[method-assign]
        writing.send(time.process_time())

    def last(lifecycle: EpochLifecycle) -> None:
        if EpochLifecycle._advance is not advance:  # there was no epoch left
            writing.send(time.process_time())
        writing.send(time.process_time())
        save(lifecycle)

    EpochLifecycle._advance, EpochLifecycle.save = first, last  # type: ignore[method-assign]
    ms.run(config, run=run)


def killed_run(folder: Path, run: Path, work: float, rng: np.random.Generator) -> int:
    """Run until the end, with kills at random moments of its work; the number of kills."""
    kills = 0
    while run_once(folder, run, float(rng.exponential(work / KILLS)))[0]:
        kills += 1
    return kills


def errors(run: Path, labels: Array) -> tuple[Array, Array]:
    """The errors of the labels' shares in the rows of `predictions`, and among the records in the state."""
    opened = ms.open_run(run)
    counted = {
        pair["values"]: pair["counts"] for pair in pc.value_counts(opened.output("predictions")["label"]).to_pylist()
    }
    rows = np.array([counted.get(name, 0) for name in NAMES], float)
    applied = opened.checkpoints()[-1].applied
    times = np.zeros(RECORDS // EPOCH, np.int64)
    for start, stop in applied.ranges:
        times[start:stop] += 1
    for epoch, repeats in applied.repeats.items():
        times[epoch] += repeats
    state = np.bincount(labels, weights=np.repeat(times, EPOCH), minlength=len(NAMES))
    true = np.bincount(labels, minlength=len(NAMES)) / RECORDS
    return rows / rows.sum() - true, state / state.sum() - true


def rms(values: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def compare(delivery: Delivery, runs: int, folder: Path) -> None:
    labels = labels_in_bursts()
    lines = (json.dumps({"text": f"word of {NAMES[code]}", "label": NAMES[code]}) for code in labels)
    (folder / "labels.jsonl").write_text("\n".join(lines) + "\n")
    text = CONFIG.format(delivery=delivery, intervals=INTERVALS[delivery], epoch=EPOCH)
    (folder / "burst.yaml").write_text(text)
    run_once(folder, folder / "compiling", None)  # compiles the model for this machine, which is no work of later runs
    rng, work = np.random.default_rng(2), run_once(folder, folder / "clean", None)[1]
    kills = [killed_run(folder, folder / f"run{number}", work, rng) for number in range(runs)]
    rows, state = zip(*(errors(folder / f"run{number}", labels) for number in range(runs)), strict=True)
    mean = float(np.mean(kills))
    advice = advise(conditions_of(load_config(folder / "burst.yaml"), mean, RECORDS / MONTH)).of(delivery)
    for name, effect, found in (("rows", advice.rows, rms(rows)), ("model", advice.state, rms(state))):
        predicted = effect.month.rms if effect.month is not None else float("nan")
        print(
            f"{delivery}, {runs} runs, {mean:.1f} kills each: error of a share in the {name} {100 * found:.3f} pp, "
            f"predicted {100 * predicted:.3f} pp, predicted/measured {predicted / found:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    for delivery in INTERVALS:
        with tempfile.TemporaryDirectory(prefix="millstream-advice-") as name:
            compare(delivery, int(sys.argv[1]) if len(sys.argv) > 1 else 50, Path(name))
