"""JSON lines: each line gives the same record in every block."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from millstream.log.formats.json_lines import parse_block, parse_lines
from millstream.records import log_schema

FIELDS = {"text": "text", "label": "label", "time": "at"}


def read(line: bytes, fields: dict[str, str] | None = None) -> dict[str, Any]:
    records = parse_block(line, fields or FIELDS, 5)
    records.validate(full=True)
    assert records.schema == log_schema(list(fields or FIELDS))
    (row,) = records.to_pylist()
    assert row.pop("_offset") == 5
    return dict(row)


def record(text: str | None = "t", label: str | None = None, time: int | None = None) -> dict[str, Any]:
    return {"_time": time, "_reject": None, "text": text, "label": label}


def rejected(reason: str, time: int | None = None) -> dict[str, Any]:
    return {"_time": time, "_reject": reason, "text": None, "label": None}


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'{"text": "t", "label": "l", "at": "2022-02-08T16:08:31Z"}', record("t", "l", 1_644_336_511_000_000)),
        (b'{"text": "t"}', record()),
        (b'{"text": "t", "label": null, "at": null}', record()),
        (b'{"text": "", "other": {"text": "inner"}}', record("")),
        (b'{"text": "t", "label": 3}', record(label="3")),
        (b'{"text": "t", "label": -0}', record(label="-0")),
        (b'{"text": "t", "label": 1.50e2}', record(label="150.0")),
        (b'{"text": "t", "label": 1E22}', record(label="1e+22")),
        (b'{"text": "t", "label": 1e400}', rejected("label is a number beyond 64 bits; write it as text")),
        (b'{"text": "t", "label": "1e2"}', record(label="1e2")),
        (b'{"text": "t", "label": 123456789012345678901}', record(label="123456789012345678901")),
        (b'{"text": "t", "label": true}', record(label="true")),
        (b'{"text": 12}', record("12")),
        (b'{"text": "t", "at": 1644336511.25}', record(time=1_644_336_511_250_000)),
        (b'{"text": "t", "at": -1}', record(time=-1_000_000)),
        (b'{"text": "first", "text": "last"}', record("last")),
        (b'{"te\\u0078t": "\\ud83d\\ude00\\u0000"}', record("\N{GRINNING FACE}\0")),
        (b'\xef\xbb\xbf {"text": "t"} \r', record()),
        ('{"text": "naïve"}'.encode(), record("naïve")),
        (b'{"text": "t", "other": "\\ud800"}', record()),
        (b'{"text": "' + b"x" * 5_000_000 + b'"}', record("x" * 5_000_000)),
        (b"", rejected("empty line")),
        (b" \t", rejected("empty line")),
        (b"{}", rejected("no text")),
        (b'{"text": null, "label": "l"}', rejected("no text")),
        (b'{"text": null, "label": "l", "at": 5}', rejected("no text", 5_000_000)),
        (b'{"text": "t"', rejected("not JSON: Expecting ',' delimiter at character 12")),
        (b'{"text": "t"}{"text": "u"}', rejected("not JSON: Extra data at character 13")),
        (b'{"text": "t"} null', rejected("not JSON: Extra data at character 14")),
        (b"null", rejected("not a JSON object but null")),
        (b"[1]", rejected("not a JSON object but a list")),
        (b"7", rejected("not a JSON object but a number")),
        (b'"text"', rejected("not a JSON object but a string")),
        (b"true", rejected("not a JSON object but true or false")),
        (b'{"text": {"a": 1}}', rejected("text is not text but an object")),
        (b'{"text": "t", "label": ["a"]}', rejected("label is not text but a list")),
        (b'{"text": "a\xffb"}', rejected("not UTF-8 at byte 11")),
        (b'{"text": "t", "other": "\xff"}', rejected("not UTF-8 at byte 24")),
        (b'{"text": "\\ud800"}', rejected("text holds half a surrogate pair")),
        (b'{"text": "t", "other": NaN}', rejected("NaN is not a JSON number")),
        (b'{"text": "t", "at": -Infinity}', rejected("-Infinity is not a JSON number")),
        (b'{"text": "t", "other": Inf}', rejected("not JSON: Expecting value at character 23")),
        (b'{"text": "t", "at": "soon"}', rejected("at is not an ISO 8601 time: soon")),
        (b'{"text": "t", "at": 1644336511000}', rejected("at is beyond the years 1 to 9999: 1.644336511e+12")),
        (b'{"text": "t", "at": true}', rejected("at is no time but true or false")),
        (b'{"text": "t\x01"}', rejected("not JSON: Invalid control character at at character 11")),
        (b'{"text": "t", "x": ' + b"[" * 501 + b"]" * 501 + b"}", rejected("nested more than 500 deep")),
        (b'{"text": "t", "x": ' + b"[" * 499 + b"]" * 499 + b"}", record()),
        (b'{"text": "t", "x": "' + b"[" * 5000 + b'"}', record()),
        (b'{"text": "t"}\0', rejected("not JSON: Extra data at character 13")),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_line_gives_a_record_or_the_reason_why_it_cannot_be_read(line: bytes, row: dict[str, Any]) -> None:
    assert read(line + b"\n") == row
    assert not line or read(line) == row
    assert parse_lines([line, b'{"text":\n"u"}'], FIELDS, 5).to_pylist()[0] == {"_offset": 5, **row}


def test_only_a_missing_text_is_an_error_and_only_when_text_is_wanted() -> None:
    assert read(b'{"x": "v"}', {"title": "x", "label": "y"})["_reject"] is None
    assert read(b"{}", {"title": "x"}) == {"_time": None, "_reject": None, "title": None}


def test_two_fields_of_the_config_may_have_the_same_name_in_the_lines() -> None:
    row = read(b'{"x": 7}', {"text": "x", "label": "x", "time": "x"})
    assert row == {"_time": 7_000_000, "_reject": None, "text": "7", "label": "7"}


def test_a_reason_shows_only_the_beginning_of_a_value() -> None:
    reject = read(b'{"text": "t", "at": "' + b"y" * 500 + b'"}')["_reject"]
    assert reject is not None
    assert len(reject) < 80


def test_an_empty_block_has_no_records() -> None:
    assert parse_block(b"", FIELDS, 0).num_rows == 0
    assert parse_lines([], FIELDS, 0).num_rows == 0


def test_a_newline_within_a_line_of_a_list_is_whitespace() -> None:
    lines = [b'{"text":\n"a"}', b'{"text": "b"}', b'{"text": "c"}\n']
    assert parse_lines(lines, FIELDS, 0)["text"].to_pylist() == ["a", "b", "c"]


def test_lines_with_two_objects_or_half_an_object_are_rejected() -> None:
    shared = b'{"text": "a"}{"text": "b"}\n{"text":\n"c"}\n'
    assert parse_block(shared, FIELDS, 0)["text"].to_pylist() == [None, None, None]


def any_line(chance: random.Random) -> bytes:
    """A random line, most often a good one."""
    text = chance.choice(["plain", "Infinity, and NaN, too", "-0, {x}[y]", "naïve 😀", "", "2022-01-01", 'tab\t"q"'])
    time: Any = chance.choice(
        [
            "2022-02-08T16:08:31Z",
            "2022-02-08T16:08:31.123456+02:00",
            "2022-02-08",
            None,
            "x",
            1644336511,
            1644336511.5,
            1e300,
            -7,
        ]
    )
    label: Any = chance.choice(["news", "news", None, 3, 0, -5, True, False, 1.5, [1], {}])
    whole = json.dumps({"text": text, "label": label, "at": time, "x": [{}]}, ensure_ascii=chance.random() < 0.5)
    return chance.choice(
        [
            *[whole.encode()] * 12,
            whole.replace(" ", "").encode(),
            whole.encode() + b"\r",
            whole.encode() + whole.encode(),
            whole.encode() + b" null " + whole.encode(),
            whole.encode()[: chance.randrange(len(whole))],
            whole.encode()[chance.randrange(len(whole)) :],
            whole.replace(
                "[{}]", chance.choice(["NaN", "Inf", "-Infinity", "-0", "1e400", "01", "tru", "[[]]"])
            ).encode(),
            whole.replace("text", "label").encode(),
            whole.replace('"x"', '"x\\ud800"').encode(),
            whole.replace('"text": "', '"text": "\\udc00').encode(),
            whole.encode().replace(b"plain", b"pla\xffin").replace(b"x", b"\xc3"),
            b"",
            b"  ",
            b"null",
            b"{}",
            b"\0" + whole.encode(),
            b"\xef\xbb\xbf" + whole.encode(),
        ]
    )


@pytest.mark.parametrize("seed", range(30))
def test_a_line_gives_the_same_record_in_every_block(seed: int) -> None:
    chance = random.Random(seed)
    kinds = [any_line(chance) for _ in range(chance.choice([1, 2, 8, 60]))]
    lines = [chance.choice(kinds) for _ in range(chance.choice([50, 1500]))]
    alone = {line: parse_block(line + b"\n", FIELDS, 0) for line in kinds}
    expected = pa.Table.from_batches([alone[line] for line in lines])
    expected = expected.set_column(0, "_offset", pa.array(range(len(lines))))
    one_by_one = parse_lines([*lines, b"{\n}"], FIELDS, 0).slice(0, len(lines))
    assert pa.Table.from_batches([one_by_one]).equals(expected)
    for _ in range(4):
        cuts = sorted(chance.sample(range(len(lines)), min(len(lines), chance.choice([0, 1, 20]))))
        blocks = [
            parse_block(b"".join(line + b"\n" for line in lines[start:stop]), FIELDS, start)
            for start, stop in zip([0, *cuts], [*cuts, len(lines)], strict=True)
        ]
        assert pa.Table.from_batches(blocks).equals(expected)


def test_plain_lines_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("millstream.log.formats.json_lines._parse_line_by_line", refuse)
    for label in ('"news"', "3", "true", "null"):
        for time in ('"2022-02-08"', "1644336511", "1.5", "null"):
            line = f'{{"text": "Information, [x]", "label": {label}, "at": {time}, "more": [{{"a": null}}]}}\n'.encode()
            assert parse_block(line * 3000, FIELDS, 0).num_rows == 3000
