"""Record batches as columns: the same values as from parsing one record after the other."""

from __future__ import annotations

import random
import struct

import crc32c
import numpy as np
import pyarrow as pa
import pytest
from support.kafka.batch_bytes import LOG_APPEND_TIME, TRANSACTIONAL, Message, batch, control_record, number

from millstream_connectors.kafka.client.batches import Records, _Field, scan
from millstream_connectors.kafka.client.codecs import CODECS
from millstream_connectors.kafka.client.errors import InvalidData, MessagesLost


def plain(count: int, base: int = 0) -> list[Message]:
    return [Message(base + index, b'{"n": %d}' % index) for index in range(count)]


def read(records: Records) -> list[Message]:
    rows = zip(records.offsets.tolist(), records.values(), records.keys(), records.timestamps.tolist(), strict=True)
    return [Message(*row) for row in rows]


def test_written_messages_are_read() -> None:
    messages = [
        Message(7, b'{"text": "a"}', b"key", 1_700_000_000_000),
        Message(8, b"", b"", 1_700_000_000_001),
        Message(9, None, None, 1_699_999_999_000),
        Message(10, b"x" * 5_000_000, b"k" * 300, 1_700_000_000_000),
    ]
    found = scan(batch(messages), [], 7, 11)
    assert read(found.records) == messages
    assert found.position == 11


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_an_answer_may_have_batches_of_several_codecs(codec: str) -> None:
    first, second, third = plain(50), plain(3, 50), plain(200, 53)
    data = batch(first) + batch(second, codec=codec) + batch(third, codec="zstd")
    assert read(scan(data, [], 0, 1000).records) == first + second + third


def test_many_messages_of_any_size_are_read() -> None:
    rng = random.Random(11)
    messages = []
    offset, time = 0, 1_700_000_000_000
    for _ in range(3000):
        offset += rng.choice([1, 1, 1, 2, 300])
        time += rng.randrange(-200_000, 300_000)
        value = None if rng.random() < 0.05 else rng.randbytes(rng.choice([0, 5, 60, 130, 9000]))
        key = None if rng.random() < 0.5 else rng.randbytes(rng.randrange(200))
        messages.append(Message(offset, value, key, time))
    data, at = b"", 0
    while at < len(messages):
        size = rng.choice([1, 2, 40, 500])
        data += batch(messages[at : at + size], codec=rng.choice(CODECS[:1] * 3 + CODECS[1:]))
        at += size
    for _ in range(40):
        start, stop = sorted(rng.sample(range(offset + 2), 2))
        assert read(scan(data, [], start, stop).records) == [m for m in messages if start <= m.offset < stop]


def test_a_range_ends_by_position_despite_gaps() -> None:
    data = batch([Message(3), Message(6)], base=2, last=9) + batch([], base=10, last=19) + batch([Message(25)])
    assert [m.offset for m in read(scan(data, [], 2, 26).records)] == [3, 6, 25]
    assert scan(data, [], 2, 26).position == 26
    emptied = scan(data, [], 7, 20)
    assert len(emptied.records) == 0 and emptied.position == 20


def test_batches_after_the_range_are_not_read() -> None:
    data = batch(plain(5)) + batch(plain(5, 5))[:-1] + b"?"
    assert scan(data, [], 0, 5).position == 5
    with pytest.raises(InvalidData):
        scan(data, [], 0, 6)


def test_a_gap_at_the_start_of_the_range_is_skipped() -> None:
    found = scan(batch([Message(30)]), [], 10, 20)
    assert (len(found.records), found.position) == (0, 31)


def test_an_incomplete_last_batch_is_left_for_the_next_request() -> None:
    whole, cut = batch(plain(5)), batch(plain(5, 5))
    for size in range(len(cut)):
        found = scan(whole + cut[:size], [], 0, 100)
        assert len(found.records) == 5 and found.position == 5


def test_log_append_time_is_the_timestamp_of_the_whole_batch() -> None:
    data = batch(plain(3), attributes=LOG_APPEND_TIME, newest=77) + batch(plain(1, 3))
    assert scan(data, [], 0, 4).records.timestamps.tolist() == [77, 77, 77, 1000]


def test_values_of_any_length_are_arrow_binary() -> None:
    """Arrow stores values of up to twelve bytes in another buffer than longer ones."""
    values = [None if size == 7 else bytes(range(size)) for size in range(30)] * 3
    records = scan(batch([Message(offset, value, value) for offset, value in enumerate(values)]), [], 0, 90).records
    for column in (records.value_column(), records.key_column()):
        assert column.type == pa.binary()
        column.validate(full=True)
        assert column.to_pylist() == values


