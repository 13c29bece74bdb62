"""Reading a topic on Spark and nothing else: by our source, and by Spark's own connector for Java."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from benchmarks.figures import Unmeasured
from benchmarks.steady import Mark
from pyspark.sql import DataFrame, SparkSession

from millstream.engines.backpressure import Backpressure
from millstream.engines.cutter import LogCutter
from millstream.engines.spark.handover import Handover
from millstream.engines.spark.session import open_session
from millstream.engines.spark.source import RECORDS, EpochSource
from millstream.java import java_home
from millstream.log.contracts import Place
from millstream.log.epochs import EpochLog
from millstream_connectors.kafka.source import KafkaSource

__all__ = ["connector_jars", "read_by_connector", "read_by_us"]

# Those that work with PySpark 4.3, for which there is no connector of its own.
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
    """The connector's jars, fetched into `folder` with the Ivy that is inside PySpark."""
    package = importlib.util.find_spec("pyspark")
    assert package is not None and package.origin is not None
    (ivy,) = Path(package.origin).parent.glob("jars/ivy-*.jar")
    paths = []
    for group, name, version, sha256 in zip(*[iter(_JARS.split())] * 4, strict=True):
        path = folder / f"{name}-{version}.jar"
        ivy_cache = ["-cache", str(folder / "ivy"), "-notransitive", "-confs", "default"]
        wanted = ["-dependency", group, name, version, "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
        command = [str(java_home() / "bin/java"), "-jar", str(ivy), *ivy_cache, *wanted]
        subprocess.run(command, capture_output=True, check=False)
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise Unmeasured(f"{path.name} could not be fetched, or is not the one that is known to work")
        paths.append(path)
    return paths


@dataclass
class _Counted:
    """Rows as they come to the driver."""

    marks: list[Mark]
    rows_of: Callable[[pa.Table], int]

    def take(self, frame: DataFrame, _: int) -> None:
        rows = self.rows_of(frame.toArrow())
        self.marks.append(Mark(time.monotonic(), (self.marks[-1].records if self.marks else 0) + rows))


def read_by_us(bootstrap: str, topic: str, work: Path, records: int, epoch: int) -> list[Mark]:
    """Epochs that have been cut, read by Spark's workers (JSON parsed) and brought to the driver."""
    source = KafkaSource(bootstrap=bootstrap, topic=topic)
    place = Place(work, work / "cache", "bench")
    log = source.open(place)
    backpressure = Backpressure(epoch)
    epochs = EpochLog(work / "epochs")
    cutter = LogCutter({"source": log}, epochs, backpressure, epoch, 0.0, until_idle=True)
    while not cutter.done:
        if (cut := cutter.cut(time.monotonic())) is not None:
            backpressure.release(cut.number)
    epochs.sync()
    handover = work / "handover.json"
    Handover(
        epoch_log=str(work / "epochs"),
        first=0,
        places={"source": (str(place.base), str(place.cache), place.pipeline)},
        sources={"source": source.model_dump(mode="json")},
        worker_steps=[],
        fields=list(source.fields),
        tasks=os.cpu_count() or 1,
    ).write(handover)
    session = open_session(work / "spark.log")
    session.dataSource.register(EpochSource)
    stream = session.readStream.format(EpochSource.name()).option("handover", str(handover)).load()
    return _read(session, stream, work, records, _Counted([], _unpacked))


def read_by_connector(bootstrap: str, topic: str, work: Path, records: int, epoch: int, jars: list[str]) -> list[Mark]:
    """The same number of messages a micro-batch, brought to the driver as bytes."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(jars)} pyspark-shell"
    session = open_session(work / "spark.log")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(epoch),
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": "10",
    }
    stream = session.readStream.format("kafka").options(**options).load().select("value", "partition", "offset")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")  # ours are batches of records already
    return _read(session, stream, work, records, _Counted([], lambda table: table.num_rows))


def _unpacked(table: pa.Table) -> int:
    packed = [value for value in table[RECORDS] if value.is_valid]
    return sum(pa.ipc.open_stream(value.as_buffer()).read_all().num_rows for value in packed)


def _read(session: SparkSession, stream: DataFrame, work: Path, records: int, counted: _Counted) -> list[Mark]:
    writer = stream.writeStream.foreachBatch(counted.take).option("checkpointLocation", str(work / "checkpoint"))
    query = writer.start()
    while query.isActive and (not counted.marks or counted.marks[-1].records < records):
        time.sleep(0.01)
    if error := query.exception():
        raise RuntimeError(str(error))
    query.stop()
    session.stop()
    return counted.marks
