"""Requests to brokers over kafka-python's connections, which know TLS, passwords and versions.

The one file that uses internals of kafka-python 3.0: its connections (`kafka.net`) and their event loop, which runs
in a thread of its own. Its own way of finding the brokers logs why that fails and tells nobody.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import MetadataRequest

__all__ = ["Address", "Broker", "Client", "Pending"]

T = TypeVar("T")
Address = tuple[str, int]

_LARGEST = 256 << 20
"""Bytes of an answer: a broker sends a message whole, however large it is. What is no broker seems to send more."""
_AT_ONCE = 256 << 10
_CONNECT_SECONDS = 10.0


class Broker:
    """What a question is put to: a cluster's brokers. Used on the event loop only."""

    def __init__(self, manager: Any, where: Sequence[Address]) -> None:
        self._manager = manager
        self._where = where
        self._known = False
        self._ever = False
        self.cluster = ""

    @property
    def controller(self) -> int | None:
        """The broker to ask for changes, if it is known."""
        controller = self._manager.cluster.controller
        return None if controller is None else int(controller.node_id)

    async def send(self, request: Any, node: int | None = None) -> Any:
        """The answer of one broker, by its number, or of any."""
        try:
            if not self._known:
                await self._find()
            node = node if node is not None else self._manager.least_loaded_node()
            connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
            await connection
            return await connection.send_request(request)
        except (kafka_errors.KafkaConnectionError, kafka_errors.UnknownBrokerIdError, kafka_errors.NodeNotReadyError):
            self._known = False  # the brokers may have moved
            raise

    def learn(self, metadata: Any) -> None:
        """Take in where the brokers are."""
        self._manager.cluster.update_metadata(metadata)
        self.cluster = metadata.cluster_id or ""

    async def _find(self) -> None:
        """Ask one of the addresses that were given where the brokers are."""
        self._look_up()
        node = random.choice(self._manager.cluster.bootstrap_brokers()).node_id
        connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
        await connection
        self.learn(await connection.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False)))
        self._known = self._ever = True

    def _look_up(self) -> None:
        """Refuse host names that nobody knows; once connected, that is a trouble that may pass."""
        unknown = ""
        for host, port in self._where:
            try:
                socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                unknown = f"the host name {host!r} is not known ({error.strerror})"
            else:
                return
        if self._ever:
            raise kafka_errors.KafkaConnectionError(unknown)
        raise kafka_errors.KafkaConfigurationError(unknown)


class Client:
    """An event loop with its connections, of one process. `options` are kafka-python's, for TLS and passwords."""

    def __init__(self, where: Sequence[Address], options: Mapping[str, Any], answer_seconds: float) -> None:
        self.process = os.getpid()
        self._net = NetworkSelector(client_id="millstream")
        connecting = int(min(answer_seconds, _CONNECT_SECONDS) * 1000)
        self._manager = _Connections(
            self._net,
            bootstrap_servers=[f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in where],
            client_id="millstream",
            receive_message_max_bytes=_LARGEST,
            reconnect_backoff_ms=0,  # whoever asks makes the pauses
            request_timeout_ms=int(answer_seconds * 1000),
            socket_connection_setup_timeout_ms=connecting,
            socket_connection_setup_timeout_max_ms=connecting,
            **options,
        )
        self._broker = Broker(self._manager, where)
        self._net.start()

    def put(self, question: Callable[[Broker], Awaitable[T]]) -> Pending[T]:
        return Pending(self._manager.call_soon(question, self._broker))

    def close(self) -> None:
        Pending[None](self._manager.call_soon(self._manager.close)).wait(_CONNECT_SECONDS)
        self._net.close()


class Pending(Generic[T]):
    """An answer that will come; waited for in any thread."""

    def __init__(self, future: Any) -> None:
        self.since = time.monotonic()
        self._future = future
        self._there = threading.Event()
        future.add_both(lambda _: self._there.set())

    def wait(self, seconds: float) -> bool:
        """Whether it has come."""
        return self._there.wait(seconds)

    @property
    def answer(self) -> T:
        """What came, or what was raised."""
        if self._future.exception is not None:
            raise self._future.exception
        value: T = self._future.value
        return value


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Closes the sockets of tries that fail, which kafka-python leaves to the garbage collector."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        error: Exception = kafka_errors.KafkaConnectionError(
            f"the brokers say that one is there (advertised.listeners), and the host name {node.host!r} is not known"
        )
        for found in KafkaNetSocket().dns_lookup(node.host, node.port):
            plain = socket.socket(*found[:3])
            plain.setblocking(False)
            for option in self.config["socket_options"]:
                plain.setsockopt(*option)
            try:
                await KafkaNetSocket().sock_connect(self._net, plain, found[4], timeout_at=timeout_at)
            except (OSError, kafka_errors.KafkaError) as failed:
                plain.close()
                error = failed
            else:
                return await self._shake_hands(plain, node.host)
        raise kafka_errors.KafkaConnectionError(f"{node.host}:{node.port}: {error.args[0] if error.args else error}")

    async def _shake_hands(self, plain: socket.socket, host: str) -> Any:
        transport = _Plain(self._net, plain, host=host)
        if self.ssl_enabled:
            transport = _Tls(self._net, plain, host=host, ssl_context=self.config["ssl_context"])
        try:
            await transport.handshake()
        except Exception as error:
            transport.close()
            message = f"Handshake failed: {error}"
            raise kafka_errors.KafkaConnectionError(message) from error
        return transport


def _received(take: Callable[[int], bytes], quiet: tuple[type[BaseException], ...]) -> tuple[bytes, Any]:
    """All bytes that are there, else the error; kafka-python's own reads 4 KiB at a time, and an error drops them."""
    parts = []
    error = None
    try:
        while part := take(_AT_ONCE):
            parts.append(part)
        error = kafka_errors.KafkaConnectionError("socket disconnected")
    except quiet:
        pass
    except OSError as failed:
        error = kafka_errors.KafkaConnectionError(str(failed))
    return b"".join(parts), None if parts else error


class _Plain(KafkaTCPTransport):  # type: ignore[misc]
    def _sock_recv(self) -> tuple[bytes, Any]:
        return _received(self._sock.recv, (BlockingIOError, InterruptedError))


class _Tls(KafkaSSLTransport):  # type: ignore[misc]
    def _sock_recv(self) -> tuple[bytes, Any]:
        return _received(
            self._sock.recv, (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        )
