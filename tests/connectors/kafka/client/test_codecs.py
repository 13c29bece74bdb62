"""Decompression gives the original content, for every framing that Kafka's clients write."""

from __future__ import annotations

import gzip
import random

import pyarrow as pa
import pytest

from millstream_connectors.kafka.client.codecs import CODECS, decompress

rng = random.Random(4)
CONTENTS = [b"", b"a", b"some text " * 1000, rng.randbytes(200_000), b"0" * 3_000_000]

GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)


def compressed(codec: str, content: bytes) -> bytes:
    return bytes(pa.Codec(codec).compress(content, asbytes=True))


def xerial(content: bytes, block: int = 32_768) -> bytes:
    """The format of Java's SnappyOutputStream."""
    written = b"\x82SNAPPY\x00" + (1).to_bytes(4) + (1).to_bytes(4)
    for begin in range(0, len(content), block):
        part = compressed("snappy", content[begin : begin + block])
        written += len(part).to_bytes(4) + part
    return written


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_every_codec_gives_the_original_content(content: bytes) -> None:
    assert decompress(GZIP, gzip.compress(content)) == content
    assert decompress(LZ4, compressed("lz4", content)) == content
    assert decompress(ZSTD, compressed("zstd", content)) == content
    assert decompress(SNAPPY, compressed("snappy", content)) == content
    assert decompress(SNAPPY, xerial(content)) == content


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_damaged_data_are_refused(codec: int) -> None:
    with pytest.raises(ValueError, match=f"^not {CODECS[codec]}: "):
        decompress(codec, b"\xff" * 40)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ValueError, match="codec 7, which is none of none, gzip, snappy, lz4, zstd"):
        decompress(7, b"")
