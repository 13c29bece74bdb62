"""Kafka as source and sink compared with files and Spark's own connector; the cost of a transaction; latency."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import yaml
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.contenders.kafka_readers import connector_jars, read_by_connector, read_by_us
from benchmarks.figures.spark_latency import FIRST, latencies
from benchmarks.kit.child import child_rate
from benchmarks.kit.documents import document_lines
from benchmarks.kit.kafka_topic import create_topic, fill_topic, own_broker
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least, at_most
from benchmarks.kit.millstream_process import MillstreamProcess
from benchmarks.kit.pipeline import CLASSIFY, kept_spark, run_pipeline
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, ratio, spread
from millstream.log.contracts import OpenContext, Progress, Sink
from millstream_connectors.kafka.sink import KafkaSink

__all__ = ["MEASUREMENTS"]

_PARTITIONS = 2
_EPOCH = 10_000
_SOURCE_EPOCH = 50_000
_WARM_UP = 8


def _files(setting: Setting) -> Iterator[Value]:
    records = 16 * _EPOCH if setting.quick else 400_000
    with own_broker(setting.folder / "broker") as bootstrap, kept_spark() as spark:
        _filled(setting, bootstrap, records)
        files = {"type": "files", "path": str(setting.documents.parts(records // _PARTITIONS, _PARTITIONS))}
        topic = {"type": "kafka", "bootstrap": bootstrap, "topic": "documents"}

        def run(source: dict[str, str], records: int = records) -> Rate:
            return run_pipeline(spark, source, setting.folder, records, _EPOCH, type="spark").rate

        setting.say("warming up Spark")
        for source in (topic, files):
            run(source, 10 * _EPOCH)
        taken = interleaved(setting, {"kafka": partial(run, topic), "files": partial(run, files)})
    yield ratio("kafka_vs_files_10k", taken, "kafka", "files")


def _connector(setting: Setting) -> Iterator[Value]:
    records = (8 if setting.quick else 20) * _SOURCE_EPOCH
    jars = [str(path) for path in connector_jars(setting.folder)]
    with own_broker(setting.folder / "broker") as bootstrap:
        _filled(setting, bootstrap, records)

        def read(function: Callable[..., Rate], **more: object) -> Rate:
            options = {"bootstrap": bootstrap, "topic": "documents", "records": records, "epoch": _SOURCE_EPOCH}
            return child_rate(function, one_core=False, work=str(setting.fresh("reader")), **options, **more)

        connector = partial(read, read_by_connector, jars=jars)
        taken = interleaved(setting, {"ours": partial(read, read_by_us), "connector": connector})
    yield ratio("kafka_source_vs_connector_50k", taken, "ours", "connector")


def _filled(setting: Setting, bootstrap: str, records: int) -> None:
    setting.say(f"filling a topic with {records:,} documents")
    fill_topic(bootstrap, "documents", records, _PARTITIONS)


def _transaction(setting: Setting) -> Iterator[Value]:
    appends = 5 if setting.quick else 100
    position = {"_source": ["source"] * 1000, "_partition": pa.array([0] * 1000, pa.int32()), "_offset": range(1000)}
    answers: dict[str, list[Any]] = {"label": ["storms"], "predicted": ["harbours"], "probability": [0.123456789]}
    rows = pa.table({**position, **{name: values * 1000 for name, values in answers.items()}})
    context = OpenContext(setting.folder, setting.folder, "bench")
    with own_broker(setting.folder / "broker") as bootstrap:
        sinks = {
            name: KafkaSink(bootstrap=bootstrap, topic=name).open(
                context, name, rows.schema, identity=list(position), guarded=name == "with"
            )
            for name in ("with", "without")
        }
        for sink in sinks.values():
            sink.fence(0)
        for size in (1, 1000):
            taken: dict[str, list[float]] = {name: [] for name in sinks}
            for epoch in range(appends + _WARM_UP):
                for name, sink in sinks.items():
                    taken[name].append(_appending(sink, rows.slice(0, size), epoch))
            adds = [a - b for a, b in zip(taken["with"], taken["without"], strict=True)][_WARM_UP:]
            detail = ", ".join(f"{name} {spread(values[_WARM_UP:], '.1f')} ms" for name, values in taken.items())
            yield median(f"kafka_transaction_{size}", adds, ".1f", detail)
        for sink in sinks.values():
            sink.close()


def _appending(sink: Sink, rows: pa.Table, epoch: int) -> float:
    began = time.monotonic()
    sink.append(rows, Progress("bench", epoch))
    return (time.monotonic() - began) * 1000


def _latency(setting: Setting) -> Iterator[Value]:
    with own_broker(setting.folder / "broker") as bootstrap:
        for topic in ("documents", "predictions"):
            create_topic(bootstrap, topic)
        config = {
            "name": "latency",
            "source": {"type": "kafka", "bootstrap": bootstrap, "topic": "documents"},
            "pipeline": CLASSIFY,
            "sinks": {"predictions": {"type": "kafka", "bootstrap": bootstrap, "topic": "predictions"}},
            "engine": {"type": "spark"},
        }
        (setting.folder / "latency.yaml").write_text(yaml.safe_dump(config))
        samples = _samples(setting, bootstrap)
    yield median("kafka_latency_p50", samples, ".0f", f"{len(samples)} records")


def _samples(setting: Setting, bootstrap: str) -> list[float]:
    lines, seen = document_lines(10_000), 0
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for line in itertools.islice(lines, FIRST):
        producer.send("documents", line)
    producer.flush()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed", fetch_max_wait_ms=5)
    consumer.assign([TopicPartition("predictions", 0)])
    consumer.seek_to_beginning()

    def look(wanted: int) -> int | None:
        nonlocal seen
        seen += sum(map(len, consumer.poll(timeout_ms=2).values()))
        return seen if seen >= wanted else None

    with MillstreamProcess(setting.folder / "latency.yaml", setting.folder / "run") as run:

        def wait(rows: int, within: float = 30) -> None:
            run.until(partial(look, rows), every=0.001, within=within)

        wait(FIRST, 120)
        samples = latencies(setting, lines, lambda line: producer.send("documents", line).get(timeout=10), wait)
    producer.close()
    consumer.close()
    return samples


MEASUREMENTS = (
    Measurement(
        (Figure("kafka_vs_files_10k", "x", at_least(0.8)),),
        f"Records per second of one pipeline on Spark with {_EPOCH:,}-record epochs, from a topic, divided by those "
        f"from files; into files, {_PARTITIONS} partitions either way.",
        _files,
    ),
    Measurement(
        (Figure("kafka_source_vs_connector_50k", "x", at_least(0.5)),),
        "Records per second that our source alone brings to the driver on Spark (JSON parsed, read_committed), divided "
        f"by those of Spark's own connector for Java (bytes), {_SOURCE_EPOCH:,} rows in a micro-batch.",
        _connector,
    ),
    Measurement(
        (Figure("kafka_transaction_1", "ms", at_most(8)), Figure("kafka_transaction_1000", "ms", at_most(8))),
        "Difference of an append of 1 row (1,000 rows) to a topic in a transaction with its progress and a plain "
        "flushed append, in turns.",
        _transaction,
        name="kafka_transaction",
    ),
    Measurement(
        (Figure("kafka_latency_p50", "ms", at_most(250)),),
        "From topic to topic on Spark, exactly_once, defaults: one record at random moments, 0.7 s apart on average; "
        "from the acknowledgement of the broker until a read_committed consumer has the row. Median.",
        _latency,
    ),
)
