"""The HTTP port that Prometheus scrapes; it listens on the loopback address only."""

from __future__ import annotations

import errno

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from millstream.errors import ConfigError

__all__ = ["MetricsPort"]

_HOST = "127.0.0.1"


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
            self._server, self._thread = start_http_server(port, _HOST, self._registry)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = "another process has that port" if taken else f"cannot listen there: {error.strerror}"
            message = f"--metrics-port {port}: {reason}; give another, or 0 for one that is free"
            raise ConfigError(message) from error

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
