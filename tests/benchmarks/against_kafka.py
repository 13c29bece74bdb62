"""Kafka as source and sink: beside files, beside Spark's own connector, and what a transaction costs."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import yaml
from benchmarks.contender import Task, run_contender
from benchmarks.documents import document_lines
from benchmarks.figures import AtLeast, AtMost, Figure, Measurement, Setting, interleaved, ratio, spread
from benchmarks.kafka_sources import connector_jars
from benchmarks.kafka_topic import fill_topic, own_broker
from benchmarks.millstream_process import MillstreamProcess
from benchmarks.pipeline import CLASSIFY, kept_spark, run_pipeline
from conformance.kafka_documents import create_topic
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from millstream.log.contracts import Mark, Place, Sink
from millstream_connectors.kafka.sink import KafkaSink

__all__ = ["MEASUREMENTS"]

_PARTITIONS = 2
_EPOCH = 10_000
_SOURCE_EPOCH = 50_000
_WARM_UP = 8


def _kafka_vs_files(setting: Setting) -> Iterator[Figure]:
    records = 16 * _EPOCH if setting.quick else 400_000
    work = setting.folder / "kafka"
    work.mkdir()
    with own_broker(setting.folder / "broker") as bootstrap, kept_spark() as spark:
        setting.say(f"filling a topic with {records:,} documents")
        fill_topic(bootstrap, "documents", records, _PARTITIONS)
        files = {"type": "files", "path": str(setting.documents.parts(records // _PARTITIONS, _PARTITIONS))}
        topic = {"type": "kafka", "bootstrap": bootstrap, "topic": "documents"}

        def run(source: dict[str, str]) -> float:
            return run_pipeline(spark, "spark", source, work, records, _EPOCH).rate.per_second

        setting.say("warming up Spark")
        for source in (topic, files):
            run_pipeline(spark, "spark", source, work, 10 * _EPOCH, _EPOCH)
        taken = interleaved(setting, {"kafka": partial(run, topic), "files": partial(run, files)})
    yield ratio("kafka_vs_files_10k", taken, "kafka", "files", AtLeast(0.8))


def _source_vs_connector(setting: Setting) -> Iterator[Figure]:
    records = 8 * _SOURCE_EPOCH if setting.quick else 20 * _SOURCE_EPOCH
    work = setting.folder / "sources"
    work.mkdir()
    jars = [str(path) for path in connector_jars(setting.folder)]
    with own_broker(setting.folder / "broker") as bootstrap:
        setting.say(f"filling a topic with {records:,} documents")
        fill_topic(bootstrap, "documents", records, _PARTITIONS)

        def read(kind: str) -> float:
            task = Task(kind, bootstrap, str(work / kind), records, _SOURCE_EPOCH, jars)
            return run_contender(task).rate.per_second

        taken = interleaved(setting, {"ours": partial(read, "kafka_ours"), "jvm": partial(read, "kafka_connector")})
    yield ratio("kafka_source_vs_connector_50k", taken, "ours", "jvm", AtLeast(0.5))


def _transaction(setting: Setting) -> Iterator[Figure]:
    appends = 5 if setting.quick else 100
    rows = pa.table(
        {
            "_source": ["source"] * 1000,
            "_partition": pa.array([0] * 1000, pa.int32()),
            "_offset": range(1000),
            "label": ["storms"] * 1000,
            "predicted": ["harbours"] * 1000,
            "probability": [0.123456789] * 1000,
        }
    )
    place = Place(setting.folder, setting.folder, "bench")
    with own_broker(setting.folder / "broker") as bootstrap:
        sinks = {
            name: KafkaSink(bootstrap=bootstrap, topic=name).open(
                place, name, rows.schema, identity=["_source", "_partition", "_offset"], guarded=name == "with"
            )
            for name in ("with", "without")
        }
        for size in (1, 1000):
            taken: dict[str, list[float]] = {name: [] for name in sinks}
            for epoch in range(appends + _WARM_UP):
                for name, sink in sinks.items():
                    milliseconds = _appended(sink, rows.slice(0, size), epoch)
                    if epoch >= _WARM_UP:
                        taken[name].append(milliseconds)
            adds = [a - b for a, b in zip(taken["with"], taken["without"], strict=True)]
            medians = ", ".join(f"{name} {statistics.median(values):.1f} ms" for name, values in taken.items())
            yield Figure(f"kafka_transaction_{size}", statistics.median(adds), "ms", AtMost(8), medians)
        for sink in sinks.values():
            sink.close()


def _appended(sink: Sink, rows: pa.Table, epoch: int) -> float:
    began = time.monotonic()
    sink.append(rows, Mark("bench", epoch))
    return (time.monotonic() - began) * 1000


def _latency(setting: Setting) -> Iterator[Figure]:
    work = setting.folder / "latency"
    work.mkdir()
    with own_broker(setting.folder / "broker") as bootstrap:
        create_topic(bootstrap, "documents")
        config = {
            "name": "latency",
            "source": {"type": "kafka", "bootstrap": bootstrap, "topic": "documents"},
            "pipeline": CLASSIFY,
            "sinks": {"predictions": {"type": "kafka", "bootstrap": bootstrap, "topic": "predictions"}},
            "engine": {"type": "spark"},
        }
        (work / "latency.yaml").write_text(yaml.safe_dump(config))
        samples = _samples(setting, work, bootstrap, 3 if setting.quick else 60)
    detail = f"{spread(samples, '.0f')} over {len(samples)} records"
    yield Figure("kafka_latency_p50", statistics.median(samples), "ms", AtMost(250), detail)


def _samples(setting: Setting, work: Path, bootstrap: str, count: int) -> list[float]:
    moments = random.Random(1)
    first = 500
    lines = (line for block in document_lines(10_000) for line in block.splitlines())
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for line in itertools.islice(lines, first):
        producer.send("documents", line)
    producer.flush()
    create_topic(bootstrap, "predictions")
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", fetch_max_wait_ms=5)
    consumer.assign([TopicPartition("predictions", 0)])
    consumer.seek_to_beginning()
    samples, seen = [], 0

    def look(wanted: int) -> int | None:
        nonlocal seen
        seen += sum(map(len, consumer.poll(timeout_ms=2).values()))
        return seen if seen >= wanted else None

    with MillstreamProcess(work / "latency.yaml", work / "run") as run:
        run.until(partial(look, first), every=0.01, within=120)
        setting.say("following")
        for number, line in enumerate(itertools.islice(lines, _WARM_UP + count)):
            time.sleep(moments.uniform(0.4, 1.0))
            producer.send("documents", line).get(timeout=10)
            appended = time.monotonic()
            run.until(partial(look, first + number + 1), every=0.001, within=30)
            if number >= _WARM_UP:
                samples.append((time.monotonic() - appended) * 1000)
    producer.close()
    consumer.close()
    return samples


_Take = Callable[[Setting], Iterator[Figure]]
_MEASURED: dict[tuple[str, ...], tuple[str, _Take]] = {
    ("kafka_vs_files_10k",): (
        f"rows a second of the same pipeline on Spark at {_EPOCH:,}-row epochs, from a topic over from files, "
        f"to files, {_PARTITIONS} partitions either way",
        _kafka_vs_files,
    ),
    ("kafka_source_vs_connector_50k",): (
        f"rows a second that our source alone brings to the driver on Spark (JSON parsed, read_committed), over "
        f"Spark's own connector for Java (bytes), {_SOURCE_EPOCH:,} rows a micro-batch",
        _source_vs_connector,
    ),
    ("kafka_transaction_1", "kafka_transaction_1000"): (
        "what the transaction with its mark adds to one append to a topic, over a plain flushed one; interleaved",
        _transaction,
    ),
    ("kafka_latency_p50",): (
        "topic to topic on Spark, exactly_once, defaults: one record at random moments, 0.7 s apart on average; from "
        "the broker's acknowledgement until a read_committed consumer has the row",
        _latency,
    ),
}

MEASUREMENTS = tuple(Measurement(figures[0], figures, about, take) for figures, (about, take) in _MEASURED.items())
