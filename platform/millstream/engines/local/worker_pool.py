"""The worker processes of one run: their channels, and the detection of dead and hanging workers."""

from __future__ import annotations

import itertools
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from multiprocessing.context import ForkServerProcess
from types import TracebackType
from typing import NoReturn

from millstream.engines.fork_server import fork_server, start_process
from millstream.engines.job import Job
from millstream.engines.local.channel import Channel, Closed
from millstream.engines.local.worker_log import LogMessage, log_levels, log_message
from millstream.engines.local.worker_process import BEAT_SECONDS, WorkerSpec, run_worker
from millstream.engines.script_import import STARTS_RUN, process_name, unguarded_run
from millstream.engines.workers.legs import legs_of
from millstream.engines.workers.messages import Message
from millstream.engines.workers.role_names import COORDINATOR, SEQUENCER, role_names
from millstream.errors import MillstreamError, WorkerLost

__all__ = ["LocalWorkerPool"]

_SILENCE_SECONDS = 5.0
"""A worker that sends no beat for this time hangs."""
_CHECK_SECONDS = 2 * BEAT_SECONDS
_UNKNOWN = 255
"""The exit code that multiprocessing reports when the fork server, which has the real one, is gone."""


class LocalWorkerPool:
    """Starts the workers of a job; as a context manager, ends them."""

    def __init__(self, job: Job) -> None:
        self.names = role_names(job.config.engine.workers)
        with ExitStack() as opened:
            try:
                self._start(job, opened)
            except (EOFError, ConnectionError) as error:
                message = "the process that starts workers is gone"
                raise WorkerLost(message) from error
            except OSError as error:
                tmpdir = "AF_UNIX" in str(error)
                hint = (
                    "set TMPDIR to a shorter path"
                    if tmpdir
                    else "use fewer workers, or allow more open files (ulimit -n)"
                )
                message = f"{len(self.names)} workers cannot be started: {error.strerror or error}; {hint}"
                raise MillstreamError(message) from error
            self._opened = opened.pop_all()

    def _start(self, job: Job, opened: ExitStack) -> None:
        """Start the workers; `opened` ends what is started, also if the start fails halfway."""
        ends = _socket_pairs(self.names, opened, keyed=bool(legs_of(job.graph).keyed))
        beats = {name: _socket_pair(opened) for name in self.names}
        self._channels = {name: Channel(end) for name, end in ends[COORDINATOR].items()}
        self._beats = {name: beats[name][0] for name in self.names}
        self._selector = opened.enter_context(selectors.DefaultSelector())
        for name in self.names:
            opened.callback(self._channels[name].close)
            self._beats[name].setblocking(False)
            self._selector.register(self._channels[name], selectors.EVENT_READ, (name, False))
            self._selector.register(self._beats[name], selectors.EVENT_READ, (name, True))
        self._processes: dict[str, ForkServerProcess] = {}
        opened.callback(self._end_processes)  # the first to be called, so no worker sees a socket close
        contexts = {name: (log.folder, log.cache, log.pipeline) for name, log in job.contexts.items()}
        layers = job.lifecycle.checkpoints.layers.folder
        context, levels = fork_server(job.config), log_levels()
        for name in self.names:
            spec = WorkerSpec(
                name, len(self.names) - 1, job.config, job.graph.fields, contexts, layers, job.versions.folder, levels
            )
            process = context.Process(
                target=run_worker, args=(spec, ends[name], beats[name][1]), name=process_name(name), daemon=True
            )
            start_process(process)
            self._processes[name] = process
        for name in self.names:
            beats[name][1].close()
            for end in ends[name].values():
                end.close()
        self._arrived: deque[Message] = deque()
        self._checked_at = time.monotonic()
        self._silent = dict.fromkeys(self.names, 0.0)

    def send(self, name: str, message: Message) -> None:
        """Send a message; does not wait for the worker."""
        try:
            self._channels[name].send(message)
        except Closed:
            self._raise_lost(name)

    def receive(self, seconds: float | None) -> Message | None:
        """Return the next message to the coordinator; None if no message arrived within these seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._arrived:
            left = _CHECK_SECONDS if until is None else min(_CHECK_SECONDS, until - time.monotonic())
            self._serve(max(0.0, left))
            if until is not None and time.monotonic() >= until:
                break
        return self._arrived.popleft() if self._arrived else None

    def _serve(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            name, beat = key.data
            if beat:
                self._receive_beat(name)
                continue
            try:
                self._arrived.extend(self._messages(name))
            except Closed:
                self._raise_lost(name)
        self._check_silence()

    def _messages(self, name: str) -> list[Message]:
        """Return the messages of a worker for the coordinator; log the others."""
        received = self._channels[name].receive()
        for message in received:
            if isinstance(message, LogMessage):
                log_message(message)
        return [message for message in received if not isinstance(message, LogMessage)]

    def _receive_beat(self, name: str) -> None:
        try:
            if not self._beats[name].recv(4096):
                self._raise_lost(name)
        except BlockingIOError:
            return
        self._silent[name] = 0.0

    def _check_silence(self) -> None:
        """Raise `WorkerLost` for a worker without beats.

        Only the time counts in which the coordinator received: no beat could arrive while it was busy or stopped.
        """
        now = time.monotonic()
        since, self._checked_at = now - self._checked_at, now
        for name in self.names:
            self._silent[name] += min(since, _CHECK_SECONDS)
            if self._silent[name] > _SILENCE_SECONDS:
                message = f"{name} has not moved for {_SILENCE_SECONDS:.0f} s"
                raise WorkerLost(message)

    def _raise_lost(self, name: str) -> NoReturn:
        """Raise `WorkerLost` for a worker whose socket is closed: its process has ended, or ends now.

        If the import of the script ended the worker, raise an error that no restart follows.
        """
        process = self._processes[name]
        process.join()
        self._log_last_messages(name)
        code = process.exitcode
        assert code is not None
        if code == STARTS_RUN:
            raise unguarded_run()
        how = "ended, and its exit code is not known" if code == _UNKNOWN else f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        message = f"{name} (process {process.pid}) {how}"
        raise WorkerLost(message)

    def __enter__(self) -> LocalWorkerPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def _end_processes(self) -> None:
        for process in self._processes.values():
            process.kill()
        for name, process in self._processes.items():
            process.join()
            process.close()
            self._log_last_messages(name)

    def _log_last_messages(self, name: str) -> None:
        """Log what a worker logged before its end."""
        with suppress(Closed):
            self._messages(name)


def _socket_pair(opened: ExitStack) -> tuple[socket.socket, socket.socket]:
    one, other = socket.socketpair()
    return opened.enter_context(one), opened.enter_context(other)


def _socket_pairs(names: Sequence[str], opened: ExitStack, *, keyed: bool) -> dict[str, dict[str, socket.socket]]:
    """Return for each role its sockets by partner. Readers have sockets to each other only if a step is keyed."""
    ends: dict[str, dict[str, socket.socket]] = {name: {} for name in (COORDINATOR, *names)}
    for one, other in itertools.combinations((COORDINATOR, *names), 2):
        if keyed or one == COORDINATOR or SEQUENCER in (one, other):
            ends[one][other], ends[other][one] = _socket_pair(opened)
    return ends
