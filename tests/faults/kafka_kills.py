"""A pipeline from topic to topics that is killed again and again while records flow."""

from __future__ import annotations

import itertools
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from conformance.kafka_documents import create_topic, seen
from faults.conftest import Commands, wait_until
from kafka import KafkaProducer

from millstream.errors import ConfigError
from millstream.log.contracts import Place
from millstream.log.epochs import EpochReader
from millstream_connectors.generator import GeneratorSource

__all__ = ["Flow", "kill_while_it_flows", "processed", "write_config"]

_PARTITIONS = 2


class Flow:
    """Generated documents on their way into a topic, at a steady pace, from a thread."""

    def __init__(self, bootstrap: str, topic: str, records: int, per_second: float) -> None:
        create_topic(bootstrap, topic, _PARTITIONS)
        self._bootstrap, self._topic, self._per_second = bootstrap, topic, per_second
        log = GeneratorSource(seed=7, records=records).open(Place(Path(), Path()))
        self._documents = (row for batch in log.read("0", 0, records) for row in batch.to_pylist())
        self._thread = threading.Thread()

    def goes_on(self, records: int | None = None) -> None:
        """Let so many more flow, or all the rest; returns at once."""
        self._thread = threading.Thread(target=self._run, args=(records,), daemon=True)
        self._thread.start()

    def pauses(self) -> None:
        """Wait until what was to flow has."""
        self._thread.join()

    def _run(self, records: int | None) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, linger_ms=5)
        began = time.monotonic()
        for sent, record in enumerate(itertools.islice(self._documents, records), 1):
            value = {"text": record["text"], "label": record["label"], "time": record["_time"] / 1e6}
            producer.send(self._topic, json.dumps(value).encode(), partition=record["_offset"] % _PARTITIONS)
            if sent % 100 == 0:
                time.sleep(max(0.0, began + sent / self._per_second - time.monotonic()))
        producer.flush()
        producer.close()


def write_config(folder: Path, bootstrap: str, topic: str) -> None:
    kafka = {"type": "kafka", "bootstrap": bootstrap}
    config = {
        "name": f"killed-{topic}",
        "source": {**kafka, "topic": topic},
        "pipeline": {
            "use": "text_topics",
            "features": {"type": "hashed_text", "dimensions": 4096},
            "model": {"type": "sgd", "block": 64},
            "popularity": {"window": {"type": "tumbling", "size": "10m"}, "threshold": 0.3},
        },
        "sinks": {name: {**kafka, "topic": f"{topic}-{name}"} for name in ("predictions", "topics")},
        "engine": {"type": "local", "epoch": {"max_records": 1000}},
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(config))


def kill_while_it_flows(
    folder: Path, bootstrap: str, topic: str, *, records: int, per_second: float, engines: Sequence[str], seed: int
) -> dict[str, Any]:
    """Kill a run once on each of these engines in turn, let the last one end, and hold what came out to its promise."""
    rng = random.Random(seed)
    write_config(folder, bootstrap, topic)
    commands = Commands(folder)
    flow = Flow(bootstrap, topic, records, per_second)
    for engine in engines:
        before = processed(folder / "run")
        process = commands.start("run", "--follow", "--set", f"engine.type={engine}")
        flow.goes_on(records // len(engines))
        wait_until(lambda before=before: processed(folder / "run") > before, f"epochs on {engine}", 120)  # type: ignore[misc]
        time.sleep(rng.random() * 0.5)  # anywhere in an epoch
        assert process.poll() is None, process.communicate()[1]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        flow.pauses()
    flow.goes_on()
    flow.pauses()
    summary = commands.finish("run", "--until-idle", "--set", f"engine.type={engines[-1]}")
    golden = commands.finish("golden", "--replay", str(folder / "run"), "--set", "sinks={}")
    rows = seen(bootstrap, f"{topic}-predictions")
    times = Counter((row["_partition"], row["_offset"]) for row in rows)
    assert (len(times), set(times.values())) == (records, {1})
    for key in ("records", "accuracy", "model", "state", "outputs"):
        assert summary[key] == golden[key], key
    return summary


def processed(run: Path) -> int:
    """How many epochs a run has processed, replays not counted."""
    try:
        return EpochReader(run / "epochs").totals().epochs
    except ConfigError:  # it is only being made
        return 0
