"""What is compressed comes out as it went in, in every framing that Kafka's clients write."""

from __future__ import annotations

import gzip
import random

import pyarrow as pa
import pytest

from millstream_connectors.kafka.codecs import CODECS, decompressed

rng = random.Random(4)
CONTENTS = [b"", b"a", b"some text " * 1000, rng.randbytes(200_000), b"0" * 3_000_000]

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)


def compressed(codec: str, content: bytes) -> bytes:
    return bytes(pa.Codec(codec).compress(content, asbytes=True))


def xerial(content: bytes, block: int = 32_768) -> bytes:
    """As Java's SnappyOutputStream writes it."""
    written = b"\x82SNAPPY\x00" + (1).to_bytes(4) + (1).to_bytes(4)
    for begin in range(0, len(content), block):
        part = compressed("snappy", content[begin : begin + block])
        written += len(part).to_bytes(4) + part
    return written


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_every_codec_gives_back_what_went_in(content: bytes) -> None:
    assert decompressed(GZIP, gzip.compress(content)) == content
    assert decompressed(LZ4, compressed("lz4", content)) == content
    assert decompressed(ZSTD, compressed("zstd", content)) == content
    assert decompressed(SNAPPY, compressed("snappy", content)) == content
    assert decompressed(SNAPPY, xerial(content)) == content


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_is_damaged_is_said_to_be_so(codec: int) -> None:
    with pytest.raises(ValueError, match=f"^not {CODECS[codec]}: "):
        decompressed(codec, b"\xff" * 40)


def test_a_codec_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="codec 7, which is none of none, gzip, snappy, lz4, zstd"):
        decompressed(7, b"")
