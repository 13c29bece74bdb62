"""A channel between two processes of a run: whole messages over a unix socket; a sender never waits for the receiver.

Only channels use pickle: both ends belong to the run, and no other process can reach a pair of unnamed sockets.
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

__all__ = ["Channel", "Closed", "pack", "unpack"]

_LENGTH_BYTES = 8
_MOST_BYTES = 1 << 20


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """Sends and receives messages in their order.

    A thread sends the bytes that do not fit into the socket's buffer, so that they travel while both sides compute.

    >>> here, there = map(Channel, socket.socketpair())
    >>> here.send(pa.table({"a": [1, 2]}).slice(1))
    >>> [table.to_pylist() for table in there.receive()]
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
        """Send a message; does not wait for the other side."""
        data = pack(message)
        with self._changed:
            if self._gone:
                raise Closed
            for piece in (memoryview(len(data).to_bytes(_LENGTH_BYTES, "little")), data):
                left = piece if self._outgoing else self._send_at_once(piece)
                if left:
                    self._outgoing.append(left)
            if self._outgoing and self._sender is None:
                self._sender = threading.Thread(target=self._send_rest, name="millstream-channel", daemon=True)
                self._sender.start()
            self._changed.notify()

    def _send_at_once(self, data: memoryview) -> memoryview:
        """Send the bytes that the socket takes without waiting; return the others."""
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

    def receive(self) -> list[Any]:
        """Return the messages since the last call; `Closed` once the other side is gone and no message is left."""
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
        messages = list(self._whole_messages())
        if gone and not messages:
            raise Closed
        return messages

    def _whole_messages(self) -> list[Any]:
        messages, at = [], 0
        while len(self._incoming) - at >= _LENGTH_BYTES:
            start = at + _LENGTH_BYTES
            stop = start + int.from_bytes(self._incoming[at:start], "little")
            if stop > len(self._incoming):
                break
            messages.append(unpack(bytes(self._incoming[start:stop])))
            at = stop
        del self._incoming[:at]
        return messages

    def close(self) -> None:
        """Close the channel; messages that are not sent yet are dropped."""
        with self._changed:
            self._gone = True
            self._changed.notify()
        with suppress(OSError):  # the other side may be gone
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._sender is not None:
            self._sender.join()
        self._socket.close()


def pack(message: Any) -> memoryview:
    """Serialize a message for a channel."""
    buffer = io.BytesIO()
    _Packer(buffer, protocol=5).dump(message)
    return buffer.getbuffer()


def unpack(data: bytes | memoryview) -> Any:
    """Restore a message that `pack` has serialized."""
    return pickle.loads(data)  # noqa: S301


class _Packer(pickle.Pickler):
    """Tables go in Arrow's own format, which writes only the rows of a slice."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, pa.Table):
            return NotImplemented
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value)
        return _table, (pickle.PickleBuffer(sink.getvalue()),)


def _table(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()
