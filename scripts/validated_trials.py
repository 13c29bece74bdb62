"""Validate trials of studies by real runs that SIGKILL ends at random moments: `python scripts/validated_trials.py 30`.

So many runs on each engine are killed up to three times. After each kill, checkpoint, commit and delivery are read from
the run directory; then the same command continues the run. The trial that they give must have the positions of the run
in output and state, and its model to the bit. Exit code 1 if a trial differs.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import millstream as ms
from millstream import cli
from millstream.config.load import load_config
from millstream.engines.fork_server import fork_server, start_process
from millstream.errors import MillstreamError
from millstream.guarantees.delivery import Delivery
from millstream.log.epochs import EpochReader
from millstream.runs.directory import RunDirectory
from millstream.runs.termination import descendants
from millstream.study.observed_crashes import Observation, observe
from millstream.study.run_validation import ValidatedTrial, validate_trial

EPOCHS, EPOCH = 60, 25
ENGINES = ("local", "spark")
LEARNERS: Sequence[Mapping[str, Any]] = (
    {"type": "naive_bayes"},
    {"type": "naive_bayes", "half_life": 300},
    {"type": "softmax"},
    {"type": "ftrl", "l1": 0.001},
    {"type": "complement_nb", "batch_size": 16},
    {"type": "sgd", "batch_size": 32},
    {"type": "river_nb"},
)
DELIVERIES = (
    *(Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE),
    Delivery.EXACTLY_ONCE,
)
INTERVALS = ((1, 1), (4, 4), (1, 6), (5, 2), (8, 8), (3, 1), (2, 12), (12, 12))
KILLS = {"local": (1, 2, 3), "spark": (1, 1, 2, 1, 1, 3)}
"""A start of Spark takes some seconds, so there are fewer of them."""
LINGER = {"local": 0.03, "spark": 0.15}
"""The seconds, at most, between the epoch after which a kill is wanted and the kill: about two epochs."""


@dataclass(frozen=True)
class Case:
    """A run to kill: its name, its engine and what is varied.

    A kill comes after a part of the epochs that are left, and a part of `LINGER`. `every` has `checkpoint_every` and
    `commit_every`.
    """

    name: str
    engine: str
    delivery: Delivery
    every: tuple[int, int]
    learner: Mapping[str, Any]
    kills: Sequence[tuple[float, float]]

    def config(self) -> dict[str, Any]:
        checkpoint, commit = self.every
        guarantee = {"delivery": str(self.delivery), "checkpoint_every": checkpoint, "commit_every": commit}
        features = {"type": "hashed_text", "dimensions": 512}
        return {
            "name": self.name,
            "source": {"type": "files", "path": "documents"},
            "pipeline": {"use": "text_topics", "features": features, "model": dict(self.learner), "popularity": None},
            "guarantee": guarantee,
            "engine": {"type": self.engine, "epoch": {"max_records": EPOCH}},
        }


def varied(engine: str, number: int) -> Case:
    """Return the case with this number: each has another combination, and its own random moments."""
    delivery, (checkpoint, commit) = DELIVERIES[number % len(DELIVERIES)], INTERVALS[number % len(INTERVALS)]
    rng = np.random.default_rng([ENGINES.index(engine), number])
    return Case(
        f"{engine}-{number}",
        engine,
        delivery,
        (checkpoint, 1 if delivery is Delivery.AT_MOST_ONCE else commit),
        LEARNERS[number % len(LEARNERS)],
        [(float(rng.random()), float(rng.random())) for _ in range(KILLS[engine][number % len(KILLS[engine])])],
    )


@dataclass(frozen=True)
class KilledRun:
    """A run that has ended, with an observation after each kill, and the trial that these give."""

    case: Case
    observed: Sequence[Observation]
    trial: ValidatedTrial

    @property
    def effective(self) -> int:
        """The number of kills that changed the output or the state."""
        return sum(
            any((found.trained_twice, found.lost, *found.rows_repeated, *found.rows_missing))
            for found in self.trial.effects
        )

    def line(self) -> str:
        case, row = self.case, self.trial.row
        options = ", ".join(f"{name} {value}" for name, value in case.learner.items() if name != "type")
        learner = f"{case.learner['type']} ({options})" if options else case.learner["type"]
        checkpoint, commit = case.every
        kills = f"{len(self.observed)} kills" if len(self.observed) != 1 else "1 kill"
        counts = (
            f"repeated {row['repeated']}, lost {row['lost']}, twice {row['trained_twice']}, never {row['not_trained']}"
        )
        verdict = "; ".join(self.trial.differences) or "identical"
        return (
            f"{case.engine} {case.delivery} {checkpoint}/{commit} {learner}: {kills}{self._moments()}, "
            f"{self.effective} with an effect: {counts}: {verdict}"
        )

    def _moments(self) -> str:
        """The last epochs in the checkpoint, committed and delivered, at each kill."""
        found = (
            f"{each.checkpointed}/{each.committed}/{each.sinks.get('predictions', (-1, 0))[0]}"
            for each in self.observed
        )
        return f" at {', '.join(found)}" if self.observed else ""


def write_documents(folder: Path) -> None:
    """Write labelled texts into two files, whose times overlap and go back now and then; topics appear one by one."""
    rng = np.random.default_rng(1)
    folder.mkdir()
    for part in range(2):
        with (folder / f"part{part}.jsonl").open("w") as file:
            for number in range(EPOCHS * EPOCH // 2):
                topic = int(rng.integers(0, min(6, 2 + number // 100)))
                words = [
                    f"t{topic}w{rng.integers(9)}" if rng.random() < 0.5 else f"w{rng.integers(60)}" for _ in range(7)
                ]
                time_of = 1_700_000_000 + number * 20 + int(rng.integers(0, 60))
                file.write(json.dumps({"text": " ".join(words), "label": f"topic{topic}", "time": time_of}) + "\n")


def killed_run(case: Case, folder: Path, last_engine: str | None = None) -> KilledRun:
    """Run and kill a case in a folder that has the documents, and let it end; by default the end is on its engine."""
    run, config = folder / case.name, folder / f"{case.name}.yaml"
    config.write_text(yaml.safe_dump(case.config()))
    observed: list[Observation] = []
    for part, linger in case.kills:
        if (left := EPOCHS - 2 - (_first(case, observed[-1]) if observed else 0)) < 1:
            break
        _kill(case, config, run, int(part * left), linger)
        observed.append(observe(run))
    ended = _start(config, run, "--set", f"engine.type={last_engine or case.engine}")
    ended.join()
    if ended.exitcode:
        message = f"{run} ended with {ended.exitcode}"
        raise RuntimeError(message)
    return KilledRun(case, observed, validate_trial(run, observed))


def _first(case: Case, seen: Observation) -> int:
    """Return the first epoch of the next start, or a later one."""
    return 1 + (seen.checkpointed if case.delivery is Delivery.EXACTLY_ONCE else seen.committed)


def _kill(case: Case, config: Path, run: Path, epochs: int, linger: float) -> None:
    """Start a run and kill it after it has processed so many epochs, and a moment.

    It follows its source, so that it cannot end before.
    """
    wanted = _processed(run) + epochs * EPOCH
    process = _start(config, run, "--follow")
    try:
        while process.is_alive() and _processed(run) <= wanted:
            time.sleep(0.005)
        time.sleep(linger * LINGER[case.engine])
        family = descendants(process.pid or 0)
    finally:
        process.kill()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        message = f"{run} ended with {process.exitcode} before the kill"
        raise RuntimeError(message)
    while any(map(_lives, family)):
        time.sleep(0.01)


def _start(config: Path, run: Path, *options: str) -> BaseProcess:
    """Start a run in a process of its own, forked from one that has imported the libraries."""
    process = fork_server(load_config(config).config).Process(
        target=_run, args=("run", str(config), "--run", str(run), *options)
    )
    start_process(process)
    return process


def _run(*arguments: str) -> None:
    """Run a command in this process, without its output."""
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        cli.main(arguments)


def _processed(run: Path) -> int:
    """The records that all starts of a run have processed, replays included."""
    if not RunDirectory(run).epochs.is_dir():
        return 0
    with suppress(MillstreamError, FileNotFoundError):  # the first start is writing the epoch log
        return EpochReader(run / "epochs").totals().processed
    return 0


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _import_learners(folder: Path) -> None:
    """Import the libraries of all learners, before the first process is forked."""
    for number in range(len(LEARNERS)):
        ms.validate(ms.Config.from_dict(varied("local", number).config(), folder=folder))


def main(runs: int) -> int:
    done: list[KilledRun] = []
    with tempfile.TemporaryDirectory(prefix="millstream-trials-") as name:
        write_documents(Path(name) / "documents")
        _import_learners(Path(name))
        for engine, number in itertools.product(ENGINES, range(runs)):
            done.append(killed_run(varied(engine, number), Path(name)))
            print(done[-1].line(), flush=True)
    kills, effective = sum(len(run.observed) for run in done), sum(run.effective for run in done)
    identical = sum(not run.trial.differences for run in done)
    print(f"{kills} kills, {effective} of them with an effect on output or state")
    print(f"{identical} of {len(done)} identical by position and digest")
    return int(identical < len(done))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
