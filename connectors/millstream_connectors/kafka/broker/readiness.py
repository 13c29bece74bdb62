"""The readiness of a broker, by one small request, without a client that retries and logs."""

from __future__ import annotations

import socket
import struct

__all__ = ["ready_cluster"]

_SECONDS = 2.0
# Metadata, version 7, of no topics: https://kafka.apache.org/protocol
_REQUEST = struct.pack(">hhih", 3, 7, 1, -1) + struct.pack(">i?", 0, False)


def ready_cluster(host: str, port: int) -> str | None:
    """The cluster id of the broker at this port; None if it is not ready, or the server is no broker."""
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
    """The cluster id in an answer that lists a broker; a broker that has not joined the cluster lists none."""
    _, _, brokers = struct.unpack_from(">iii", answer)
    at = 12
    for _ in range(brokers):
        at = _after_text(answer, at + 4) + 4
        at = _after_text(answer, at)
    end = _after_text(answer, at)
    return answer[at + 2 : end].decode() if brokers > 0 else None


def _after_text(answer: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", answer, at)
    return at + 2 + int(max(length, 0))
