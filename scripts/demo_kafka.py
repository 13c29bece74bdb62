"""`make demo-kafka`: classify a topic into topics through a kill -9, and count the results."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

import millstream.log
from millstream.errors import MillstreamError
from millstream.log.contracts import OpenContext
from millstream.log.formats.rows import json_lines
from millstream_connectors.generator import GeneratorSource
from millstream_connectors.kafka.broker import Broker, free_port

ROOT = Path(__file__).parents[1]
CONFIG = "configs/kafka.yaml"
RECORDS = 50_000
CRASH = "deliver@4"
FOLDER = Path("runs/demo-kafka")


def report(text: str) -> None:
    print(f"== {text}", flush=True)


def fill(bootstrap: str) -> None:
    """Write the generator's documents, as JSON, into the topic that the config reads."""
    log = GeneratorSource(seed=1, records=RECORDS).open(OpenContext(Path(), Path()))
    with millstream.log.open(f"kafka://{bootstrap}/documents").appender() as append:
        for batch in log.read("0", 0, RECORDS):
            time = batch["_time"].cast(pa.timestamp("us", "UTC"))
            rows = pa.table({"text": batch["text"], "label": batch["label"], "time": time})
            append(json_lines(rows).splitlines())


def run(bootstrap: str, *options: str) -> int:
    """Run `millstream run` in a process, and return its exit code."""
    command = [sys.executable, "-m", "millstream", "run", CONFIG, "--run", str(FOLDER / "run"), "--until-idle"]
    return subprocess.run([*command, *options], env={**os.environ, "BOOTSTRAP": bootstrap}, check=False).returncode


def count(bootstrap: str) -> Counter[int]:
    """Count how often each position was classified, in the committed messages that any consumer sees."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    partition = TopicPartition("classified", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    seen: Counter[int] = Counter()
    while consumer.position(partition) < end:
        for messages in consumer.poll(timeout_ms=500).values():
            seen.update(int(message.key.rpartition(b"/")[2]) for message in messages)
    consumer.close()
    return seen


def main() -> int:
    broker = Broker(FOLDER / "broker", free_port())
    with ExitStack() as cleanup:
        broker.reset()
        shutil.rmtree(FOLDER / "run", ignore_errors=True)
        report(f"a Kafka broker, in {FOLDER / 'broker'}")
        broker.up(print)
        cleanup.callback(broker.reset)
        report(f"{RECORDS:,} synthetic documents into the topic documents of {broker.bootstrap}")
        fill(broker.bootstrap)
        report(f"{CONFIG} on Spark, which a kill -9 ends at {CRASH}")
        code = run(broker.bootstrap, "--crash", CRASH)
        if code != -signal.SIGKILL:
            raise MillstreamError(f"the run should have been killed, but ended with exit code {code}")
        report("the same command again: the run continues")
        if code := run(broker.bootstrap):
            raise MillstreamError(f"the run ended with exit code {code}")
        report("the messages that a consumer of committed messages reads")
        times = count(broker.bootstrap)
        once = sum(1 for number in times.values() if number == 1)
        print(f"{len(times):,} of {RECORDS:,} documents are classified, {once:,} exactly once")
        report("the broker is stopped and its data are deleted")
    return 0 if once == len(times) == RECORDS else 1


if __name__ == "__main__":
    os.chdir(ROOT)
    try:
        sys.exit(main())
    except MillstreamError as error:
        sys.exit(f"demo-kafka: {error}")
