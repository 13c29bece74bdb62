"""Decompression of record batches, with Arrow's codecs."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["CODECS", "decompress"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The codecs, by their number in a batch."""

_XERIAL = b"\x82SNAPPY\x00"
"""Java's Snappy streams are blocks after this and two version numbers; other clients write one block."""
_XERIAL_HEAD = 16
_MAX_SNAPPY_RATIO = 64
"""Snappy compresses nothing to less than this part."""


def decompress(codec: int, data: bytes) -> bytes:
    """The content of a batch; `ValueError` if the data are not in the format of this codec.

    >>> decompress(CODECS.index("zstd"), pa.Codec("zstd").compress(b"some text", asbytes=True))
    b'some text'
    """
    if codec >= len(CODECS):
        message = f"compressed with codec {codec}, which is none of {', '.join(CODECS)}"
        raise ValueError(message)
    try:
        if CODECS[codec] == "snappy":
            return _decompress_snappy(data)
        content: bytes = pa.CompressedInputStream(pa.BufferReader(data), CODECS[codec]).read()
    except (OSError, pa.ArrowInvalid) as error:
        message = f"not {CODECS[codec]}: {error}"
        raise ValueError(message) from None
    return content


def _decompress_snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _decompress_snappy_block(data)
    blocks = []
    at = _XERIAL_HEAD
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        blocks.append(_decompress_snappy_block(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _decompress_snappy_block(data: bytes) -> bytes:
    """One block: it starts with its uncompressed length, seven bits a byte, which Arrow needs as an argument."""
    size = 0
    for index, byte in enumerate(data[:5]):
        size |= (byte & 127) << 7 * index
        if byte < 128:
            break
    if size > _MAX_SNAPPY_RATIO * len(data):
        message = f"{len(data):,} bytes cannot hold {size:,}"
        raise pa.ArrowInvalid(message)
    content: bytes = pa.Codec("snappy").decompress(data, size, asbytes=True)
    return content
