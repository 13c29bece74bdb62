"""The generator: a source of synthetic documents with topics that drift and one that flares up, for tests and demos.

A document is a function of the seed, the partition and the offset, so any range can be read at any time. Its words
come from its topic's vocabulary (frequent ones far more often), from words common to all topics, and now and then from
another topic. Words of a topic are replaced over time, each at its own moment.
"""

from __future__ import annotations

import functools
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from millstream.config.durations import Duration
from millstream.log.contracts import Partition, Place
from millstream.records import log_schema

__all__ = ["GeneratorLog", "GeneratorSource"]

Array = np.ndarray[Any, Any]

_BLOCK = 1000
_KEPT = 8  # blocks
_TOPICS = "world politics business technology science sports culture health travel food weather law cars music film art"
_COMMON = 400
_OF_TOPIC = 600
_SHARE_OF_COMMON, _SHARE_OF_TOPIC = 0.60, 0.27  # the rest are words of any topic
_REPLACED_EVERY = 200_000  # records, at a drift of 1
_CYCLE = 50_000
_LOW, _HIGH = 0.05, 0.25
_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
_START = datetime(2024, 1, 1, tzinfo=UTC)


class GeneratorSource(BaseModel):
    """Synthetic documents: `text`, `label` (the topic) and `time`, the same for the same seed.

    The last topic's share rises from 5 % to 25 % and falls back, once every `cycle` records.

    >>> from pathlib import Path
    >>> log = GeneratorSource(records=1000, topics=3).open(Place(Path(), Path()))
    >>> log.end("0")
    1000
    >>> one, = log.read("0", 500, 501)
    >>> one["label"].to_pylist(), one.equals(next(log.read("0", 480, 520)).slice(20, 1))
    (['business'], True)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["generator"] = "generator"
    seed: int = Field(default=1, ge=0, description="Other seeds give other documents.")
    records: int | None = Field(default=50_000, ge=0, description="How many there are in all; `null` for no end.")
    topics: int = Field(default=8, ge=2, le=100, description="How many topics there are.")
    partitions: int = Field(default=1, ge=1, le=1000, description="How many partitions the documents are dealt to.")
    rate: float | None = Field(
        default=None, gt=0, description="How many appear in a second, from the first start on; by default all at once."
    )
    start: AwareDatetime = Field(default=_START, description="The time of the first document.")
    every: Duration = Field(default=1_000_000, gt=0, description="The time between two documents.")
    drift: float = Field(default=1.0, ge=0, description="How fast topics change their words; 0 for never.")
    cycle: int | None = Field(
        default=None, ge=100, description="In how many records the last topic rises and falls; by default `records`."
    )
    unlabelled: float = Field(default=0.0, ge=0, le=1, description="The share of documents without a label.")

    def open(self, place: Place) -> GeneratorLog:
        return GeneratorLog(self, place)

    @property
    def fields(self) -> Sequence[str]:
        return ("text", "label", "time")

    @property
    def bounded(self) -> bool:
        return self.records is not None

    def problems(self, place: Place) -> Sequence[tuple[str, str]]:
        return []


class GeneratorLog:
    """The generated documents as a log."""

    def __init__(self, config: GeneratorSource, place: Place, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._began = self._first_start(place) if config.rate is not None else 0.0
        self._blocks: OrderedDict[tuple[int, int], pa.RecordBatch] = OrderedDict()
        self._labels = [*_TOPICS.split(), *(f"topic{number}" for number in range(16, 100))][: config.topics]
        self._cycle = config.cycle or max(config.records or _CYCLE, 100)
        self._common, self._of_topic = _zipf(_COMMON), _zipf(_OF_TOPIC)

    def _first_start(self, place: Place) -> float:
        """When this source was first opened: a stream goes on while nobody reads it."""
        known = place.cache / "began.json"
        if known.exists():
            return float(json.loads(known.read_text()))
        now = self._clock()
        place.cache.mkdir(parents=True, exist_ok=True)
        partial = known.with_suffix(".tmp")
        partial.write_text(json.dumps(now))
        partial.rename(known)
        return now

    @property
    def fields(self) -> Sequence[str]:
        return ("text", "label")

    def partitions(self) -> Sequence[Partition]:
        return [Partition(str(number), number) for number in range(self._config.partitions)]

    def beginning(self, partition: str) -> int:
        return 0

    def end(self, partition: str) -> int:
        there = self._config.records
        if self._config.rate is not None:
            appeared = int(max(0.0, self._clock() - self._began) * self._config.rate)
            there = appeared if there is None else min(there, appeared)
        return self._share(partition, 2**62 if there is None else there)

    def _share(self, partition: str, records: int) -> int:
        return (records - int(partition) + self._config.partitions - 1) // self._config.partitions

    def ended(self, partition: str) -> bool:
        records = self._config.records
        return records is not None and self.end(partition) >= self._share(partition, records)

    def identity(self, partition: str, upto: int) -> str:
        """What the documents are made from."""
        made_from = self._config.model_dump(mode="json", exclude={"records", "rate", "type"})
        return json.dumps({**made_from, "cycle": self._cycle})

    def read(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for block in range(start // _BLOCK, -(-stop // _BLOCK)):
            first = block * _BLOCK
            whole = self._block(int(partition), block)
            yield whole.slice(max(start - first, 0), min(stop - first, _BLOCK) - max(start - first, 0))

    def close(self) -> None:
        self._blocks.clear()

    # Documents

    def _block(self, partition: int, block: int) -> pa.RecordBatch:
        key = (partition, block)
        if key not in self._blocks:
            self._blocks[key] = self._made(partition, block)
            if len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        return self._blocks[key]

    def _made(self, partition: int, block: int) -> pa.RecordBatch:
        chance = np.random.Generator(
            np.random.Philox(np.random.SeedSequence(self._config.seed, spawn_key=(partition, block)))
        )
        offsets = np.arange(block * _BLOCK, (block + 1) * _BLOCK, dtype=np.int64)
        places = offsets * self._config.partitions + partition  # in the stream as a whole
        topics = self._topics(places, chance)
        labels = pa.array(self._labels).take(pa.array(topics))
        if self._config.unlabelled:
            labels = pc.if_else(pa.array(chance.random(_BLOCK) >= self._config.unlabelled), labels, None)
        schema = log_schema(self.fields)
        columns = [
            pa.array(offsets),
            pa.array(self._times(places, chance)),
            pa.nulls(_BLOCK, pa.string()),
            self._texts(places, topics, chance),
            labels,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _topics(self, places: Array, chance: np.random.Generator) -> Array:
        """The topic of each document: the last one as the cycle says, the others evenly."""
        through = places % self._cycle / self._cycle
        flare = _LOW + (_HIGH - _LOW) * np.exp(-(((through - 0.5) / 0.12) ** 2))
        last = chance.random(len(places)) < flare
        others = (chance.random(len(places)) * (self._config.topics - 1)).astype(np.int64)
        return np.where(last, self._config.topics - 1, others)

    def _times(self, places: Array, chance: np.random.Generator) -> Array:
        """One document after the other, most of them a little late, one in a hundred by up to two minutes."""
        late = -np.log1p(-chance.random(len(places))) * 2 * self._config.every
        very = chance.random(len(places)) < 0.01
        late = np.where(very, chance.random(len(places)) * 120 * self._config.every, late).astype(np.int64)
        start = (self._config.start - datetime(1970, 1, 1, tzinfo=UTC)) // datetime.resolution
        times: Array = start + places * self._config.every - late
        return times

    def _texts(self, places: Array, topics: Array, chance: np.random.Generator) -> pa.Array:
        lengths = 8 + (chance.random(len(places)) * 13).astype(np.int64)
        edges = np.concatenate(([0], np.cumsum(lengths)))
        total = int(edges[-1])
        kind = chance.random(total)
        topic = np.repeat(topics, lengths)
        foreign = kind >= _SHARE_OF_COMMON + _SHARE_OF_TOPIC
        topic = np.where(foreign, (chance.random(total) * self._config.topics).astype(np.int64), topic)
        draw = chance.random(total)
        slot = np.searchsorted(self._of_topic, draw)
        age = np.zeros(total, dtype=np.int64)
        if self._config.drift:
            life = max(1, int(_REPLACED_EVERY / self._config.drift))
            age = (np.repeat(places, lengths) + slot * 7919 % life) // life
        of_topic = _COMMON + (age * self._config.topics + topic) * _OF_TOPIC + slot
        numbers = np.where(kind < _SHARE_OF_COMMON, np.searchsorted(self._common, draw), of_topic)
        distinct, back = np.unique(numbers, return_inverse=True)
        words = pa.array([_word(number) for number in distinct.tolist()], pa.string()).take(pa.array(back))
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(edges.astype(np.int32)), words), " ")


def _zipf(count: int) -> Array:
    """The running sum of Zipf's shares of so many words."""
    shares = 1 / np.arange(1, count + 1)
    running: Array = np.cumsum(shares) / shares.sum()
    running[-1] = 1.0
    return running


@functools.lru_cache(maxsize=1 << 17)
def _word(number: int) -> str:
    """A word of its own for every number."""
    scrambled = number * 104_729 % len(_SYLLABLES) ** 3 + number // len(_SYLLABLES) ** 3 * len(_SYLLABLES) ** 3
    word = ""
    while scrambled or len(word) < 4:
        scrambled, syllable = divmod(scrambled, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word
