"""Whether a broker serves yet: one small request, without a client that goes on trying and tells of it."""

from __future__ import annotations

import socket
import struct

__all__ = ["ready_cluster"]

_SECONDS = 2.0
# Metadata, version 7, of no topics: https://kafka.apache.org/protocol
_REQUEST = struct.pack(">hhih", 3, 7, 1, -1) + struct.pack(">i?", 0, False)


def ready_cluster(host: str, port: int) -> str | None:
    """The id of the cluster of the broker there, once it serves; None before that, and of what is no broker."""
    try:
        with socket.create_connection((host, port), _SECONDS) as connection:
            connection.settimeout(_SECONDS)
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                return _cluster(answer.read(min(size, 4096)))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _cluster(answer: bytes) -> str | None:
    """The cluster of a response, if it lists a broker; one that has not joined yet lists none."""
    _, _, brokers = struct.unpack_from(">iii", answer)
    at = 12
    for _ in range(brokers):
        at = _behind_text(answer, at + 4) + 4
        at = _behind_text(answer, at)
    end = _behind_text(answer, at)
    return answer[at + 2 : end].decode() if brokers > 0 else None


def _behind_text(answer: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", answer, at)
    return at + 2 + int(max(length, 0))
