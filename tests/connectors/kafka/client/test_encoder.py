"""Encoded record batches, as kafka-python reads them."""

from __future__ import annotations

from kafka.record import MemoryRecords

from millstream_connectors.kafka.client.encoder import Batch, Messages

HEADER = ("millstream", b"of this epoch")
MILLIS = 1_700_000_000_123


def messages(*sizes: int) -> Messages:
    content = [(None if size % 2 else b"k" * (size // 2), bytes([size % 251]) * size) for size in sizes]
    return Messages(content, HEADER, MILLIS)


def batches_of(messages: Messages, largest: int) -> list[Batch]:
    found: list[Batch] = []
    while (first := sum(batch.count for batch in found)) < len(messages):
        found.append(messages.batch(first, largest))
    return found


def test_encoded_messages_are_read_with_keys_values_headers_and_time() -> None:
    wanted = messages(0, 1, 2, 63, 64, 127, 128, 8191, 8192, 300_000)
    [batch] = batches_of(wanted, 10**6)
    records = MemoryRecords(batch.encode(7, 3, 41, transactional=True))
    read = records.next_batch()
    assert not records.has_next()
    assert read.validate_crc()
    assert (read.is_transactional, read.producer_id, read.producer_epoch, read.base_sequence) == (True, 7, 3, 41)
    found = list(read)
    assert [(one.key, one.value) for one in found] == list(wanted.content)
    assert [one.offset for one in found] == list(range(len(wanted)))
    assert {(one.timestamp, *one.headers) for one in found} == {(MILLIS, HEADER)}
    assert len(batch.encode(7, 3, 41, transactional=True)) == batch.size


def test_a_batch_without_a_transaction_is_not_transactional() -> None:
    [batch] = batches_of(messages(5), 10**6)
    assert not MemoryRecords(batch.encode(7, 3, 0, transactional=False)).next_batch().is_transactional


def test_messages_may_have_no_header() -> None:
    batch = Messages([(b"key", b"value")] * 2, None, MILLIS).batch(0, 10**6)
    records = list(MemoryRecords(batch.encode(7, 3, 0, transactional=False)).next_batch())
    assert [(one.key, one.value, one.headers) for one in records] == [(b"key", b"value", [])] * 2


def test_batches_are_at_most_as_large_as_requested_unless_one_message_is_larger() -> None:
    wanted = messages(*[40] * 100, 2000, *[40] * 100)
    found = batches_of(wanted, 1000)
    assert sum(batch.count for batch in found) == len(wanted)
    assert [batch.count for batch in found if batch.size > 1000] == [1]
    content = [
        record.value
        for batch in found
        for record in MemoryRecords(batch.encode(1, 0, 0, transactional=True)).next_batch()
    ]
    assert content == [value for _, value in wanted.content]
