"""The port that Prometheus asks: one page over HTTP, for this machine alone."""

from __future__ import annotations

import errno
import socketserver
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from millstream.errors import ConfigError

__all__ = ["MetricsPort"]

_HOST = "127.0.0.1"
_PATH = "/metrics"
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 10.0


class MetricsPort:
    """Listens from the moment that it is made, on a free port if `port` is 0; answers once it is given a page.

    >>> port = MetricsPort(0)
    >>> port.address == f"http://127.0.0.1:{port.number}/metrics"
    True
    >>> port.close()
    """

    def __init__(self, port: int) -> None:
        try:
            self._server = _Server((_HOST, port), _Request)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "another process has that port" if taken else f"cannot listen there: {error.strerror}"
            message = f"--metrics-port {port}: {why}; give another, or 0 for one that is free"
            raise ConfigError(message) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="millstream-metrics", daemon=True
        )
        self._thread.start()

    @property
    def number(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self.number}{_PATH}"

    def show(self, page: Callable[[], str]) -> None:
        """Answer with what this gives at the moment of asking; called from threads of the server."""
        self._server.page = page

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    page: Callable[[], str] | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # else whoever asked has gone
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_SECONDS

    def version_string(self) -> str:
        return "millstream"

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != _PATH:
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, f"nothing is here; the metrics are at {_PATH}\n")
        elif self.server.page is None:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, "the run has not begun yet; ask again\n")
        else:
            self._answer(HTTPStatus.OK, _METRICS, self.server.page())

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a run has better things to say."""
