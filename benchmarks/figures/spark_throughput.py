"""Spark compared with plain PySpark, and the cost of exactly-once on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.contenders.spark_streams import run_plain, run_tuned
from benchmarks.contenders.without_guarantee import WithoutGuarantee
from benchmarks.kit.child import child_rate
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least
from benchmarks.kit.pipeline import kept_spark, run_pipeline, run_spark
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, ratio
from millstream.engines.job import Engine

__all__ = ["MEASUREMENTS"]

_EPOCH = 5_000


def _plain(
    name: str,
    setting: Setting,
    epoch: int,
    files: int,
    records: int,
    guarantee: bool,
    peer: Callable[..., Rate],
    **options: bool,
) -> Iterator[Value]:
    """`files` of `epoch` rows keep the peer busy for 10 seconds, `records` keep Millstream busy for as long."""
    files, records = (6, 120_000) if setting.quick else (files, records)
    parts, file = str(setting.documents.parts(epoch, files)), str(setting.documents.file)

    def run(function: Callable[..., Rate], **arguments: Any) -> Rate:
        return child_rate(function, one_core=False, work=str(setting.fresh("contender")), **arguments)

    ours = partial(run, run_spark, documents=file, records=records, epoch=epoch, guarantee=guarantee)
    contenders = {"millstream": ours, "plain": partial(run, peer, documents=parts, **options)}
    yield ratio(name, interleaved(setting, contenders, agree=records == files * epoch), "millstream", "plain")


def _exactly_once(setting: Setting) -> Iterator[Value]:
    records = 16 * _EPOCH if setting.quick else setting.documents.records
    with kept_spark() as spark:

        def run(engine: Engine, records: int = records) -> Rate:
            return run_pipeline(engine, setting.documents.file, setting.folder, records, _EPOCH, type="spark").rate

        setting.say("warming up Spark")
        run(spark, 16 * _EPOCH)
        contenders = {"exactly_once": partial(run, spark), "without": partial(run, WithoutGuarantee(spark))}
        taken = interleaved(setting, contenders)
    yield ratio("exactly_once_cost", taken, "exactly_once", "without")


def _measurement(name: str, goal: float, about: str, **arguments: Any) -> Measurement:
    return Measurement((Figure(name, "x", at_least(goal)),), about, partial(_plain, name, **arguments))


_TUNED = {"epoch": 10_000, "files": 80, "records": 800_000, "peer": run_tuned}

MEASUREMENTS = (
    _measurement(
        "spark_vs_plain_1k",
        1.5,
        "Millstream on Spark (exactly_once, defaults) with 1,000-record epochs, divided by a plain foreachBatch with "
        "Spark's default settings and files of 1,000 rows: toPandas, the same hashing, model and mini-batches, a "
        "Parquet file of predictions for each micro-batch, checkpoint on. Each has a process of its own; "
        "rows per second "
        "after the first micro-batch.",
        epoch=1_000,
        files=60,
        records=600_000,
        guarantee=True,
        peer=run_plain,
    ),
    _measurement(
        "spark_vs_plain_tuned_10k",
        0.95,
        "As spark_vs_plain_1k with 10,000 rows; the peer has our session's settings, Arrow, and syncs predictions, "
        "model and manifest after every micro-batch.",
        **_TUNED,
        guarantee=True,
        durable=True,
    ),
    _measurement(
        "spark_vs_plain_tuned_10k_no_durability",
        0.95,
        "As spark_vs_plain_tuned_10k; neither side syncs, and Millstream writes no receipts and checkpoints.",
        **_TUNED,
        guarantee=False,
        durable=False,
    ),
    Measurement(
        (Figure("exactly_once_cost", "x", at_least(0.95)),),
        f"Records per second on Spark with {_EPOCH:,}-record epochs, exactly_once with defaults, divided by the same "
        "run without receipts, digests, checkpoints, commits, guards and syncs.",
        _exactly_once,
    ),
)
