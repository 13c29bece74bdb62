"""A local broker: its data folder, its port and its process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from millstream.errors import MillstreamError
from millstream.java import java_home
from millstream_connectors.kafka.broker import folder, jars, process
from millstream_connectors.kafka.broker.folder import OUTPUT, SETTINGS, ClusterIdentity
from millstream_connectors.kafka.broker.folder_lock import locked
from millstream_connectors.kafka.broker.ports import HOST, free_port, refusal
from millstream_connectors.kafka.broker.process import BrokerProcess
from millstream_connectors.kafka.broker.readiness import ready_cluster
from millstream_connectors.kafka.broker.settings import JAVA_OPTIONS, PARTITIONS, properties

if TYPE_CHECKING:
    from millstream_connectors.kafka.broker.topics import TopicSummary

__all__ = ["PORT", "Broker"]

PORT = 9092
_START_SECONDS = 120.0
_POLL_SECONDS = 0.02


class Broker:
    """A Kafka broker of one node on this machine, identified by its data folder.

    >>> broker = Broker(Path("no/such/folder"), 9093)
    >>> broker.bootstrap
    '127.0.0.1:9093'
    >>> broker.running() is None
    True
    """

    def __init__(self, data: Path, port: int = PORT, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.data = Path(os.path.realpath(data.expanduser()))
        self.port = port
        self._settings = settings

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"

    def running(self) -> BrokerProcess | None:
        """The broker's process, if it is up: started by any process, on any port."""
        last = folder.known_process(self.data)
        return last if last is not None and process.alive(last) else None

    def up(self, report: Callable[[str], None] = lambda message: None) -> bool:
        """Start the broker and wait until it answers; False if it was up already.

        `report` gets messages about the progress; one that ends in `...` may be replaced by the next one.
        """
        folder.refuse_foreign(self.data)
        with locked(self.data):
            running = self.running()
            if running is not None and running.port != self.port:
                message = (
                    f"the broker of {self.data} is up already, on port {running.port}: use that, "
                    "or stop it before you start it on another port"
                )
                raise MillstreamError(message)
            if running is not None and self._answers(running, folder.claim(self.data)):
                return False
            self._start(report)
            return True

    def down(self) -> bool:
        """Stop the broker, by SIGKILL if SIGTERM does not end it; False if it was not up."""
        return self._ended(process.end)

    def kill(self) -> bool:
        """Kill the broker by SIGKILL, as a crash would; False if it was not up."""
        return self._ended(process.kill)

    def reset(self) -> bool:
        """Stop the broker and delete its data; False if the folder does not exist."""
        if not self.data.exists():
            return False
        folder.refuse_foreign(self.data)
        with locked(self.data):
            self._end(process.end)
            folder.delete(self.data)
        return True

    def topics(self) -> list[TopicSummary]:
        """The broker's topics, without Kafka's internal ones."""
        from millstream_connectors.kafka.broker.topics import list_topics  # the import takes long

        return list_topics(self.bootstrap)

    def _ended(self, how: Callable[[BrokerProcess], None]) -> bool:
        if not folder.owned(self.data):
            return False
        with locked(self.data):
            return self._end(how)

    def _end(self, how: Callable[[BrokerProcess], None]) -> bool:
        running = self.running()
        if running is not None:
            how(running)
        folder.forget_process(self.data)
        return running is not None

    def _start(self, report: Callable[[str], None]) -> None:
        if reason := refusal(self.port):
            raise MillstreamError(f"no broker can listen on port {self.port}: {reason}; choose another one with --port")
        java = java_home(who="Kafka") / "bin" / "java"
        libraries = jars.ensure(report)
        if folder.known_process(self.data) is not None:
            report(f"the broker of {self.data} had ended without being stopped; it continues with its data")
        cluster = folder.claim(self.data)
        (self.data / SETTINGS).write_text(properties(self.port, free_port(), self._settings))
        run = [str(java), *JAVA_OPTIONS, "-cp", f"{libraries}/*"]
        if not cluster.formatted:
            self._format(run, cluster)
        running = process.start([*run, "kafka.Kafka", SETTINGS], self.data, self.data / OUTPUT, self.port)
        try:
            folder.record_process(self.data, running)
            if not self._answers(running, cluster):
                reason = _reason((self.data / OUTPUT).read_text(errors="replace"))
                message = f"the broker of {self.data} ended during its start: {reason}; {self.data / OUTPUT} has more"
                raise MillstreamError(message)
        except BaseException:
            process.kill(running)
            folder.forget_process(self.data)
            raise

    def _format(self, run: list[str], cluster: ClusterIdentity) -> None:
        shutil.rmtree(self.data / PARTITIONS, ignore_errors=True)  # of a start that was killed
        command = [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster.id}", "--config", SETTINGS]
        ended = subprocess.run(command, cwd=self.data, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise MillstreamError(f"{self.data} could not be formatted for a broker: {_reason(ended.stderr)}")
        folder.record_formatted(self.data, cluster)

    def _answers(self, running: BrokerProcess, cluster: ClusterIdentity) -> bool:
        """Wait until the broker answers with its own cluster id; False if it ends before."""
        deadline = time.monotonic() + _START_SECONDS
        while process.alive(running):
            if ready_cluster(HOST, self.port) == cluster.id:
                return True
            if time.monotonic() > deadline:
                message = f"the broker of {self.data} does not answer within {_START_SECONDS:g} s"
                raise MillstreamError(f"{message}; {self.data / OUTPUT} may say why")
            time.sleep(_POLL_SECONDS)
        return False


def _reason(output: str) -> str:
    """The reason of a failure, from a broker's output: the first exception, or else the last line.

    >>> _reason("[main] ERROR kafka.Kafka - Exiting\\njava.io.IOException: Disk full.\\nCaused by: worse")
    'Disk full'
    """
    exception = re.search(
        r"^(?:Caused by: |Exception in thread \S+ )?[\w.$]+(?:Exception|Error): (.+)", output, re.MULTILINE
    )
    if exception:
        return exception[1].strip().rstrip(".")
    return (output.strip().splitlines() or ["it has no output"])[-1]
