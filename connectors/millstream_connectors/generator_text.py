"""The documents of the generator: each depends only on the options and on its offset, on every machine.

The random numbers of an offset have a fixed position in the stream of a counter-based generator (Philox), so any range
is made without the records before it. Only the raw bits are used, with whole numbers and plain arithmetic: nothing here
may depend on how a library rounds a logarithm or draws from a distribution.

A document is a sequence of words. A word belongs to the document's topic (few words are frequent, most are rare), to
another topic, to the common words, or to the noise. From time to time each word of a topic is replaced by a new one;
different words are replaced at different times.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrays import Array
from millstream.records import log_schema

__all__ = ["RISING", "TOPICS", "Documents"]

_TOPIC_NAMES = """
    space sport music travel food health money film weather school garden books science history fashion energy
    traffic crime farming housing chess sailing cycling football tennis theatre painting dance radio television games
    phones computers robots cars trains ships planes banks shops jobs taxes elections courts police army schools
    churches museums zoos birds fish forests rivers mountains oceans volcanoes islands cities villages bridges tunnels
    wine bread
"""
TOPICS = tuple(_TOPIC_NAMES.split())
"""The names that topics have, in this order."""

RISING = TOPICS[0]
"""The topic whose share rises and falls back."""

_LOW, _HIGH = 0.05, 0.25  # shares of the rising topic
_FLANK = 0.2  # the time to rise, and the time to fall, as a part of the period
_FREQUENT = (10, 9, 8)  # the first other topics, as weights: each clearly over 10 % all the time
_RARE = 0.06  # the most that each of the rest may have: clearly under 10 %
_ALL_RARE = 0.2  # and all of them together

_SHORTEST, _LONGEST = 8, 20  # words
_OWN, _OTHER, _PLAIN = 74, 26, 112  # of 256 words; what is left is noise
_WORDS = 256  # of a topic at a time
_LIVES = 16  # words that a slot of a topic's vocabulary has, one after the other, before the first returns
_NOISE = 4096  # words of noise
_DRIFT_OVER = 10_000  # records

_COUNTERS = 3  # of Philox for a document: each is 256 bits
_HEAD = 4  # numbers of 32 bits; then one for each word
_SECOND = 1_000_000
_JITTER = 3 * _SECOND
_MOST = 2048  # documents made at once: few enough that all intermediate arrays stay in the processor's cache

_COMMON = """
    the of and to in for that is on with as was at by it from be are this an have not has but or they his her he she
    who which will more one about said there their been when all were up out so what can into over time some than two
    first new year only after just no now