def test_a_value_longer_than_its_message_is_refused() -> None:
    data = b"some bytes"
    assert _Field(np.array([0, 5]), np.array([4, 5])).values(data, 7).to_pylist() == [b"some", b"bytes"]
    with pytest.raises(MessagesLost, match=r"offset 7 or a later one: a field is longer than its message"):
        _Field(np.array([0, 5]), np.array([4, 6])).values(data, 7)


def test_headers_are_found_by_name_the_last_of_several() -> None:
    messages = [
        Message(0, headers=[(b"id", b"1"), (b"kind", b"note"), (b"id", b"2")]),
        Message(1),
        Message(2, headers=[(b"kind", None), (b"", b"no name")]),
        Message(3, headers=[(b"kind", b"note"), (b"kind", None)]),
        Message(4, None, headers=[(b"x" * 200, b"y" * 200), (b"kine", b"?"), (b"kind", b"")]),
    ]
    records = scan(batch(messages, codec="lz4"), [], 0, 5).records
    assert records.headers(b"kind") == [b"note", None, None, None, b""]
    assert records.headers(b"id") == [b"2", None, None, None, None]
    assert records.headers(b"") == [None, None, b"no name", None, None]
    assert records.headers(b"other") == [None] * 5
    assert scan(b"", [], 0, 5).records.headers(b"kind") == []


# Transactions


def test_control_records_are_no_records() -> None:
    data = (
        batch(plain(2), attributes=TRANSACTIONAL, producer=9) + control_record(2, 9, commit=True) + batch(plain(1, 3))
    )
    found = scan(data, [], 0, 4)
    assert found.records.offsets.tolist() == [0, 1, 3]
    assert scan(data, [], 2, 3).position == 3


def test_only_aborted_records_are_skipped() -> None:
    parts = [
        (0, "mine", None),
        (1, "theirs", None),
        (2, "mine", False),  # aborts the records of mine so far
        (3, "mine", None),
        (4, "theirs", True),
        (5, "plain", None),
        (6, "mine", True),
        (7, "theirs", None),
        (8, "theirs", False),
    ]
    producers = {"mine": 4, "theirs": 5, "plain": -1}
    data = b""
    for offset, producer, commit in parts:
        if commit is None:
            attributes = TRANSACTIONAL if producer != "plain" else 0
            data += batch([Message(offset)], attributes=attributes, producer=producers[producer])
        else:
            data += control_record(offset, producers[producer], commit=commit)
    found = scan(data, [(4, 0), (5, 7)], 0, 9)
    assert found.records.offsets.tolist() == [1, 3, 5]
    assert found.position == 9
    assert scan(data, [], 0, 9).records.offsets.tolist() == [0, 1, 3, 5, 7]  # read_uncommitted


def test_an_aborted_transaction_that_began_before_the_answer_is_skipped() -> None:
    data = batch(plain(2, 10), attributes=TRANSACTIONAL, producer=4) + control_record(12, 4, commit=False)
    assert scan(data, [(4, 3)], 10, 13).records.offsets.tolist() == []


# Invalid batches


@pytest.mark.parametrize("index", [30, 61, -1])
def test_a_wrong_checksum_is_refused_with_the_offset_of_the_batch(index: int) -> None:
    data = bytearray(batch(plain(5)) + batch(plain(5, 5)))
    data[len(data) // 2 + index if index > 0 else index] ^= 1
    with pytest.raises(InvalidData, match="its checksum is wrong") as invalid:
        scan(bytes(data), [], 0, 10)
    assert invalid.value.offset == 5


@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats_are_refused(magic: int) -> None:
    old = struct.pack(">qiIbb", 7, 20, 0, magic, 0) + b"\0" * 16
    with pytest.raises(InvalidData, match=f"a message of format {magic}, and only format 2") as invalid:
        scan(old, [], 0, 10)
    assert invalid.value.offset == 7


def test_records_that_do_not_fill_their_batch_are_refused() -> None:
    for records in (b"\x04\0\0\0", b"\x02\0\0\0\0", number(1 << 40)):
        covered = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, 0, 0, 1) + records
        data = struct.pack(">qi", 3, 9 + len(covered)) + struct.pack(">ibI", 0, 2, crc32c.crc32c(covered)) + covered
        with pytest.raises(InvalidData, match="its records are longer or shorter than the batch") as invalid:
            scan(data, [], 0, 10)
        assert invalid.value.offset == 3


def test_an_empty_answer_has_no_records() -> None:
    found = scan(b"", [], 4, 9)
    assert (len(found.records), found.position) == (0, 4)
    assert found.records.offsets.dtype == np.int64
