"""A worker process: one role, its channels to the other roles, and a thread that sends beats."""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from millstream.config.models import Config
from millstream.engines.local.channel import Channel, Closed
from millstream.engines.local.worker_log import send_log_messages
from millstream.engines.workers.legs import legs_of
from millstream.engines.workers.messages import Failed, Message
from millstream.engines.workers.role_names import COORDINATOR
from millstream.engines.workers.roles import handle, role_of
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.ranges import Range, read_table, records_schema
from millstream.state.layers import Layers
from millstream.state.version_store import VersionStore
from millstream.steps.graph import build_graph

__all__ = ["BEAT_SECONDS", "WorkerSpec", "run_worker"]

_LOGGER = logging.getLogger(__name__)

BEAT_SECONDS = 0.5
"""The time between two beats of a worker."""


@dataclass(frozen=True)
class WorkerSpec:
    """The configuration of a worker process; `contexts` has for each source its folder, its cache and the pipeline.

    `log_levels` has the levels of loggers in the process of the run.
    """

    name: str
    readers: int
    config: Config
    fields: Sequence[str]
    contexts: Mapping[str, tuple[Path, Path, str]]
    layers: Path
    models: Path
    log_levels: Mapping[str, int]


def run_worker(spec: WorkerSpec, channels: Mapping[str, socket.socket], beats: socket.socket) -> None:
    """Handle and send messages until the coordinator is gone.

    No object in this process needs an orderly end. The sockets close only with the process: so once a socket is closed,
    the exit code comes.
    """
    gc.freeze()  # a walk of the garbage collection over the objects of the libraries takes 50 ms
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the coordinator handles Ctrl-C
    threading.Thread(target=_beat, args=(beats,), daemon=True).start()
    ends = {name: Channel(sock) for name, sock in channels.items()}
    send_log_messages(ends[COORDINATOR], spec.log_levels)
    code = 1
    try:
        with suppress(Closed):
            _make_worker(spec, ends).run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        _LOGGER.exception("%s ends with an error", spec.name)
    os._exit(code)


def _beat(beats: socket.socket) -> None:
    """Send beats while this process is alive; end the process when the coordinator is gone."""
    while True:
        try:
            beats.send(b".")
        except OSError:
            os._exit(1)
        time.sleep(BEAT_SECONDS)


def _make_worker(spec: WorkerSpec, channels: Mapping[str, Channel]) -> _Worker:
    """Make the worker. If that fails, send the error and wait until the coordinator kills this process."""
    try:
        return _Worker(spec, channels)
    except Exception as error:
        channels[COORDINATOR].send(Failed(error))
        while True:
            time.sleep(BEAT_SECONDS)


class _Worker:
    def __init__(self, spec: WorkerSpec, channels: Mapping[str, Channel]) -> None:
        graph = build_graph(
            spec.config.steps, spec.fields, spec.config.source_times, spec.config.sinks, spec.config.cycle_limits
        )
        self._name = spec.name
        self._sources = {source.name: source.config for source in spec.config.logs}
        self._contexts = spec.contexts
        self._schema = records_schema(graph.fields)
        self._logs: dict[str, Log] = {}
        self._channels = channels
        self._own: list[Message] = []
        self._selector = selectors.DefaultSelector()
        for name, channel in self._channels.items():
            self._selector.register(channel, selectors.EVENT_READ, name)
        layers = Layers(spec.layers, spec.config.guarantee.shards)
        self._role = role_of(
            spec.name, spec.readers, graph, legs_of(graph), self._read, self._send, layers, VersionStore(spec.models)
        )

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                self._serve(key.data)
            while self._own:
                handle(self._role, self._own.pop(0), self._send)

    def _serve(self, name: str) -> None:
        channel = self._channels[name]
        try:
            messages = channel.receive()
        except Closed:
            if name == COORDINATOR:
                raise
            self._selector.unregister(channel)  # the coordinator notices this too, and ends this process
            return
        for message in messages:
            handle(self._role, message, self._send)

    def _send(self, name: str, message: Message) -> None:
        if name == self._name:
            self._own.append(message)
            return
        try:
            self._channels[name].send(message)
        except Closed:
            if name == COORDINATOR:
                raise

    def _read(self, ranges: Sequence[Range]) -> pa.Table:
        return read_table(ranges, self._log, self._schema)

    def _log(self, source: str) -> Log:
        if source not in self._logs:
            folder, cache, pipeline = self._contexts[source]
            self._logs[source] = open_log(self._sources[source], OpenContext(folder, cache, pipeline))
        return self._logs[source]
