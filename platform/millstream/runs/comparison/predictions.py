"""The predictions of two runs, by the identity of their records: which differ, and the shares of the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.arrays import Array
from millstream.digests import row_hashes
from millstream.runs.outputs import RunOutput

__all__ = ["Example", "PredictionsCompared", "compare_predictions"]

_EXAMPLES = 5
_LABEL, _PREDICTED = "label", "predicted"


@dataclass(frozen=True)
class Example:
    """A record with different predictions; `position` has the columns that identify its row."""

    position: Mapping[str, object]
    label: str | None
    predicted: tuple[str | None, str | None]


@dataclass(frozen=True)
class PredictionsCompared:
    """One output of both runs. A record counts once, with its first row. `labels` has the predictions of each label.

    `accuracies` and `labels` are of the `common` records, those that both outputs have.
    """

    rows: tuple[int, int]
    common: int
    different: int
    accuracies: tuple[float | None, float | None]
    labels: Mapping[str, tuple[int, int]]
    examples: Sequence[Example]

    @property
    def share(self) -> float | None:
        """The share of the common records that are predicted differently."""
        return self.different / self.common if self.common else None


@dataclass(frozen=True)
class _Rows:
    """The first row of each record: its identity's hash, its number, and the codes of its label and its prediction."""

    identities: Array
    numbers: Array
    labels: Array
    predicted: Array


def compare_predictions(first: RunOutput, second: RunOutput) -> PredictionsCompared:
    """Compare two outputs with the column `predicted`; both are read, the first one twice."""
    codes: dict[str | None, int] = {None: -1}
    ours, theirs = (_read(output, codes) for output in (first, second))
    _, left, right = np.intersect1d(ours.identities, theirs.identities, assume_unique=True, return_indices=True)
    one, other = ours.predicted[left], theirs.predicted[right]
    changed = np.flatnonzero(one != other)
    labels = ours.labels[left]
    names = {code: name for name, code in codes.items() if name is not None}
    return PredictionsCompared(
        rows=(len(ours.identities), len(theirs.identities)),
        common=len(left),
        different=len(changed),
        accuracies=(_accuracy(labels, one), _accuracy(labels, other)),
        labels={
            names[code]: (int((one == code).sum()), int((other == code).sum()))
            for code in sorted({*np.unique(one).tolist(), *np.unique(other).tolist()} - {-1})
        },
        examples=_examples(first, ours.numbers[left][changed], other[changed], names),
    )


def _read(output: RunOutput, codes: dict[str | None, int]) -> _Rows:
    hashes, labels, predicted = ([np.zeros(0, kind)] for kind in (np.uint64, np.int64, np.int64))
    for rows in output.read():
        hashes.append(row_hashes(rows, output.identity))
        labels.append(_coded(rows, _LABEL, codes))
        predicted.append(_coded(rows, _PREDICTED, codes))
    identities, numbers = np.unique(np.concatenate(hashes), return_index=True)
    return _Rows(identities, numbers, np.concatenate(labels)[numbers], np.concatenate(predicted)[numbers])


def _coded(rows: pa.Table, column: str, codes: dict[str | None, int]) -> Array:
    """The code of each text; -1 for a missing one."""
    if column not in rows.column_names:
        return np.full(rows.num_rows, -1, np.int64)
    coded = pa.chunked_array(rows[column].cast(pa.string())).combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.unify_dictionaries().combine_chunks()
    known = np.array([*(codes.setdefault(name, len(codes)) for name in coded.dictionary.to_pylist()), -1], np.int64)
    indices = coded.indices.fill_null(len(known) - 1).to_numpy()
    found: Array = known[indices]
    return found


def _accuracy(labels: Array, predicted: Array) -> float | None:
    labelled = labels >= 0
    return float((labels[labelled] == predicted[labelled]).mean()) if labelled.any() else None


def _examples(output: RunOutput, numbers: Array, others: Array, names: Mapping[int, str]) -> list[Example]:
    """The first records, in the order of the rows, of those with these numbers of rows."""
    order = np.argsort(numbers)[:_EXAMPLES]
    wanted = dict(zip(numbers[order].tolist(), others[order].tolist(), strict=True))
    found, passed = [], 0
    for rows in output.read() if wanted else ():
        for number in [each for each in wanted if passed <= each < passed + rows.num_rows]:
            row = rows.slice(number - passed, 1).to_pylist()[0]
            position = {name: row[name] for name in output.identity}
            predicted = (row[_PREDICTED], names.get(wanted[number]))
            found.append(Example(position, row.get(_LABEL), predicted))
        passed += rows.num_rows
    return found
