"""Millstream's `ftrl` over a stream, with kills at known records: the digest and the coefficients of its model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

import millstream as ms
from benchmarks.kit.labelled_streams import LabelledStream
from millstream.arrays import Array

__all__ = ["Trained", "run"]

_EPOCH, _LAST_EPOCHS = 50, 1_000
"""Records in an epoch of the starts that are killed, and of the last start, which has no record to be killed at."""
_ROOT = Path(__file__).parents[2]
_LONGEST = 600.0


@dataclass(frozen=True)
class Trained:
    """The model of a finished run, and the digest of all its state."""

    digest: str
    state: str
    records: int
    weights: Array


def run(
    folder: Path,
    stream: LabelledStream,
    alpha: float,
    beta: float,
    *,
    engine: str,
    checkpoint_every: int,
    kills: Sequence[int] = (),
) -> Trained:
    """Run exactly once over files; SIGKILL ends the process each time that so many records are learned."""
    folder.mkdir(parents=True)
    stream.write_json_lines(folder / "stream.jsonl")
    config = {
        "name": "ftrl",
        "source": {"type": "files", "path": "stream.jsonl"},
        "pipeline": {
            "steps": [dict(stream.step), {"type": "classify", "model": {"type": "ftrl", "alpha": alpha, "beta": beta}}]
        },
        "guarantee": {"delivery": "exactly_once", "checkpoint_every": checkpoint_every // _EPOCH},
        "engine": {"type": engine, "epoch": {"max_records": _EPOCH}},
    }
    (folder / "ftrl.yaml").write_text(yaml.safe_dump(config))
    for records in kills:
        _start(folder, -signal.SIGKILL, "--crash", f"process@{records // _EPOCH - 1}")
    summary = json.loads(_start(folder, 0, "--set", f"engine.epoch.max_records={_LAST_EPOCHS}"))
    weights = _weights(folder / "run", alpha, beta)
    return Trained(summary["model"], summary["state"], summary["records"], weights)


def _start(folder: Path, expected: int, *options: str) -> str:
    """The output of a start of the run, in a process of its own."""
    program = Path(sys.executable).with_name("millstream")
    ran = subprocess.run(
        [program, "run", folder / "ftrl.yaml", "--run", folder / "run", "--json", *options],
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    if ran.returncode != expected:
        raise RuntimeError(f"millstream run ended with {ran.returncode}, not {expected}:\n{ran.stderr[-2000:]}")
    return ran.stdout


def _weights(run: Path, alpha: float, beta: float) -> Array:
    """The weights of `yes` minus those of `no` in the last checkpoint: the coefficients of a model of two labels."""
    state = ms.open_run(run).model().classify.save()
    z, roots = np.hsplit(np.array(state["model/table"], np.float64), 2)
    weights = -z * alpha / (beta + roots)
    labels = json.loads(bytes(state["classes"]))
    return np.asarray(weights[:, labels.index("yes")] - weights[:, labels.index("no")])
