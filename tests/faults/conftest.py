"""A pipeline that is run as a user runs it: the command, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conformance.harness import write_documents

RECORDS, EPOCH = 12_000, 100


@dataclass
class Commands:
    """Runs one config with the command line, again and again."""

    folder: Path

    def arguments(self, run: str, *options: str) -> list[str]:
        command = [sys.executable, "-m", "millstream", "run", str(self.folder / "pipeline.yaml")]
        return [*command, "--run", str(self.folder / run), "--json", *options]

    def start(self, run: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.arguments(run, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self, run: str, *options: str) -> dict[str, Any]:
        """Run to the end; the summary."""
        done = subprocess.run(self.arguments(run, *options), capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return summary

    def crash(self, run: str, point: str, *options: str) -> None:
        """Run until `--crash` kills it."""
        done = subprocess.run(
            self.arguments(run, "--crash", point, *options), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == -signal.SIGKILL, (done.returncode, done.stderr)


def wait_until(true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something that is bound to come, and say what did not."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {seconds} s")
        time.sleep(0.02)


def config_of(epoch: int) -> dict[str, Any]:
    """The pipeline that is killed, in epochs of so many records."""
    return {
        "name": "killed",
        "source": {"type": "files", "path": "documents"},
        "pipeline": {
            "use": "text_topics",
            "features": {"type": "hashed_text", "dimensions": 1024},
            "model": {"type": "sgd", "block": 64},
            "popularity": {"window": {"type": "tumbling", "size": "1h"}, "threshold": 0.3},
        },
        "engine": {"type": "spark", "epoch": {"max_records": epoch}},
    }


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    folder = tmp_path_factory.mktemp("commands")
    write_documents(folder / "documents", records=RECORDS)
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config_of(EPOCH)))
    return Commands(folder)


@pytest.fixture(scope="module")
def golden(commands: Commands) -> dict[str, Any]:
    """The same records without any crash, on the other engine."""
    return commands.finish("golden", "--set", "engine.type=local")
