"""The result table of a study: one row a trial, keyed by the trial's description, in Parquet.

Every finished group of trials is a file of its own in the folder `parts`, which a later start does not run again. The
table `trials.parquet` is made of them at the end. The file `study.json` says which study the folder belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.errors import Contradiction
from millstream.log.journal.durability import make_folder, write_whole

__all__ = ["COLUMNS", "ResultFolder", "labels_of", "write_part"]

_FORMAT = 2
_TEXT, _NUMBER, _SHARE = pa.string(), pa.int64(), pa.float64()
_SCHEMA = pa.schema(
    [
        ("key", _TEXT),
        ("stream", _TEXT),
        ("stream_config", _TEXT),
        ("order_seed", _NUMBER),
        ("learner", _TEXT),
        ("learner_config", _TEXT),
        ("treatment", _TEXT),
        ("treatment_config", _TEXT),
        ("simulated", pa.bool_()),
        ("checkpoint_every", _NUMBER),
        ("commit_every", _NUMBER),
        ("failures", _NUMBER),
        ("span", _NUMBER),
        ("placement", _TEXT),
        ("topic", _TEXT),
        ("between_first", _SHARE),
        ("between_last", _SHARE),
        ("seed", _NUMBER),
        ("records", _NUMBER),
        ("holdout", _NUMBER),
        ("trained_before", _NUMBER),
        ("accuracy_first", _SHARE),
        ("accuracy_all", _SHARE),
        ("holdout_accuracy", _SHARE),
        ("holdout_log_loss", _SHARE),
        ("labels_changed", _SHARE),
        ("shorter_accuracy", _SHARE),
        ("recovery_accuracy", pa.list_(_SHARE)),
        ("recovery_changed", pa.list_(_SHARE)),
        ("share_bias", pa.list_(_SHARE)),
        ("predicted_share_bias", pa.list_(_SHARE)),
        ("label_shares", pa.list_(_SHARE)),
        ("predicted_shares", pa.list_(_SHARE)),
        ("deff", pa.list_(_SHARE)),
        ("closed_form_share_bias", pa.list_(_SHARE)),
        ("closed_form_flips", _SHARE),
        ("flips", _NUMBER),
        ("predicted_flips", _NUMBER),
        ("leader_changed", pa.bool_()),
        ("predicted_leader_changed", pa.bool_()),
        ("delivered", _NUMBER),
        ("repeated", _NUMBER),
        ("lost", _NUMBER),
        ("trained_twice", _NUMBER),
        ("not_trained", _NUMBER),
        ("model_seconds", _SHARE),
        ("seconds", _SHARE),
    ]
)
COLUMNS = list(_SCHEMA.names)
"""The columns of a result table: those of a trial, then its results."""
_NAMES = b"labels"


def write_part(folder: Path, rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> None:
    """Write finished trials as one file of the folder of parts, durably; its name is a digest of their keys."""
    if not rows:
        return
    schema = _SCHEMA.with_metadata({_NAMES: json.dumps(list(labels)).encode()})
    name = hashlib.blake2b(" ".join(row["key"] for row in rows).encode(), digest_size=12).hexdigest()
    _write_table(folder / f"{name}.parquet", pa.Table.from_pylist(list(rows), schema))


def _write_table(path: Path, table: pa.Table) -> None:
    made = pa.BufferOutputStream()
    pq.write_table(table, made)
    write_whole(path, made.getvalue().to_pybytes())


def _read_part(file: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a small file in a third of the time of `read_table`, which looks for a dataset of several files."""
    with pq.ParquetFile(file) as part:
        return part.read(columns, use_threads=False)


def labels_of(table: pa.Table) -> list[str]:
    """Return the labels, in the order of the lists in a result table."""
    labels: list[str] = json.loads(table.schema.metadata[_NAMES])
    return labels


class ResultFolder:
    """The folder of a study: its identity, the parts with finished trials, and the table of all trials."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts = path / "parts"
        self.collection = path / "collection.arrow"
        self.table = path / "trials.parquet"
        self.plots = path / "plots"
        self.spark_log = path / "spark.log"
        self._identity = path / "study.json"

    def check(self, name: str, data: str) -> None:
        """Raise `Contradiction` if the folder is that of another study, or holds trials over other data."""
        if self._identity.exists():
            identity = {"format": _FORMAT, "study": name, "data": data}
            found = json.loads(self._identity.read_text())
            untried = {**found, "data": data} == identity and not any(self.parts.glob("*.parquet"))
            if found != identity and not untried:
                raise Contradiction(self._refusal(found, identity))
        elif self.table.exists():
            message = f"{self.table} is there without {self._identity.name}, so its study is unknown"
            raise Contradiction(f"{message}; choose another --out, or remove the file")

    def claim(self, name: str, data: str) -> None:
        """Make the folder that of this study and data, after `check`; the caller holds the folder's lock."""
        self.check(name, data)
        make_folder(self.parts)
        write_whole(self._identity, json.dumps({"format": _FORMAT, "study": name, "data": data}))

    def remove_partial(self) -> None:
        """Remove the files that killed commands were writing; the caller holds the lock of the folder."""
        names = (self._identity.name, self.collection.name, self.table.name, "mlflow.json")
        partial = [file for name in names for file in self.path.glob(f"{name}.*tmp")]
        for file in [*partial, *self.parts.glob("*.tmp")]:
            file.unlink(missing_ok=True)

    def finished(self) -> frozenset[str]:
        """Return the keys of the trials that are finished."""
        files = self.parts.glob("*.parquet")
        return frozenset(key for file in files for key in _read_part(file, ["key"])["key"].to_pylist())

    def count(self, known: dict[str, pa.Table]) -> int:
        """Return the number of finished trials; `known` keeps the rows of the files that were read before."""
        for file in self.parts.glob("*.parquet"):
            if file.name not in known:
                known[file.name] = _read_part(file)
        return sum(rows.num_rows for rows in known.values())

    def merge(self, keys: Iterable[str], known: dict[str, pa.Table] | None = None) -> pa.Table:
        """Write and return the table of these trials, in this order; `known` as in `count`."""
        parts = {} if known is None else known
        self.count(parts)
        found = pa.concat_tables([parts[name] for name in sorted(parts)]).combine_chunks()
        places = {key: place for place, key in enumerate(found["key"].to_pylist())}
        table = found.take(pa.array([places[key] for key in keys], pa.int64())).combine_chunks()
        _write_table(self.table, table)
        return table

    def read_table(self) -> pa.Table:
        return _read_part(self.table)

    def _refusal(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
        if found.get("study") != wanted["study"]:
            reason = f"holds the trials of the study {found.get('study')!r}, not of {wanted['study']!r}"
        elif found.get("format") != wanted["format"]:
            reason = "holds a result table of another version of Millstream"
        else:
            reason = f"holds trials of {wanted['study']!r} over other data"
        return f"{self.path} {reason}; choose another --out, or remove the folder"
