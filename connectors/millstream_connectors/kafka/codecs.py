"""What producers and brokers compress, uncompressed: with Arrow's codecs, which are here anyway."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["CODECS", "decompressed"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By the number that a batch says."""

_XERIAL = b"\x82SNAPPY\x00"
"""Java's Snappy streams are blocks behind this and two version numbers; others compress the whole in one."""
_XERIAL_HEAD = 16
_MOST_SNAPPY = 64
"""Times that Snappy can shorten anything, and more."""


def decompressed(codec: int, data: bytes) -> bytes:
    """The content of a batch of this codec; `ValueError` if it is not what the codec makes.

    >>> decompressed(CODECS.index("zstd"), pa.Codec("zstd").compress(b"some text", asbytes=True))
    b'some text'
    """
    if codec >= len(CODECS):
        message = f"compressed with codec {codec}, which is none of {', '.join(CODECS)}"
        raise ValueError(message)
    try:
        if CODECS[codec] == "snappy":
            return _unsnapped(data)
        content: bytes = pa.CompressedInputStream(pa.BufferReader(data), CODECS[codec]).read()
    except (OSError, pa.ArrowInvalid) as error:
        message = f"not {CODECS[codec]}: {error}"
        raise ValueError(message) from None
    return content


def _unsnapped(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _unsnapped_block(data)
    blocks = []
    at = _XERIAL_HEAD
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        blocks.append(_unsnapped_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _unsnapped_block(data: bytes) -> bytes:
    """A block begins with its uncompressed length, seven bits a byte, which Arrow wants to know."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            break
    if size > _MOST_SNAPPY * len(data):
        message = f"{len(data):,} bytes cannot hold {size:,}"
        raise pa.ArrowInvalid(message)
    content: bytes = pa.Codec("snappy").decompress(data, size, asbytes=True)
    return content
