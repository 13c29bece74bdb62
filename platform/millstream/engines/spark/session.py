"""The Spark session, with settings that make small micro-batches fast and keep Spark's messages in a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from millstream.engines.spark import class_archive
from millstream.java import java_home

__all__ = ["close_session", "open_session", "settings"]

_LAST_SECONDS = 20
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def settings(cores: int, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return Spark's settings, chosen by measurements of micro-batches with 10 to 50,000 rows on one machine."""
    return {
        "spark.executorEnv.OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", "1"),  # as in millstream.blas_threads
        "spark.master": f"local[{cores},4]",  # Spark tries a task up to 4 times: its Python worker may be killed
        "spark.app.name": "millstream",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "1",
        "spark.driver.memory": "2g",
    }


def open_session(log: Path) -> SparkSession:
    """Return the active session of this process, or else open a session whose messages go to the file `log`."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    java = java_home()
    os.environ["JAVA_HOME"] = str(java)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    log.parent.mkdir(parents=True, exist_ok=True)
    log4j = log.with_suffix(".log4j2.properties")
    log4j.write_text(_LOG4J.format(path=log.resolve()))
    options = [*_QUICK, f"-Dlog4j2.configurationFile={log4j.resolve().as_uri()}", *class_archive.java_options(java)]
    conf = SparkConf(loadDefaults=False)
    conf.setAll([*settings(os.cpu_count() or 1).items(), ("spark.driver.extraJavaOptions", " ".join(options))])
    if SparkContext._gateway is None:
        # The Java process gets its own process session: signals to the process group of the run (Ctrl-C, `timeout`,
        # systemd) must not reach the Java process, because the run needs it for the epoch in progress. The Java process
        # ends by itself after the process of the run has ended.
        with log.open("ab") as file:
            own = {"stdout": file, "stderr": file, "start_new_session": True}
            gateway = launch_gateway(conf, own)  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=gateway)
    else:
        SparkContext.getOrCreate(conf)
    return SparkSession.builder.getOrCreate()


def close_session(session: SparkSession) -> None:
    """Stop Spark and wait until the Java process of Spark has ended, so that no process is left after a run."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    with suppress(Py4JError, OSError):  # the Java process may have ended already; other code reports that failure
        session.stop()
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = gateway.proc
    process.stdin.close()  # the Java process ends when its standard input is closed
    try:
        process.wait(None if class_archive.is_recording() else _LAST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    class_archive.finish_archive(Path(os.environ["JAVA_HOME"]))
