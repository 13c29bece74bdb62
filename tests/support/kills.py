"""Pipelines whose processes tests kill repeatedly while records arrive."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import yaml
from support.commands import Commands, processed, same
from support.conditions import wait_until
from support.feeds import FileFeed, TopicFeed
from support.processes import is_alive
from support.topics import seen

from millstream.runs.termination import descendants

__all__ = ["BY_LABEL", "Victim", "kill_processes", "kill_while_records_flow", "write_killed", "write_killed_kafka"]

Victim = Literal["coordinator", "worker"]
_POPULARITY = {"window": {"type": "tumbling", "size": "1h"}, "threshold": 0.3}
_CHAIN: tuple[Mapping[str, Any], ...] = (
    {"type": "hashed_text", "name": "features", "dimensions": 1024},
    {"type": "classify", "model": {"type": "sgd", "batch_size": 64}},
    {"type": "popularity", **_POPULARITY},
)
_FOLLOW = {"key": "label", "function": "support.user_functions:follow", "adds": ["before"], "store": "rocksdb"}
BY_LABEL: tuple[Mapping[str, Any], ...] = ({"type": "per_key", **_FOLLOW}, *_CHAIN)
"""Steps with state by label in RocksDB."""
_BYTES = 100
"""A lower limit for the size of one epoch in the epoch log."""


def write_killed(folder: Path, epoch_records: int, steps: Sequence[Mapping[str, Any]] = _CHAIN) -> Commands:
    """Write the config of a pipeline over the documents of the folder."""
    config = {
        "name": "killed",
        "source": {"type": "files", "path": "documents"},
        "pipeline": {"steps": [dict(step) for step in steps]},
        "engine": {"type": "spark", "epoch": {"max_records": epoch_records}},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config))
    return Commands(folder)


def kill_processes(
    folder: Path,
    victims: Sequence[Victim],
    *options: str,
    epochs: int,
    seed: int,
    steps: Sequence[Mapping[str, Any]] = _CHAIN,
) -> None:
    """Kill processes of a local run with workers; compare the results with those of a run without kills.

    Before each kill, documents for `epochs` epochs arrive. The kill comes at a random time among them, at the earliest
    after one new epoch.
    """
    rng, records = random.Random(seed), 25
    commands = write_killed(folder, records, steps)
    feed = FileFeed(folder / "documents", (len(victims) + 1) * epochs * records)
    local = ("--set", "engine.type=local", "--set", "engine.workers=3", *options)
    process = commands.start("run", "--follow", *local)
    for victim in victims:
        before, bytes_wanted = processed(folder / "run"), _log_size(folder) + rng.randrange(epochs * _BYTES)
        feed.append(epochs * records)
        wait_until(
            lambda before=before, wanted=bytes_wanted: (  # type: ignore[misc]
                processed(folder / "run") > before and _log_size(folder) >= wanted
            ),
            "epochs",
            process,
        )
        if victim == "coordinator":
            _kill(process)
            process = commands.start("run", "--follow", *local)
        else:
            _kill_worker(process, rng)
    feed.append()
    wait_until(lambda: processed(folder / "run") > 0, "the run", process)
    _kill(process)
    summary = commands.finish("run", "--set", "engine.workers=3", *options)
    assert summary["records"] == (len(victims) + 1) * epochs * records
    same(summary, commands.finish("golden", "--replay", str(folder / "run"), *options))


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the coordinator; its workers end by themselves."""
    workers = descendants(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(is_alive, workers)), "the end of orphans")


def _kill_worker(process: subprocess.Popen[str], rng: random.Random) -> None:
    killed = False
    while not killed:
        wait_until(lambda: bool(descendants(process.pid)), "workers", process)
        with suppress(ProcessLookupError, IndexError):
            os.kill(rng.choice(descendants(process.pid)), signal.SIGKILL)
            killed = True


def _log_size(folder: Path) -> int:
    """The size of the epoch log in bytes."""
    return sum(segment.stat().st_size for segment in (folder / "run/epochs").glob("*"))


def write_killed_kafka(folder: Path, bootstrap: str, topic: str) -> Commands:
    """Write the config of a pipeline from a topic to topics."""
    kafka = {"type": "kafka", "bootstrap": bootstrap}
    config = {
        "name": f"killed-{topic}",
        "source": {**kafka, "topic": topic},
        "pipeline": {
            "use": "text_topics",
            "features": {"type": "hashed_text", "dimensions": 4096},
            "model": {"type": "sgd", "batch_size": 64},
            "popularity": {**_POPULARITY, "window": {"type": "tumbling", "size": "10m"}},
        },
        "sinks": {name: {**kafka, "topic": f"{topic}-{name}"} for name in ("predictions", "topics")},
        "engine": {"type": "local", "epoch": {"max_records": 1000}},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config))
    return Commands(folder)


def kill_while_records_flow(
    folder: Path, bootstrap: str, topic: str, engines: Sequence[str], *, records: int, per_second: float, seed: int
) -> dict[str, Any]:
    """Kill a run once on each of these engines in turn, and check that the final results are exactly once."""
    rng = random.Random(seed)
    commands = write_killed_kafka(folder, bootstrap, topic)
    feed = TopicFeed(bootstrap, topic, records, per_second)
    for engine in engines:
        before = processed(folder / "run")
        process = commands.start("run", "--follow", "--set", f"engine.type={engine}")
        feed.start(records // len(engines))
        wait_until(lambda before=before: processed(folder / "run") > before, f"epochs on {engine}", process)  # type: ignore[misc]
        time.sleep(rng.random() * 0.5)  # a random point of an epoch
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate()
        feed.join()
    feed.start()
    feed.join()
    summary = commands.finish("run", "--until-idle")
    golden = commands.finish("golden", "--replay", str(folder / "run"), "--set", "sinks={}")
    rows = seen(bootstrap, f"{topic}-predictions")
    times = Counter((row["_partition"], row["_offset"]) for row in rows)
    assert (len(times), set(times.values())) == (records, {1})
    for key in ("records", "accuracy", "model", "state", "outputs"):
        assert summary[key] == golden[key], key
    return summary
