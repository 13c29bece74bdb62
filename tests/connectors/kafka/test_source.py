"""The options of the Kafka source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.kafka.source_options import source

from millstream.config.load import read_config
from millstream.engines.spark.worker_setup import WorkerSetup
from millstream.errors import ConfigError
from millstream.guarantees.validation import checked_graph
from millstream.log.contracts import OpenContext
from millstream_connectors.kafka.source import KafkaSource

NOWHERE = {"bootstrap": "127.0.0.1:1"}
PLACE = OpenContext(Path("base"), Path("cache"))


# Options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, ("topic", "no topic is given: set `topic`, `topics: [...]` or `pattern`")),
        (
            {"topic": "a", "topics": ["b"]},
            ("topics", "`topic` is given too; a source has one of topic, topics and pattern"),
        ),
        ({"topics": ["a", "b", "a"]}, ("topics", "a topic is given twice")),
        (
            {"topics": ["a"], "start": {"offsets": {0: 1}}},
            ("from", "offsets need one `topic`; for several topics, start at a timestamp, earliest or latest"),
        ),
        (
            {"pattern": "a.*", "create": True},
            (
                "create",
                "a pattern names no topic to create; leave `create` out, and the source waits for topics that match",
            ),
        ),
        (
            {"topic": "a", "security": {"protocol": "SSL", "ca_file": "ca.pem"}},
            ("security", "ca_file: there is no file base/ca.pem"),
        ),
    ],
)
def test_mistakes_are_found_without_a_network(options: dict[str, Any], problem: tuple[str, str]) -> None:
    assert list(source(**options).problems(PLACE)) == [problem]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"bootstrap": "kafka"}, "a broker is HOST:PORT"),
        ({"topic": "a/b"}, "pattern"),
        ({"pattern": "a("}, "not a regular expression: missing"),
        ({"topic": "a", "start": "oldest"}, "'earliest' or 'latest'"),
        ({"topic": "a", "start": {"timestamp": "soon"}}, "should be a valid datetime"),
        ({"topic": "a", "start": {"timestamp": "1969-01-01"}}, "Kafka has no timestamps before 1970"),
        ({"topic": "a", "start": {"offsets": {0: -1}}}, "greater than or equal to 0"),
        ({"topic": "a", "start": {"offset": 4}}, "offset"),
        ({"topic": "a", "format": "text", "fields": {"text": "a"}}, "`format` is text: leave them out"),
        ({"topic": "a", "message_time": True, "fields": {"text": "a", "time": "at"}}, "leave out message_time, or"),
        ({"topic": "a", "key": "text"}, "two columns are called text"),
        ({"topic": "a", "key": "time"}, "two columns are called time"),
        ({"topic": "a", "format": "raw", "key": "who", "headers": {"who": "x"}}, "two columns are called who"),
        ({"topic": "a", "timeout": "5"}, "a duration needs a unit"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        source(**options)


CONFIGS: list[dict[str, Any]] = [
    {"topic": "a"},
    {"topics": ["a", "b"], "start": "latest", "format": "text", "key": "label", "headers": {"lang": "language"}},
    {"topic": "a", "start": {"timestamp": "2026-03-01T08:00:00+02:00"}, "message_time": True},
    {"topic": "a", "start": {"offsets": {0: 12, 1: 40}}, "format": "raw", "message_time": True},
    {"pattern": "news-.*", "fields": {"text": "body"}, "isolation": "read_uncommitted", "on_truncated": "earliest"},
    {
        "topic": "a",
        "timeout": "90s",
        "create": True,
        "partitions": 3,
        "security": {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me", "password_env": "A_PASSWORD"},
    },
]


@pytest.mark.parametrize("options", CONFIGS)
def test_other_processes_get_the_same_config(options: dict[str, Any], tmp_path: Path) -> None:
    config = source(**options)
    handed = WorkerSetup(
        epoch_log="epochs",
        first=0,
        contexts={"source": ("base", "cache", "news")},
        sources={"source": config.model_dump(mode="json")},
        worker_steps=[],
        fields=[],
        tasks=1,
    )
    handed.write(tmp_path / "worker_setup.json")
    read = WorkerSetup.read(tmp_path / "worker_setup.json")
    assert KafkaSource.model_validate(read.sources["source"]) == config
    assert read.logs()["source"].fields == config.open(PLACE).fields


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, ["text", "label", "time"]),
        ({"message_time": True}, ["text", "label", "time"]),
        ({"message_time": "no", "fields": None}, ["text", "label", "time"]),
        ({"fields": {"text": "body"}}, ["text"]),
        ({"fields": {"text": "body"}, "message_time": True}, ["text", "time"]),
        ({"format": "text"}, ["text"]),
        ({"format": "text", "key": "label", "message_time": True}, ["text", "label", "time"]),
        ({"format": "raw", "headers": {"lang": "l"}}, ["value", "lang"]),
    ],
)
def test_the_columns_are_known_without_a_connection(options: dict[str, Any], columns: list[str]) -> None:
    config = source(topic="a", **options)
    assert list(config.fields) == columns
    assert type(config).model_validate(config.model_dump(mode="json")) == config
    assert list(config.open(PLACE).fields) == [name for name in columns if name != "time"]


def test_validate_reports_mistakes_at_their_keys(tmp_path: Path) -> None:
    config = {
        "name": "news",
        "source": {"type": "kafka", **NOWHERE, "formt": "json", "from": {"offset": {0: 1}}},
        "pipeline": {"use": "text_topics"},
    }
    with pytest.raises(ConfigError) as refused:
        read_config(config, tmp_path, "news.yaml")
    assert str(refused.value).splitlines()[1:] == [
        "news.yaml source.from.offset: unknown key; did you mean `offsets`?",
        "news.yaml source.formt: unknown key; did you mean `format`?",
    ]
    config["source"] = {"type": "kafka", **NOWHERE}
    with pytest.raises(ConfigError, match=r"source.topic: no topic is given"):
        checked_graph(read_config(config, tmp_path, "news.yaml"))
