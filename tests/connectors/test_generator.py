"""The generator: always the same documents, which a model can learn, with one topic that rises and falls back."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from millstream.digests import digest_of
from millstream.log.contracts import OpenContext
from millstream.records import log_schema
from millstream.steps.classify import Classify
from millstream_connectors.generator import GeneratorLog, GeneratorSource
from millstream_connectors.generator_text import RISING, TOPICS
from millstream_models.hashed_text import HashedText
from millstream_models.naive_bayes import ComplementNB

START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
NOWHERE = OpenContext(Path("nowhere"), Path("nowhere"))


def rows(config: GeneratorSource, partition: str = "0", start: int = 0, stop: int | None = None) -> pa.Table:
    log = config.open(NOWHERE)
    return pa.Table.from_batches(log.read(partition, start, log.end(partition) if stop is None else stop))


def digest(options: dict[str, Any], partition: str, start: int, stop: int) -> str:
    return str(digest_of(rows(GeneratorSource(**options), partition, start, stop)))


def shares(labels: Sequence[str], topic: str, windows: int) -> list[float]:
    return [float(np.mean(part == topic)) for part in np.array_split(np.array(labels), windows)]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


GOLDEN = [
    ({}, "0", 0, 3000, "3000-4b8886ce1be907e7d7f3e59784aaf159"),
    (
        {"seed": 7, "records": None, "topics": 64, "partitions": 3, "unlabelled": 0.2},
        "2",
        10**9,
        10**9 + 3000,
        "3000-f30291c129dce14e505e4aaf15070d14",
    ),
]


@pytest.mark.parametrize(("options", "partition", "start", "stop", "golden"), GOLDEN)
def test_the_documents_of_a_config_never_change(
    options: dict[str, Any], partition: str, start: int, stop: int, golden: str
) -> None:
    assert digest(options, partition, start, stop) == golden


def test_another_process_makes_the_same_documents() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(digest, ({"seed": 3}, "0", 0, 500)) == digest({"seed": 3}, "0", 0, 500)


def test_a_range_is_the_same_if_it_is_read_in_pieces() -> None:
    config = GeneratorSource(records=6000, partitions=2, unlabelled=0.1)
    whole = rows(config, "1")
    edges = [0, 1, 2, 700, 2047, 2048, 2049, 3000]
    log = config.open(NOWHERE)
    parts = [pa.Table.from_batches(log.read("1", start, stop)) for start, stop in pairwise(edges)]
    assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())
    assert list(log.read("1", 5, 5)) == []


def test_the_records_have_the_columns_that_fields_names() -> None:
    config = GeneratorSource(records=10)
    made = rows(config)
    assert made.schema == log_schema(["text", "label"]) == log_schema(list(config.fields))
    assert config.open(NOWHERE).fields == ["text", "label"]
    assert made["_offset"].to_pylist() == list(range(10))
    assert made["_reject"].null_count == 10 and made["label"].null_count == 0
    assert list(config.problems(NOWHERE)) == []


def test_documents_have_8_to_20_words() -> None:
    lengths = {len(text.split(" ")) for text in rows(GeneratorSource(records=5000))["text"].to_pylist()}
    assert lengths == set(range(8, 21))


@pytest.mark.parametrize("topics", [1, 2, 5, 64])
def test_labels_are_the_first_topic_names(topics: int) -> None:
    labels = rows(GeneratorSource(records=20_000, topics=topics))["label"].to_pylist()
    assert set(labels) == set(TOPICS[:topics])


def test_topic_names_are_distinct_and_enough() -> None:
    assert len(set(TOPICS)) == len(TOPICS) == 64


def test_the_share_without_a_label_is_that_of_the_option() -> None:
    made = rows(GeneratorSource(records=20_000, unlabelled=0.3))
    assert made["label"].null_count / made.num_rows == pytest.approx(0.3, abs=0.015)
    assert made["text"].null_count == 0
    assert rows(GeneratorSource(records=100, unlabelled=1))["label"].null_count == 100


@pytest.mark.parametrize("partition", ["0", "2"])
def test_a_second_passes_from_record_to_record_with_a_little_disorder(partition: str) -> None:
    times = rows(GeneratorSource(records=3000, partitions=3), partition)["_time"].to_numpy()
    ahead = times - START - np.arange(len(times)) * 1_000_000
    assert ahead.min() >= 0 and ahead.max() < 3_000_000
    assert 0.1 < float(np.mean(np.diff(times) < 0)) < 0.4


@pytest.mark.parametrize("start", ["2026-03-01T08:00:00Z", "2026-03-01T09:00:00+01:00", "2026-03-01 08:00:00"])
def test_time_begins_at_start(start: str) -> None:
    config = GeneratorSource.model_validate({"records": 1, "start": start})
    [time] = rows(config)["_time"].to_pylist()
    assert 0 <= time - int(datetime(2026, 3, 1, 8, tzinfo=UTC).timestamp()) * 1_000_000 < 3_000_000


@pytest.mark.parametrize("topics", [2, 4, 5, 6, 7, 8, 20])
def test_only_the_rising_topic_crosses_a_tenth_once_up_and_once_down(topics: int) -> None:
    labels = rows(GeneratorSource(topics=topics))["label"].to_pylist()
    for topic in TOPICS[:topics]:
        popular = [share >= 0.1 for share in shares(labels, topic, 25)]
        changes = sum(one != other for one, other in pairwise(popular))
        assert (topic, changes) == (topic, 2 if topic == RISING else 0)


def test_the_rising_topic_is_at_5_percent_at_the_ends_and_at_25_in_the_middle() -> None:
    over = shares(rows(GeneratorSource())["label"].to_pylist(), RISING, 11)
    assert over[0] == pytest.approx(0.05, abs=0.01) and over[-1] == pytest.approx(0.05, abs=0.01)
    assert over[5] == pytest.approx(0.25, abs=0.02)


def test_in_an_endless_stream_it_rises_every_50_000_records() -> None:
    config = GeneratorSource(records=None, partitions=5)
    for start in (0, 10_000, 1_230_000):
        over = shares(rows(config, "3", start, start + 10_000)["label"].to_pylist(), RISING, 5)
        assert max(over) == over[2] > 0.2 and over[0] < 0.08 and over[4] < 0.08


def test_partitions_of_any_number_rise_together() -> None:
    config = GeneratorSource(records=50_000, partitions=5)
    for partition in config.open(NOWHERE).partitions():
        over = shares(rows(config, partition.name)["label"].to_pylist(), RISING, 5)
        assert max(over) == over[2] > 0.17


def frequent(documents: pa.Table) -> set[str]:
    words: dict[str, int] = {}
    for text in documents["text"].to_pylist():
        for word in set(text.split(" ")):
            words[word] = words.get(word, 0) + 1
    return {word for word in words if len(word) > 5 and words[word] >= 0.003 * documents.num_rows}


def test_words_are_replaced_at_the_rate_of_the_option_drift() -> None:
    def kept_share(drift: float) -> float:
        config = GeneratorSource(records=None, topics=2, drift=drift)
        before, after = (frequent(rows(config, "0", at, at + 4000)) for at in (0, 10_000))
        assert len(before) > 50
        return len(before & after) / len(before)

    assert kept_share(0) > 0.85
    assert 0.4 < kept_share(0.4) < 0.75
    assert kept_share(2) < 0.1


def test_naive_bayes_learns_it_well_but_not_perfectly() -> None:
    records = rows(GeneratorSource()).append_column("_rank", pa.array(np.zeros(50_000, np.int64)))
    features = HashedText().build(records.schema)
    step = Classify(model=ComplementNB()).build(features.process(records.slice(0, 0)).records.schema)
    correct = [step.process(features.process(records.slice(at, 5000)).records).correct for at in range(0, 50_000, 5000)]
    assert 0.88 <= sum(correct) / 50_000 <= 0.95


def test_records_are_distributed_evenly_to_the_partitions() -> None:
    log = GeneratorSource(records=11, partitions=4).open(NOWHERE)
    assert [partition.number for partition in log.partitions()] == [0, 1, 2, 3]
    assert [log.end(partition.name) for partition in log.partitions()] == [3, 3, 3, 2]
    assert all(log.beginning(p.name) == 0 and log.ended(p.name) for p in log.partitions())


def test_partitions_and_seeds_differ_in_their_documents() -> None:
    texts = [
        rows(GeneratorSource(seed=seed, partitions=2), name, 0, 5)["text"].to_pylist()
        for seed in (1, 2)
        for name in ("0", "1")
    ]
    assert len({str(text) for text in texts}) == 4


def test_without_records_it_never_ends() -> None:
    config = GeneratorSource(records=None)
    log = config.open(NOWHERE)
    assert not config.bounded and not log.ended("0")
    last = rows(config, "0", log.end("0") - 10, log.end("0"))
    assert last["_time"].null_count == 0 and last.num_rows == 10


def test_records_arrive_at_the_rate_of_the_option(tmp_path: Path) -> None:
    clock = Clock()
    config = GeneratorSource(records=100, partitions=2, rate=10)
    log = GeneratorLog(config, tmp_path / "cache", clock)
    assert not config.bounded
    assert [log.end("0"), log.end("1")] == [0, 0]
    clock.now += 2.55
    assert [log.end("0"), log.end("1")] == [13, 12]
    assert not log.ended("0")
    clock.now += 1000
    assert [log.end("0"), log.end("1")] == [50, 50]
    assert log.ended("0") and log.ended("1")


def test_records_arrive_also_while_nothing_reads_them(tmp_path: Path) -> None:
    clock = Clock()
    config = GeneratorSource(records=None, rate=10)
    first = GeneratorLog(config, tmp_path, clock)
    assert first.end("0") == 0
    first.close()
    clock.now += 60
    assert GeneratorLog(config, tmp_path, clock).end("0") == 600


def test_a_run_that_begins_later_finds_the_records_before_its_first_one(tmp_path: Path) -> None:
    clock = Clock()
    config = GeneratorSource(records=200, partitions=2, rate=10)
    log = GeneratorLog(config, tmp_path, clock)
    assert [log.resume("0", 30), log.resume("1", 30)] == [30, 30]
    assert [log.end("0"), log.end("1")] == [30, 30]
    clock.now += 2.05
    assert [log.end("0"), log.end("1")] == [40, 40]
    again = GeneratorLog(config, tmp_path, clock)
    assert [again.resume("0", 35), again.end("0")] == [35, 40]
    assert [again.resume("0", 101), again.end("0")] == [101, 40], "the log has no such record"


def test_a_clock_that_is_set_back_removes_no_record(tmp_path: Path) -> None:
    clock = Clock()
    log = GeneratorLog(GeneratorSource(rate=10), tmp_path, clock)
    log.end("0")
    clock.now += 5
    assert log.end("0") == 50
    clock.now -= 100
    assert log.end("0") == 50


def test_reading_needs_no_file(tmp_path: Path) -> None:
    log = GeneratorSource(rate=10).open(OpenContext(tmp_path, tmp_path))
    list(log.read("0", 0, 10))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 2},
        {"records": 60_000},
        {"topics": 9},
        {"partitions": 2},
        {"start": datetime(2025, 1, 1, tzinfo=UTC)},
        {"unlabelled": 0.1},
        {"drift": 0.2},
    ],
)
def test_a_log_of_other_documents_has_another_identity(other: dict[str, Any]) -> None:
    def identity(config: GeneratorSource) -> str:
        return config.open(NOWHERE).identity("0", 100)

    assert identity(GeneratorSource()) != identity(GeneratorSource.model_validate(other))
    assert identity(GeneratorSource()) == identity(GeneratorSource(rate=5))


def test_each_partition_has_its_own_identity() -> None:
    log = GeneratorSource(partitions=2).open(NOWHERE)
    assert log.identity("0", 100) != log.identity("1", 100)
    assert log.identity("0", 100) == log.identity("0", 200)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"topics": 65}, "less than or equal to 64"),
        ({"records": 0}, "greater than or equal to 1"),
        ({"unlabelled": 1.5}, "less than or equal to 1"),
        ({"rate": 0}, "greater than 0"),
        ({"start": "9500-01-01T00:00:00Z"}, "not in the years 1000 to 8999"),
        ({"speed": 3}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_option_is_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        GeneratorSource.model_validate(wrong)
