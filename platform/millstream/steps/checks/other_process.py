"""The same records in another process, to find results that depend on hash seed, clock or memory addresses."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa

from millstream.steps.checks.step_run import run_step
from millstream.steps.contracts import StepConfig

__all__ = ["main", "same_in_another_process"]

_PROGRAM = "from millstream.steps.checks.other_process import main; main()"


def same_in_another_process(*cases: tuple[StepConfig, Sequence[pa.Table]]) -> None:
    """Check that another process makes the same results of the same epochs. All cases share one other process."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], input=pickle.dumps(cases), env=environment, capture_output=True, check=False
    )
    if done.returncode != 0:
        message = f"another process cannot run {[config for config, _ in cases]}:\n{done.stderr.decode()}"
        raise AssertionError(message)
    for (config, epochs), other in zip(cases, done.stdout.decode().split(), strict=True):
        if run_step(config, epochs).digest() != other:
            message = f"{config!r} gives other results for the same records in another process"
            raise AssertionError(
                f"{message}; look for `hash()`, sets, clocks, unseeded randomness, addresses, or state in a "
                "class or a module"
            )


def main() -> None:
    """Run in the other process: read cases from the standard input, and write their digests to the standard output."""
    cases = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - its parent wrote them
    for config, epochs in cases:  # state in a class or a module now holds what these records, in reverse order, left
        with suppress(Exception):  # a step may refuse records out of order
            run_step(config, epochs[::-1], order=lambda epoch: epoch.take(pa.array(range(epoch.num_rows))[::-1]))
    digests = [run_step(config, epochs).digest() for config, epochs in cases]
    sys.stdout.write("\n".join(digests))
