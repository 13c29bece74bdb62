"""A channel between two processes of a run: whole messages over a unix socket, never waiting for the other side.

Pickle is right here and nowhere else: both ends are ours, and nobody else can reach a pair of unnamed sockets.
"""

from __future__ import annotations

import io
import pickle
import socket
from collections import deque
from typing import Any

import pyarrow as pa

__all__ = ["Channel", "Closed", "packed", "unpacked"]

_LENGTH_BYTES = 8
_MOST_BYTES = 1 << 20


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """Sends and receives messages in their order.

    >>> here, there = map(Channel, socket.socketpair())
    >>> here.send(pa.table({"a": [1, 2]}).slice(1))
    >>> here.flush()
    >>> [table.to_pylist() for table in there.received()]
    [[{'a': 2}]]
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._outgoing: deque[memoryview] = deque()
        self._incoming = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def pending(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._outgoing)

    def send(self, message: Any) -> None:
        """Have a message sent: as much as goes now, the rest by `flush`."""
        data = packed(message)
        self._outgoing.append(memoryview(len(data).to_bytes(_LENGTH_BYTES, "little")))
        self._outgoing.append(data)
        self.flush()

    def flush(self) -> None:
        """Send what goes without waiting."""
        while self._outgoing:
            data = self._outgoing[0]
            try:
                sent = self._socket.send(data[:_MOST_BYTES])
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                raise Closed from None
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = data[sent:]

    def received(self) -> list[Any]:
        """The messages that have arrived since; `Closed` once the other side is gone and all were taken."""
        gone = False
        while True:
            try:
                data = self._socket.recv(_MOST_BYTES)
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
