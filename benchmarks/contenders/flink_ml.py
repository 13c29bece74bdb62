"""Flink ML's OnlineLogisticRegression: compiles the Java program, and runs its jobs, which fail at given records."""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.kit.measurement import Unmeasured
from benchmarks.kit.source_jars import jars
from millstream.arrays import Array
from millstream.errors import MillstreamError
from millstream.java import java_home

__all__ = ["FlinkMl", "Job", "Models", "parsed"]

_PINS = Path(__file__).with_name("flink_ml.txt")
_SOURCE = Path(__file__).with_name("FlinkMl.java")
_JARS = re.compile(r"(flink-(dist|connector-files|csv|json|scala|table|cep|ml-uber)|statefun-flink-core|log4j)[-_].*")
_OPENS = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.time")]
_SHORT_LIVED = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_LONGEST = 900.0
"""The most seconds of a job."""


@dataclass(frozen=True)
class Job:
    """One job over a stream; `failure` is none, exception or kill, at the record `fail_at`."""

    stream: Path
    dimensions: int
    batch: int
    alpha: float
    beta: float
    checkpoint_every: int
    failure: str = "none"
    fail_at: int = -1


@dataclass(frozen=True)
class Models:
    """The models that a job put out, in order, and the count and digest of the records that passed its control."""

    versions: tuple[int, ...]
    last: Array
    records: int
    digest: str


class FlinkMl:
    """The compiled program with its class path."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        found = jars("flink_ml", lambda name: _JARS.fullmatch(name) is not None, say)
        try:
            java = java_home(who="Flink") / "bin"
        except MillstreamError as error:
            raise Unmeasured(str(error)) from error
        if not (java / "javac").is_file():
            raise Unmeasured(f"there is a Java without a compiler, javac, in {java}; install a JDK")
        classes = folder / "classes"
        jar_path = str(found / "*")
        ran = subprocess.run(
            [java / "javac", "-nowarn", "-cp", jar_path, "-d", classes, _SOURCE],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(f"{_SOURCE.name} does not compile:\n{ran.stderr}")
        ran = subprocess.run([java / "java", "-version"], capture_output=True, text=True, check=True)
        self.version = ran.stderr.splitlines()[0]
        self.pins = [line.split()[0] for line in _PINS.read_text().splitlines()]
        self._program = [str(java / "java"), *_SHORT_LIVED, *_OPENS, "-cp", f"{classes}:{jar_path}", "FlinkMl"]

    def run(self, jobs: Sequence[Job], killed: Job) -> list[Models]:
        """Run jobs one after the other in one cluster, which a job with an exception survives, and then one to kill.

        SIGKILL ends the whole cluster at the record of the last job. A new cluster continues from its last checkpoint.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            work = Path(name)
            files = [_options(work / str(number), job) for number, job in enumerate([*jobs, killed])]
            with (work / "log").open("wb") as log:
                command = [*self._program, *map(str, files)]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
                    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
                    limit = threading.Timer(_LONGEST * len(files), process.kill)
                    limit.start()
                    try:
                        reached = any(line.startswith("waiting for SIGKILL") for line in process.stdout)
                    finally:
                        limit.cancel()
                        process.kill()
            if not reached:
                raise RuntimeError(f"Flink's program ended before its kill:\n{(work / 'log').read_text()[-3000:]}")
            taken = files[-1].with_name("checkpoints").glob("*/chk-*/_metadata")
            newest = max(taken, key=lambda path: int(path.parent.name.removeprefix("chk-")))
            again = _options(work / "again", replace(killed, failure="none"), newest.parent)
            ran = subprocess.run([*self._program, again], capture_output=True, text=True, timeout=_LONGEST, check=False)
            if ran.returncode:
                raise RuntimeError(f"Flink's program ended with exit code {ran.returncode}:\n{ran.stderr[-3000:]}")
            return [parsed(file.with_name("models").read_text()) for file in [*files[:-1], again]]


def _options(folder: Path, job: Job, restore: Path | None = None) -> Path:
    """The properties file of a job in a new folder."""
    folder.mkdir()
    values = {
        **job.__dict__,
        "output": folder / "models",
        "checkpoints": folder / "checkpoints",
        "restore": restore.as_uri() if restore else "",
    }
    path = folder / "job.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


def parsed(text: str) -> Models:
    """The file that the program writes.

    >>> parsed("1 0.5 -1.0\\n2 0.25 -2.0\\nrecords 200 7f\\n")
    Models(versions=(1, 2), last=array([ 0.25, -2.  ]), records=200, digest='7f')
    """
    *models, control = [line.split() for line in text.splitlines()]
    if not models or len(control) != 3 or control[0] != "records":
        raise ValueError("the file of models has no model, or ends without its control")
    versions = tuple(int(version) for version, *_ in models)
    return Models(versions, np.array(models[-1][1:], float), int(control[1]), control[2])
