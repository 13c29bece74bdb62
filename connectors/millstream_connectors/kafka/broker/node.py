"""One broker: its data folder, its port and its process."""

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
from millstream_connectors.kafka.broker.folder import OUTPUT, SETTINGS, Cluster
from millstream_connectors.kafka.broker.places import HOST, alone, free_port, refusal
from millstream_connectors.kafka.broker.process import Running
from millstream_connectors.kafka.broker.ready import ready_cluster
from millstream_connectors.kafka.broker.settings import JAVA_OPTIONS, PARTITIONS, properties

if TYPE_CHECKING:
    from millstream_connectors.kafka.broker.topics import Topic

__all__ = ["PORT", "Broker"]

PORT = 9092
_SECONDS_TO_START = 120.0
_STEP = 0.02


class Broker:
    """A Kafka broker on this machine, of one node; its data folder is what makes it the one it is.

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
        """What clients are told to connect to."""
        return f"{HOST}:{self.port}"

    def running(self) -> Running | None:
        """Its process, if it is up: whoever started it, and on whichever port."""
        last = folder.known(self.data)
        return last if last is not None and process.alive(last) else None

    def up(self, tell: Callable[[str], None] = lambda message: None) -> bool:
        """Start it and return once it answers; False if it was up already.

        What `tell` is told and ends in `...` goes on, and may make room for what is told next.
        """
        folder.refuse_foreign(self.data)
        with alone(self.data):
            running = self.running()
            if running is not None and running.port != self.port:
                message = (
                    f"the broker of {self.data} is up already, on port {running.port}: use that, "
                    "or stop it before it is started on another"
                )
                raise MillstreamError(message)
            if running is not None and self._answers(running, folder.claim(self.data)):
                return False
            self._start(tell)
            return True

    def down(self) -> bool:
        """Stop it, by SIGKILL if it does not heed SIGTERM; False if it was not up."""
        return self._ended(process.end)

    def kill(self) -> bool:
        """End it by SIGKILL, as a crash would; False if it was not up."""
        return self._ended(process.kill)

    def reset(self) -> bool:
        """Stop it and delete its data; False if there was nothing."""
        if not self.data.exists():
            return False
        folder.refuse_foreign(self.data)
        with alone(self.data):
            self._end(process.end)
            folder.clear(self.data)
        return True

    def topics(self) -> list[Topic]:
        """The topics it holds, without Kafka's own."""
        from millstream_connectors.kafka.broker.topics import topics  # takes long to import

        return topics(HOST, self.port)

    def _ended(self, how: Callable[[Running], None]) -> bool:
        if not folder.ours(self.data):
            return False
        with alone(self.data):
            return self._end(how)

    def _end(self, how: Callable[[Running], None]) -> bool:
        running = self.running()
        if running is not None:
            how(running)
        folder.forget(self.data)
        return running is not None

    def _start(self, tell: Callable[[str], None]) -> None:
        if reason := refusal(self.port):
            raise MillstreamError(f"no broker can listen on port {self.port}: {reason}; choose another one with --port")
        java = java_home(who="Kafka") / "bin" / "java"
        libraries = jars.ensure(tell)
        if folder.known(self.data) is not None:
            tell(f"the broker of {self.data} had ended without being stopped; it goes on with its data")
        cluster = folder.claim(self.data)
        (self.data / SETTINGS).write_text(properties(self.port, free_port(), self._settings))
        run = [str(java), *JAVA_OPTIONS, "-cp", f"{libraries}/*"]
        if not cluster.formatted:
            self._format(run, cluster)
        running = process.start([*run, "kafka.Kafka", SETTINGS], self.data, self.data / OUTPUT, self.port)
        try:
            folder.remember(self.data, running)
            if not self._answers(running, cluster):
                reason = _reason((self.data / OUTPUT).read_text(errors="replace"))
                message = f"the broker of {self.data} ended while it started: {reason}; {self.data / OUTPUT} has more"
                raise MillstreamError(message)
        except BaseException:
            process.kill(running)
            folder.forget(self.data)
            raise

    def _format(self, run: list[str], cluster: Cluster) -> None:
        shutil.rmtree(self.data / PARTITIONS, ignore_errors=True)  # of one who was killed at it
        command = [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster.id}", "--config", SETTINGS]
        ended = subprocess.run(command, cwd=self.data, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise MillstreamError(f"{self.data} could not be made ready for a broker: {_reason(ended.stderr)}")
        folder.formatted(self.data, cluster)

    def _answers(self, running: Running, cluster: Cluster) -> bool:
        """Wait until it answers in its own name; False if it ends before that."""
        deadline = time.monotonic() + _SECONDS_TO_START
        while process.alive(running):
            if ready_cluster(HOST, self.port) == cluster.id:
                return True
            if time.monotonic() > deadline:
                message = f"the broker of {self.data} does not answer within {_SECONDS_TO_START:g} s"
                raise MillstreamError(f"{message}; {self.data / OUTPUT} may say why")
            time.sleep(_STEP)
        return False


def _reason(output: str) -> str:
    """What of all that a broker says tells why it failed: the first exception, or else what came last.

    >>> _reason("[main] ERROR kafka.Kafka - Exiting\\njava.io.IOException: Disk full.\\nCaused by: worse")
    'Disk full'
    """
    exception = re.search(
        r"^(?:Caused by: |Exception in thread \S+ )?[\w.$]+(?:Exception|Error): (.+)", output, re.MULTILINE
    )
    if exception:
        return exception[1].strip().rstrip(".")
    return (output.strip().splitlines() or ["it said nothing"])[-1]
