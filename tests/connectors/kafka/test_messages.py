"""Rows as messages: value, key, header, partition."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from support.kafka.sink_topic import IDENTITY, SCHEMA, epoch, progress

from millstream.errors import ConfigError
from millstream.log.formats.rows import json_lines
from millstream_connectors.kafka.client.encoder import Messages
from millstream_connectors.kafka.messages import RowMessages
from millstream_connectors.kafka.progress import Signature

SIGNATURE = Signature("news", "predictions", "somewhere")


def encode(rows: pa.Table, key: str | None = None, identity: Sequence[str] = IDENTITY) -> Messages:
    [messages] = RowMessages(SIGNATURE, rows.schema, identity, key, [0]).encode(rows, progress(7), 0).values()
    return messages


def test_a_value_is_the_row_in_json_and_a_header_names_output_and_epoch() -> None:
    messages = encode(epoch(2))
    assert b"\n".join(value for _, value in messages.content) + b"\n" == json_lines(epoch(2))
    sums = f'0,0,"{progress(7).digest}"'.encode()
    assert messages.header == ("millstream", b'["news/predictions","an epoch log",7,' + sums + b"]")


def test_the_key_is_the_identity_of_a_row_unless_a_column_is_named() -> None:
    assert [key for key, _ in encode(epoch(2)).content] == [b"news/0/2000", b"news/0/2001", b"news/0/2002"]
    assert {key for key, _ in encode(epoch(2, label="rain"), key="label").content} == {b"rain"}
    assert {key for key, _ in encode(epoch(2, label=None), key="label").content} == {None}
    assert {key for key, _ in encode(epoch(2), identity=()).content} == {None}


def test_the_key_of_a_windows_row_has_the_time_as_in_the_rows_json() -> None:
    times = pa.array([1_500_000, 2_000_000], pa.timestamp("us", "UTC"))
    rows = pa.table({"_window": times, "topic": ["rain", None]})
    content = encode(rows, identity=("_window", "topic")).content
    assert [key for key, _ in content] == [b"1970-01-01T00:00:01.500000Z/rain", b"1970-01-01T00:00:02Z"]
    assert content[1][1].startswith(b'{"_window": "1970-01-01T00:00:02Z"')


def test_a_key_that_rows_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sinks.predictions.key: .* no column 'colour'; they have _source, .*label"):
        encode(epoch(0), key="colour")


@pytest.mark.parametrize(
    ("key", "hashed"),
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-longer-string", -1486304829), ("abc", 479470107)],
)
def test_keys_select_partitions_as_in_javas_producer(key: str, hashed: int) -> None:
    rows = RowMessages(SIGNATURE, SCHEMA, IDENTITY, "label", range(5))
    assert list(rows.encode(epoch(0, label=key), progress(0), 0)) == [(hashed & 0x7FFFFFFF) % 5]


def test_each_row_goes_to_one_of_several_partitions() -> None:
    partitions = RowMessages(SIGNATURE, SCHEMA, IDENTITY, None, [0, 1, 2]).encode(epoch(0, 200), progress(0), 0)
    assert list(partitions) == [0, 1, 2]
    every = [message for messages in partitions.values() for message in messages.content]
    assert sorted(every) == sorted(encode(epoch(0, 200)).content)


def test_rows_without_a_key_go_to_the_partition_of_their_epoch() -> None:
    rows = RowMessages(SIGNATURE, SCHEMA, (), None, [0, 1, 2])
    assert [list(rows.encode(epoch(0), progress(number), 0)) for number in range(4)] == [[0], [1], [2], [0]]
