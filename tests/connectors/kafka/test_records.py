"""Messages as records: JSON, text or bytes; a message that cannot be parsed is a reject with its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from support.kafka.batch_bytes import Message, batch

from millstream.records import log_schema
from millstream_connectors.kafka.client.batches import scan
from millstream_connectors.kafka.records import MessageParser

JSON = MessageParser("json", {"text": "body", "label": "kind", "time": "at"}, None, {}, message_time=False)
TEXT = MessageParser("text", {}, None, {}, message_time=False)
RAW = MessageParser("raw", {}, None, {}, message_time=False)


def read(parser: MessageParser, *messages: Message) -> list[dict[str, Any]]:
    found = parser.parse(scan(batch(messages), [], 0, 1000).records)
    found.validate(full=True)
    assert found.schema == log_schema(parser.columns)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def row(offset: int, time: int | None = None, reject: str | None = None, **fields: str | None) -> dict[str, Any]:
    return {"_offset": offset, "_time": time, "_reject": reject, **fields}


def test_json_values_are_records_at_their_own_offsets() -> None:
    messages = [Message(3, b'{"body": "a", "kind": 7, "at": 2}'), Message(9, b'{"body": "b"}')]
    assert read(JSON, *messages) == [row(3, 2_000_000, text="a", label="7"), row(9, text="b", label=None)]


def test_a_value_that_cannot_be_parsed_is_a_reject() -> None:
    values = [b'{"body": "a"}', b'{"body": ', b'{"body":\n"b"}', b"\xff", b"", None, b"{}"]
    rows = read(JSON, *(Message(offset, value) for offset, value in enumerate(values)))
    assert [(found["text"], found["_reject"]) for found in rows] == [
        ("a", None),
        (None, "not JSON: Expecting value at character 9"),
        ("b", None),
        (None, "not UTF-8 at byte 0"),
        (None, "empty line"),
        (None, "tombstone: the message has no value"),
        (None, "no text"),
    ]


def test_text_is_utf_8() -> None:
    messages = [Message(0, "naïve\nline".encode()), Message(1, b"ab\xff"), Message(2, None), Message(3, b"")]
    assert read(TEXT, *messages) == [
        row(0, text="naïve\nline"),
        row(1, reject="not UTF-8 at byte 2", text=None),
        row(2, reject="tombstone: the message has no value", text=None),
        row(3, text=""),
    ]


def test_raw_bytes_are_base64() -> None:
    assert read(RAW, Message(0, b"\0\xff"), Message(1, b""), Message(2, None)) == [
        row(0, value="AP8="),
        row(1, value=""),
        row(2, reject="tombstone: the message has no value", value=None),
    ]


def test_the_key_and_headers_are_columns() -> None:
    parser = replace(TEXT, key="who", headers={"origin": "from", "lang": "language"})
    assert parser.columns == ["text", "who", "origin", "lang"]
    messages = [
        Message(0, b"a", b"me", headers=[(b"from", b"here"), (b"language", b"en")]),
        Message(1, b"b", None, headers=[(b"from", None)]),
        Message(2, b"c", b"\xffme"),
        Message(3, b"d", b"me", headers=[(b"from", b"x\xff")]),
        Message(4, b"\xff", b"\xff"),
    ]
    empty = dict.fromkeys(parser.columns)
    assert read(parser, *messages) == [
        row(0, text="a", who="me", origin="here", lang="en"),
        row(1, text="b", who=None, origin=None, lang=None),
        row(2, reject="key is not UTF-8 at byte 0", **empty),
        row(3, reject="header from is not UTF-8 at byte 1", **empty),
        row(4, reject="not UTF-8 at byte 0", **empty),
    ]


def test_the_timestamp_of_a_message_may_be_the_records_time() -> None:
    parser = replace(JSON, fields={"text": "body"}, message_time=True)
    messages = [
        Message(0, b'{"body": "a"}', time=1_700_000_000_123),
        Message(1, b"?", time=5),
        Message(2, b"{}", time=-1),
    ]
    messages += [Message(3, b'{"body": "b"}', time=-1), Message(4, b'{"body": "c"}', time=1 << 60)]
    times = [found["_time"] for found in read(parser, *messages)]
    assert times == [1_700_000_000_123_000, 5_000, None, None, None]  # the second message is a reject


@pytest.mark.parametrize("parser", [JSON, TEXT, RAW])
def test_no_messages_are_no_records(parser: MessageParser) -> None:
    assert parser.parse(scan(b"", [], 0, 0).records) == pa.RecordBatch.from_pylist([], log_schema(parser.columns))