"""
_COMMON_WORDS = _COMMON.split()


@dataclass(frozen=True)
class Documents:
    """All documents of a generator. `period` is the number of records over which the rising topic rises and falls.

    >>> documents = Documents(seed=1, topics=8, partitions=1, unlabelled=0.0, drift=0.1, start=0, period=50_000)
    >>> documents.make(0, 0, 2)["label"].to_pylist()
    ['music', 'travel']
    """

    seed: int
    topics: int
    partitions: int
    unlabelled: float
    drift: float
    start: int
    period: int

    def make(self, partition: int, start: int, stop: int) -> pa.RecordBatch:
        """The records of a partition at [start, stop)."""
        bits = self._bits(partition, start, stop)
        offsets = np.arange(start, stop, dtype=np.int64)
        topic = self._topics(bits[:, 0], bits[:, 1], offsets)
        lengths = _SHORTEST + _below(bits[:, 1] & 0xFFFF, 16, _LONGEST + 1 - _SHORTEST)
        unlabelled = bits[:, 2] < self.unlabelled * 2.0**32
        time = self.start + offsets * _SECOND + _below(bits[:, 3], 32, _JITTER)
        columns = [
            pa.array(offsets),
            pa.array(time),
            pa.nulls(stop - start, pa.string()),
            self._texts(bits[:, _HEAD:], topic, lengths, offsets),
            pa.array(TOPICS, pa.string()).take(pa.array(topic, mask=unlabelled)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=log_schema(["text", "label"]))

    def ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        """[start, stop) in ranges for one call of `make` each."""
        return [(first, min(first + _MOST, stop)) for first in range(start, stop, _MOST)]

    def _bits(self, partition: int, start: int, stop: int) -> Array:
        """A row of random numbers of 32 bits for each offset."""
        stream = np.random.Philox(key=self.seed | partition << 64, counter=start * _COUNTERS)
        raw = stream.random_raw((stop - start) * _COUNTERS * 4)
        return raw.astype("<u8", copy=False).view("<u4").reshape(stop - start, -1).astype(np.int64)

    def _topics(self, rises: Array, other: Array, offsets: Array) -> Array:
        """The number of each document's topic."""
        if self.topics == 1:
            return np.zeros(len(offsets), np.int64)
        phase = (offsets * self.partitions % self.period) / self.period
        near = np.maximum(0.0, 1.0 - np.abs(phase - 0.5) / _FLANK)
        share = _LOW + (_HIGH - _LOW) * (near * near * (3.0 - 2.0 * near))
        chosen: Array = np.where(rises < share * 2.0**32, 0, 1 + _table(_weights(self.topics - 1))[other >> 16])
        return chosen

    def _texts(self, bits: Array, topic: Array, lengths: Array, offsets: Array) -> pa.Array:
        drawn = bits[np.arange(bits.shape[1]) < lengths[:, None]]
        kind, other, index = drawn & 0xFF, (drawn >> 8) & 0xFF, drawn >> 16
        source = np.where(
            (kind >= _OWN) & (kind < _OWN + _OTHER), _below(other, 8, self.topics), np.repeat(topic, lengths)
        )
        slot = source * _WORDS + _table(_zipf(_WORDS))[index]
        age = np.repeat((offsets * self.partitions) * self.drift / _DRIFT_OVER, lengths)
        life = (age + _phases(self.topics)[slot]).astype(np.int64) % _LIVES
        words = slot * _LIVES + life
        topic_words = self.topics * _WORDS * _LIVES
        common = topic_words + _table(_zipf(len(_COMMON_WORDS)))[index]
        noise = topic_words + len(_COMMON_WORDS) + index % _NOISE
        words = np.where(kind < _OWN + _OTHER, words, np.where(kind < _OWN + _OTHER + _PLAIN, common, noise))
        edges = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=edges[1:])
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(edges), _vocabulary(self.topics).take(words)), " ")


def _below(numbers: Array, bits: int, limit: int) -> Array:
    """Numbers of `bits` bits, scaled evenly to 0 to limit - 1."""
    spread: Array = (numbers * limit) >> bits
    return spread


def _weights(others: int) -> tuple[int, ...]:
    """Weights of the other topics: no share is near 10 %, so that only the rising topic crosses 10 %."""
    frequent, rare = _FREQUENT[:others], max(0, others - len(_FREQUENT))
    if not rare:
        return frequent
    all_rare = min(_ALL_RARE, _RARE * rare)
    each_rare = all_rare / rare / (1.0 - _LOW - all_rare) * sum(frequent)
    return (*(weight * 10**6 for weight in frequent), *[int(each_rare * 10**6)] * rare)


@functools.cache
def _zipf(count: int) -> tuple[int, ...]:
    """Weights that fall with the rank, as the frequencies of words do."""
    return tuple(10**9 // (rank + 4) for rank in range(count))


@functools.cache
def _table(weights: tuple[int, ...]) -> Array:
    """An index of `weights` for each number of 16 bits; each index is as frequent as its weight."""
    edges = np.cumsum(np.array(weights, np.int64))
    return np.searchsorted(edges, np.arange(1 << 16) * int(edges[-1]) >> 16, side="right")


@functools.cache
def _phases(topics: int) -> Array:
    """The age of each word of each topic at the start of the log, as a part of its life in [0, 1)."""
    phases: Array = (np.arange(topics * _WORDS, dtype=np.int64) * 0x9E3779B1 % 2**32) / 2**32
    return phases


@functools.cache
def _vocabulary(topics: int) -> pa.Array:
    """All words: those of the topics, for each slot all its lives, then the common words, then the noise."""
    made = np.arange(topics * _WORDS * _LIVES + _NOISE, dtype=np.int64) * 0x9E3B1 % 2**20  # one to one, for it is odd
    syllables = pa.array([consonant + vowel for consonant in "bcdfghjklmnprstv" for vowel in "aeio"])
    endings = pa.array(["", "n", "r", "s"])
    parts = [syllables.take(made >> shift & 63) for shift in (14, 8, 2)]
    words = pc.binary_join_element_wise(*parts, endings.take(made & 3), "")
    return pa.concat_arrays([words[:-_NOISE], pa.array(_COMMON_WORDS), words[-_NOISE:]])
