"""Millstream beside what else would be taken for the same job: Bytewax with River, PySpark with scikit-learn."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.children import ask, ask_script
from benchmarks.columnar_pipelines import run_local
from benchmarks.environments import environment
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, interleaved, ratio
from benchmarks.foreach_batch import classify
from benchmarks.text_learners import alpha_of

__all__ = ["MEASUREMENTS"]

_RECORDS = 200_000
_EPOCH = 10_000
_PEERS_ROWS = 50_000
"""In a micro-batch of the peer: smaller ones are slower, and predict better, as their model is less behind."""
_SCRIPT = Path(__file__).parent / "peers" / "bytewax_river.py"


def _bytewax(setting: Setting) -> Iterator[Figure]:
    python = environment("bytewax", setting.say)
    work, file, epoch = _written(setting, "bytewax")
    some = setting.corpus.texts.first(_count(setting) // 4).write_parquet(work / "some-texts.parquet")
    alpha = alpha_of("naive_bayes")
    peer = partial(ask_script, python, _SCRIPT, file=str(some), work=str(work / "peer"), alpha=alpha)
    yield _beside(setting, work, file, epoch, "bytewax", peer)


def _foreach_batch(setting: Setting) -> Iterator[Figure]:
    work, file, epoch = _written(setting, "foreach-batch")
    rows = epoch if setting.quick else _PEERS_ROWS
    parts = str(setting.corpus.texts.first(_count(setting)).write_parts(work / "parts", rows))
    arguments: dict[str, Any] = {"topics": setting.corpus.texts.labels, "alpha": alpha_of("naive_bayes")}
    peer = partial(ask, classify, parts=parts, work=str(work / "peer"), **arguments)
    yield _beside(setting, work, file, epoch, "foreach_batch", peer)


def _count(setting: Setting) -> int:
    return 8_000 if setting.quick else _RECORDS


def _written(setting: Setting, name: str) -> tuple[Path, Path, int]:
    work = setting.folder / name
    work.mkdir()
    file = setting.corpus.texts.first(_count(setting)).write_parquet(work / "texts.parquet")
    return work, file, 2_000 if setting.quick else _EPOCH


def _beside(setting: Setting, work: Path, file: Path, epoch: int, name: str, peer: Callable[..., Any]) -> Figure:
    """Both with the whole machine, each in a process of its own."""
    (work / "ours").mkdir()

    def theirs() -> float:
        shutil.rmtree(work / "peer", ignore_errors=True)
        (work / "peer").mkdir()
        return float(peer(one_core=False)["per_second"])

    arguments: dict[str, Any] = {"model": "naive_bayes", "file": str(file), "work": str(work / "ours"), "epoch": epoch}
    local = partial(ask, run_local, one_core=False, records=_count(setting), **arguments)
    taken = interleaved(setting, {"millstream": lambda: float(local()["per_second"]), name: theirs})
    return ratio(f"local_vs_{name}", taken, "millstream", name, AtLeast(5))


_JOB = (
    f"{_RECORDS:,} texts from Parquet, classified and learned, topics counted by the hour, predictions written: the "
    f"local engine with naive_bayes (exactly_once, {_EPOCH:,}-row epochs), rows a second from the first epoch to the "
    "last, over "
)

MEASUREMENTS = (
    Measurement(
        "local_vs_bytewax",
        ("local_vs_bytewax",),
        _JOB
        + "Bytewax 0.21 with River's BagOfWords and MultinomialNB, over a quarter of them: rows in batches of 1,000 "
        "into one stateful step, its own windows, its own file sink, no recovery",
        _bytewax,
        any_texts=True,
        peers=True,
    ),
    Measurement(
        "local_vs_foreach_batch",
        ("local_vs_foreach_batch",),
        _JOB
        + f"PySpark's foreachBatch with scikit-learn's HashingVectorizer (2^18) and MultinomialNB, one predict_proba "
        f"and partial_fit for each {_PEERS_ROWS:,} rows, our session's settings, toArrow, a Parquet file a "
        "micro-batch, checkpoint on, the model not saved",
        _foreach_batch,
        any_texts=True,
        peers=True,
    ),
)
