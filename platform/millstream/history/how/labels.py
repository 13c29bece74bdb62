"""The labels of a history, numbered by their first appearance, so that tasks can learn parts apart from each other."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.history.folder import HistoryFolder
from millstream.history.how.block_records import block_columns
from millstream.history.how.missing_parts import run_missing
from millstream.history.how.task_costs import measured
from millstream.history.setup import Opened
from millstream.history.spark_tasks import opened_setup
from millstream.history.training_job import Training
from millstream.log.journal.durability import make_folder, write_whole
from millstream.records import OFFSET, PATH, RANK

__all__ = ["Labels", "number_labels", "read_labels"]

STAGE = 0


@dataclass(frozen=True)
class Labels:
    """The labels by number, the place in the stream where each appears first, and the records of each block."""

    names: Sequence[str]
    firsts: Sequence[int]
    blocks: Sequence[int]
    labelled: int

    @property
    def records(self) -> int:
        return sum(self.blocks)

    def before(self, place: int) -> Sequence[str]:
        """The labels of the records before this place.

        >>> Labels(["film", "sport"], [0, 7], [10], 9).before(7)
        ['film']
        """
        return [name for name, first in zip(self.names, self.firsts, strict=True) if first < place]


def number_labels(training: Training) -> Labels:
    """Find the labels of all blocks, a task each, and number them."""
    folder, blocks = training.work, training.plan.blocks
    make_folder(_file(folder, 0).parent)
    sizes = {number: block.size for number, block in enumerate(blocks)}
    function = functools.partial(_find_labels, training.setup.text())
    run_missing(training, "labels", "blocks", sizes, function, functools.partial(_file, folder))
    firsts: dict[str, int] = {}
    found = [json.loads(_file(folder, number).read_bytes()) for number in sizes]
    records = 0
    for each in found:
        for name, row in each["firsts"]:
            firsts.setdefault(name, records + row)
        records += each["records"]
    labels = Labels([*firsts], [*firsts.values()], [e["records"] for e in found], sum(e["labelled"] for e in found))
    write_whole(_all(folder), json.dumps(asdict(labels), ensure_ascii=False))
    return labels


def read_labels(folder: HistoryFolder) -> Labels:
    """The labels that `number_labels` has stored."""
    return Labels(**json.loads(_all(folder).read_bytes()))


def _find_labels(setup: str, partition: Iterable[list[str]]) -> None:
    """Store the labels of blocks and the row of each one's first appearance, in a process of Spark."""
    for blocks in partition:
        with opened_setup(setup) as opened:
            for number in map(int, blocks):
                with measured(opened.folder, STAGE, number):
                    _find(opened, number)


def _find(opened: Opened, number: int) -> None:
    label = opened.way.model.config.label
    position = [name for name in opened.way.records.names if name in (RANK, OFFSET, PATH)]
    column = block_columns(opened, number, [*position, label])[label].cast(pa.string()).combine_chunks()
    coded = column.dictionary_encode()
    codes = coded.indices.drop_null().to_numpy()
    rows = np.flatnonzero(coded.is_valid().to_numpy(zero_copy_only=False))
    found, first = np.unique(codes, return_index=True)
    firsts = [[coded.dictionary[code].as_py(), int(rows[at])] for code, at in zip(found.tolist(), first, strict=True)]
    facts = {"firsts": firsts, "records": len(column), "labelled": len(codes)}
    write_whole(_file(opened.folder, number), json.dumps(facts, ensure_ascii=False))


def _file(folder: HistoryFolder, block: int) -> Path:
    return folder.learned / "labels" / f"{block:06d}.json"


def _all(folder: HistoryFolder) -> Path:
    return folder.learned / "labels" / "all.json"
