"""Requests to brokers over kafka-python's connections, which implement TLS, passwords and API versions.

This is the only file that uses internals of kafka-python 3.0: its connections (`kafka.net`) and their event loop,
which runs in a thread of its own. kafka-python's own search for the brokers is not used, because it logs its errors
instead of raising them.
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

from millstream_connectors.kafka.client.addresses import Address
from millstream_connectors.kafka.client.log_filter import CLIENT_ID, drop_own_messages

__all__ = ["NetworkLoop", "Nodes", "PendingAnswer"]

T = TypeVar("T")

_MAX_ANSWER_BYTES = 256 << 20
"""A broker sends a message whole, however large it is. A server that is no Kafka broker seems to send more."""
_RECEIVE_BYTES = 256 << 10
_CONNECT_SECONDS = 10.0


class Nodes:
    """The brokers of one cluster, to which a question sends its requests. Used on the event loop only."""

    def __init__(self, manager: Any, bootstrap: Sequence[Address]) -> None:
        self._manager = manager
        self._bootstrap = bootstrap
        self._found = False
        self._connected_before = False
        self.cluster_id = ""

    @property
    def controller(self) -> int | None:
        """The number of the broker that makes changes, if it is known."""
        controller = self._manager.cluster.controller
        return None if controller is None else int(controller.node_id)

    async def send(self, request: Any, node: int | None = None) -> Any:
        """Send a request to the broker of this number, or to any broker, and return the answer."""
        try:
            if not self._found:
                await self._find()
            node = node if node is not None else self._manager.least_loaded_node()
            connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
            await connection
            return await connection.send_request(request)
        except (kafka_errors.KafkaConnectionError, kafka_errors.UnknownBrokerIdError, kafka_errors.NodeNotReadyError):
            self._found = False  # the brokers may have moved
            raise

    def update(self, metadata: Any) -> None:
        """Take the brokers' addresses from an answer with metadata."""
        self._manager.cluster.update_metadata(metadata)
        self.cluster_id = metadata.cluster_id or ""

    async def _find(self) -> None:
        """Ask one of the bootstrap addresses for the addresses of all brokers."""
        self._check_host_names()
        node = random.choice(self._manager.cluster.bootstrap_brokers()).node_id
        connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
        await connection
        self.update(await connection.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False)))
        self._found = self._connected_before = True

    def _check_host_names(self) -> None:
        """Refuse unknown host names; after a first connection, an unknown name is an error worth a retry."""
        unknown = ""
        for host, port in self._bootstrap:
            try:
                socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                unknown = f"the host name {host!r} is not known ({error.strerror})"
            else:
                return
        if self._connected_before:
            raise kafka_errors.KafkaConnectionError(unknown)
        raise kafka_errors.KafkaConfigurationError(unknown)


class NetworkLoop:
    """The event loop and the connections of one process; `options` are kafka-python's, for TLS and passwords."""

    def __init__(self, bootstrap: Sequence[Address], options: Mapping[str, Any], answer_seconds: float) -> None:
        self.process = os.getpid()
        drop_own_messages()
        self._net = NetworkSelector(client_id=CLIENT_ID)
        connect_millis = int(min(answer_seconds, _CONNECT_SECONDS) * 1000)
        self._manager = _Connections(
            self._net,
            bootstrap_servers=[f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in bootstrap],
            client_id=CLIENT_ID,
            receive_message_max_bytes=_MAX_ANSWER_BYTES,
            reconnect_backoff_ms=0,  # the caller pauses between attempts
            request_timeout_ms=int(answer_seconds * 1000),
            socket_connection_setup_timeout_ms=connect_millis,
            socket_connection_setup_timeout_max_ms=connect_millis,
            **options,
        )
        self._nodes = Nodes(self._manager, bootstrap)
        self._net.start()

    def submit(self, question: Callable[[Nodes], Awaitable[T]]) -> PendingAnswer[T]:
        """Run a coroutine function on the event loop."""
        return PendingAnswer(self._manager.call_soon(question, self._nodes))

    def close(self) -> None:
        PendingAnswer[None](self._manager.call_soon(self._manager.close)).wait(_CONNECT_SECONDS)
        self._net.close()


class PendingAnswer(Generic[T]):
    """The future result of a question; any thread may wait for it."""

    def __init__(self, future: Any) -> None:
        self.since = time.monotonic()
        self._future = future
        self._done = threading.Event()
        future.add_both(lambda _: self._done.set())

    def wait(self, seconds: float) -> bool:
        """Wait up to so many seconds; true if the answer has arrived."""
        return self._done.wait(seconds)

    @property
    def answer(self) -> T:
        """The result of the question; raises the question's exception if it failed."""
        if self._future.exception is not None:
            raise self._future.exception
        value: T = self._future.value
        return value


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Closes the sockets of failed attempts, which kafka-python leaves to the garbage collector."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        error: Exception = kafka_errors.KafkaConnectionError(
            f"the brokers advertise the host name {node.host!r} (advertised.listeners), which is not known"
        )
        for found in KafkaNetSocket().dns_lookup(node.host, node.port):
            plain = socket.socket(*found[:3])
            plain.setblocking(False)
            for option in self.config["socket_options"]:
                plain.setsockopt(*option)
            try:
                await KafkaNetSocket().sock_connect(self._net, plain, found[4], timeout_at=timeout_at)
            except (OSError, kafka_errors.KafkaError) as failure:
                plain.close()
                error = failure
            else:
                return await self._shake_hands(plain, node.host)
        raise kafka_errors.KafkaConnectionError(f"{node.host}:{node.port}: {error.args[0] if error.args else error}")

    async def _shake_hands(self, plain: socket.socket, host: str) -> Any:
        transport = _PlainTransport(self._net, plain, host=host)
        if self.ssl_enabled:
            transport = _TlsTransport(self._net, plain, host=host, ssl_context=self.config["ssl_context"])
        try:
            await transport.handshake()
        except Exception as error:
            transport.close()
            message = f"Handshake failed: {error}"
            raise kafka_errors.KafkaConnectionError(message) from error
        return transport


def _receive(receive: Callable[[int], bytes], blocked: tuple[type[BaseException], ...]) -> tuple[bytes, Any]:
    """All bytes that have arrived, or else the error.

    kafka-python's own method reads 4 KiB at a time, and loses the bytes before an error.
    """
    parts = []
    error = None
    try:
        while part := receive(_RECEIVE_BYTES):
            parts.append(part)
        error = kafka_errors.KafkaConnectionError("socket disconnected")
    except blocked:
        pass
    except OSError as failure:
        error = kafka_errors.KafkaConnectionError(str(failure))
    return b"".join(parts), None if parts else error


class _PlainTransport(KafkaTCPTransport):  # type: ignore[misc]
    def _sock_recv(self) -> tuple[bytes, Any]:
        return _receive(self._sock.recv, (BlockingIOError, InterruptedError))


class _TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    def _sock_recv(self) -> tuple[bytes, Any]:
        return _receive(
            self._sock.recv, (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
        )
