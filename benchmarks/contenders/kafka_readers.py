"""Readers of a topic on Spark that do nothing else: our source, and Spark's own connector for Java."""

from __future__ import annotations

import hashlib
import os
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.kit.measurement import Unmeasured
from benchmarks.kit.rates import Rate, Samples
from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import LogCutter
from millstream.engines.spark.session import open_session
from millstream.engines.spark.source import RECORDS, EpochSource
from millstream.engines.spark.worker_setup import WorkerSetup
from millstream.errors import MillstreamError
from millstream.log.contracts import OpenContext
from millstream.log.epochs import EpochLog
from millstream_connectors.kafka.broker.repository import find_repository
from millstream_connectors.kafka.source import KafkaSource

__all__ = ["connector_jars", "read_by_connector", "read_by_us"]

# The connector that works with PySpark 4.3, which has none of its own.
_JARS = """
org.apache.spark spark-sql-kafka-0-10_2.13 4.2.0
64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705
org.apache.spark spark-token-provider-kafka-0-10_2.13 4.0.0
f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767
org.apache.kafka kafka-clients 3.9.2
014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8
org.apache.commons commons-pool2 2.12.0
6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b
"""


def connector_jars(folder: Path) -> list[Path]:
    """The jars of the connector, downloaded into `folder` from the Maven repository of the user's settings."""
    paths = []
    for group, name, version, sha256 in zip(*[iter(_JARS.split())] * 4, strict=True):
        path = folder / f"{name}-{version}.jar"
        try:
            repository = find_repository()
            with urllib.request.urlopen(repository.file(group, name, version), timeout=60) as response:  # noqa: S310
                content = response.read()
        except (MillstreamError, OSError, HTTPException) as error:
            raise Unmeasured(f"{path.name} could not be downloaded: {error}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise Unmeasured(f"{path.name} from {repository} has another checksum than the pinned one")
        path.write_bytes(content)
        paths.append(path)
    return paths


def read_by_us(bootstrap: str, topic: str, work: str, records: int, epoch: int) -> Rate:
    """Cut epochs; Spark's workers read them and parse the JSON; bring the records to the driver."""
    source, folder = KafkaSource(bootstrap=bootstrap, topic=topic), Path(work)
    context = OpenContext(folder, folder / "cache", "bench")
    backpressure, epochs = Backpressure(epoch), EpochLog(folder / "epochs")
    cutter = LogCutter({"source": source.open(context)}, epochs, backpressure, epoch, 0.0, until_idle=True)
    while not cutter.done:
        if (cut := cutter.cut(time.monotonic())) is not None:
            backpressure.release(cut.number)
    epochs.sync()
    worker_setup = folder / "worker_setup.json"
    WorkerSetup(
        epoch_log=str(folder / "epochs"),
        first=0,
        contexts={"source": (str(context.folder), str(context.cache), context.pipeline)},
        sources={"source": source.model_dump(mode="json")},
        worker_steps=[],
        fields=list(source.fields),
        tasks=os.cpu_count() or 1,
    ).write(worker_setup)
    session = open_session(folder / "spark.log")
    session.dataSource.register(EpochSource)
    stream = session.readStream.format(EpochSource.name()).option("worker_setup", str(worker_setup)).load()
    return _rate(session, stream, folder, records, _unpacked)


def read_by_connector(bootstrap: str, topic: str, work: str, records: int, epoch: int, jars: list[str]) -> Rate:
    """Bring the same number of messages in each micro-batch to the driver, as bytes."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(jars)} pyspark-shell"
    session = open_session(Path(work) / "spark.log")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(epoch),
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": "10",
    }
    stream = session.readStream.format("kafka").options(**options).load().select("value", "partition", "offset")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")  # our rows are batches of records already
    return _rate(session, stream, Path(work), records, lambda table: table.num_rows)


def _unpacked(table: pa.Table) -> int:
    packed = [value for value in table[RECORDS] if value.is_valid]
    return sum(pa.ipc.open_stream(value.as_buffer()).read_all().num_rows for value in packed)


def _rate(session: SparkSession, stream: DataFrame, work: Path, records: int, rows: Callable[[pa.Table], int]) -> Rate:
    samples = Samples()

    def take(batch: DataFrame, _: int) -> None:
        samples.add(rows(batch.toArrow()))

    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(work / "checkpoint")).start()
    while query.isActive and samples.records < records:
        time.sleep(0.01)
    if error := query.exception():
        raise RuntimeError(str(error))
    query.stop()
    session.stop()
    return samples.rate()
