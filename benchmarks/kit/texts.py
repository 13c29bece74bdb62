"""Labelled texts for the text models: generated ones, or those of a file of the user."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from benchmarks.kit.documents import generated
from millstream.log.formats.rows import json_lines

__all__ = ["Corpus", "Texts"]

_WORD = re.compile(r"\b\w\w+\b")
_SEED = 1
_START = 1_600_000_000
_TIMES = pa.timestamp("us", "UTC")
_ROW_GROUP = 100_000


@dataclass(frozen=True)
class Texts:
    """Texts and their labels, in an order.

    >>> texts = Texts(pa.table({"text": ["A late goal", "a train"], "label": ["sport", "travel"]}))
    >>> texts.first(3).table["label"].to_pylist()
    ['sport', 'travel', 'sport']
    >>> list(texts.in_vw_format())
    ['1 | late goal\\n', '2 | train\\n']
    """

    table: pa.Table

    @property
    def labels(self) -> list[str]:
        """The different labels, sorted."""
        return sorted(self.table["label"].unique().to_pylist())

    def first(self, count: int) -> Texts:
        """So many texts; fewer are repeated from the beginning."""
        table = pa.concat_tables([self.table] * -(-count // self.table.num_rows))
        return Texts(table.slice(0, count).combine_chunks())

    def at_most(self, count: int) -> Texts:
        """The first texts without any repetition."""
        return Texts(self.table.slice(0, count).combine_chunks())

    def shuffled(self) -> Texts:
        """Another order, always the same one."""
        order = np.random.default_rng(_SEED).permutation(self.table.num_rows)
        return Texts(self.table.take(pa.array(order)).combine_chunks())

    def write_parquet(self, path: Path) -> Path:
        """A Parquet file of texts, labels and times."""
        pq.write_table(self._timed(), path, row_group_size=_ROW_GROUP)
        return path

    def write_parts(self, folder: Path, rows: int) -> Path:
        """A folder of Parquet files with so many rows each, their names in order."""
        folder.mkdir(parents=True)
        table = self._timed()
        for start in range(0, table.num_rows, rows):
            pq.write_table(table.slice(start, rows), folder / f"{start // rows:06d}.parquet")
        return folder

    def write_packed_lines(self, path: Path) -> Path:
        """A file of gzipped JSON Lines."""
        with gzip.open(path, "wb", compresslevel=6) as file:
            for batch in self._timed().to_batches(10_000):
                file.write(json_lines(pa.Table.from_batches([batch])))
        return path

    def in_vw_format(self) -> Iterator[str]:
        """Vowpal Wabbit's lines: the label's number from 1 by first appearance, and the words, in lower case."""
        numbers: dict[str, int] = {}
        texts, labels = self.table["text"].to_pylist(), self.table["label"].to_pylist()
        for text, label in zip(texts, labels, strict=True):
            words = " ".join(_WORD.findall(text.lower()))
            yield f"{numbers.setdefault(label, len(numbers) + 1)} | {words}\n"

    def _timed(self) -> pa.Table:
        """The table with a column `time`: one record a second."""
        seconds = pa.array(np.arange(_START, _START + self.table.num_rows) * 1_000_000).cast(_TIMES)
        return self.table.append_column("time", seconds)


class Corpus:
    """The source of the texts: `path`, or as many generated texts as asked for."""

    def __init__(self, path: Path | None, without: Sequence[str], generated: int) -> None:
        self._path = path
        self._without = without
        self._generated = generated

    @property
    def name(self) -> str:
        return self._path.name if self._path is not None else "generated"

    @cached_property
    def texts(self) -> Texts:
        """All texts in their order, except those that lack a text or a label or have an unwanted label."""
        table = pa.Table.from_batches(generated(self._generated)) if self._path is None else _read(self._path)
        table = table.select(["text", "label"])
        there = pc.and_(table["text"].is_valid(), table["label"].is_valid())
        wanted = pc.invert(pc.is_in(table["label"], pa.array(self._without, pa.string())))
        return Texts(table.filter(pc.and_(there, wanted)).combine_chunks())


def _read(path: Path) -> pa.Table:
    """The columns `text` and `label` of a file: Parquet, or JSON Lines, gzipped or not."""
    if path.suffix == ".parquet":
        table = pq.read_table(path, columns=["text", "label"])
    else:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            table = pyarrow.json.read_json(file).select(["text", "label"])
    return pa.table({name: table[name].cast(pa.string()) for name in ("text", "label")})
