"""The HTTP port that Prometheus scrapes; it listens on the loopback address only."""

from __future__ import annotations

import errno
import io
import socket
import threading
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from millstream.errors import ConfigError

__all__ = ["MetricsPort"]

_HOST = "127.0.0.1"
_CLIENT_SECONDS = 10.0
"""The server disconnects a client that neither sends nor takes a byte for this time."""
_POLL_SECONDS = 0.05
"""The longest time that the end of a run waits for the thread of the server."""


class MetricsPort:
    """An HTTP server for metrics, on a free port if `port` is 0; its page is empty until a collector is registered.

    >>> port = MetricsPort(0)
    >>> port.address == f"http://127.0.0.1:{port.number}/metrics"
    True
    >>> port.close()
    """

    def __init__(self, port: int) -> None:
        self._registry = CollectorRegistry()
        try:
            self._server = make_server(_HOST, port, make_wsgi_app(self._registry), ThreadingWSGIServer, _Handler)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = "another process has that port" if taken else f"cannot listen there: {error.strerror}"
            message = f"--metrics-port {port}: {reason}; give another, or 0 for one that is free"
            raise ConfigError(message) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="millstream-metrics", daemon=True
        )
        self._thread.start()

    @property
    def number(self) -> int:
        return self._server.server_port

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self.number}/metrics"

    def register(self, collector: Collector) -> None:
        """Add a collector to the page; threads of the server call it at each request."""
        self._registry.register(collector)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    """Answers one request of a client in a thread; logs nothing, and does not wait for a client without end."""

    timeout = _CLIENT_SECONDS

    def setup(self) -> None:
        super().setup()
        self.wfile = _Writer(self.connection)

    def handle(self) -> None:
        with suppress(TimeoutError):
            super().handle()

    def log_message(self, format: str, *values: Any) -> None: ...


class _Writer(io.BufferedIOBase):
    """Writes to a client; a timeout is a lost connection, which wsgiref ignores, and not a failure to report."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            self._connection.sendall(data)
        except TimeoutError as error:
            raise ConnectionAbortedError from error
        return memoryview(data).nbytes
