"""A channel between two processes of a run: whole messages over a unix socket, never waiting for the other side.

Pickle is right here and nowhere else: both ends are ours, and nobody else can reach a pair of unnamed sockets.
"""

from __future__ import annotations

import io
import pickle
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Any

import pyarrow as pa

__all__ = ["Channel", "Closed", "packed", "unpacked"]

_LENGTH_BYTES = 8
_MOST_BYTES = 1 << 20


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """Sends and receives messages in their order.

    What does not fit into the socket's buffer is sent by a thread, so that it travels while both sides compute.

    >>> here, there = map(Channel, socket.socketpair())
    >>> here.send(pa.table({"a": [1, 2]}).slice(1))
    >>> [table.to_pylist() for table in there.received()]
    [[{'a': 2}]]
    >>> here.close(), there.close()
    (None, None)
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._incoming = bytearray()
        self._outgoing: deque[memoryview] = deque()
        self._changed = threading.Condition()
        self._sender: threading.Thread | None = None
        self._gone = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Any) -> None:
        """Have a message sent; does not wait for the other side."""
        data = packed(message)
        with self._changed:
            if self._gone:
                raise Closed
            for part in (memoryview(len(data).to_bytes(_LENGTH_BYTES, "little")), data):
                left = part if self._outgoing else self._sent_at_once(part)
                if left:
                    self._outgoing.append(left)
            if self._outgoing and self._sender is None:
                self._sender = threading.Thread(target=self._send_rest, name="millstream-channel", daemon=True)
                self._sender.start()
            self._changed.notify()

    def _sent_at_once(self, data: memoryview) -> memoryview:
        """Send what goes without waiting; what is left."""
        while data:
            try:
                data = data[self._socket.send(data[:_MOST_BYTES], socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                break
            except (BrokenPipeError, ConnectionResetError):
                raise Closed from None
        return data

    def _send_rest(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._outgoing or self._gone)
                if self._gone:
                    return
                data = self._outgoing[0]
            try:
                self._socket.sendall(data)
            except OSError:
                self._gone = True
                return
            with self._changed:
                self._outgoing.popleft()

    def received(self) -> list[Any]:
        """The messages that have arrived since; `Closed` once the other side is gone and all were taken."""
        gone = False
        while True:
            try:
                data = self._socket.recv(_MOST_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            if not data:
                gone = True
                break
            self._incoming += data
        messages = list(self._whole())
        if gone and not messages:
            raise Closed
        return messages

    def _whole(self) -> list[Any]:
        messages, at = [], 0
        while len(self._incoming) - at >= _LENGTH_BYTES:
            start = at + _LENGTH_BYTES
            stop = start + int.from_bytes(self._incoming[at:start], "little")
            if stop > len(self._incoming):
                break
            messages.append(unpacked(bytes(self._incoming[start:stop])))
            at = stop
        del self._incoming[:at]
        return messages

    def close(self) -> None:
        """Let go of it; what is not sent yet is not sent."""
        with self._changed:
            self._gone = True
            self._changed.notify()
        with suppress(OSError):  # the other side may be gone
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._sender is not None:
            self._sender.join()
        self._socket.close()


def packed(message: Any) -> memoryview:
    """A message as it goes over a channel."""
    buffer = io.BytesIO()
    _Packer(buffer, protocol=5).dump(message)
    return buffer.getbuffer()


def unpacked(data: bytes | memoryview) -> Any:
    """The message that was packed."""
    return pickle.loads(data)  # noqa: S301


class _Packer(pickle.Pickler):
    """Tables go in Arrow's own format, which leaves out what lies around a slice."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, pa.Table):
            return NotImplemented
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value)
        return _table, (pickle.PickleBuffer(sink.getvalue()),)


def _table(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()
