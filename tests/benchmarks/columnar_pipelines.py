"""Pipelines with compiled models beside their limits: a loop by hand, Spark's own reading, parsing alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.children import ask
from benchmarks.columnar_loop import columnar_loop, parsed
from benchmarks.figures import AtLeast, Figure, Measurement, Setting, Unmeasured, interleaved, ratio, spread
from benchmarks.pipeline import kept_spark, run_pipeline
from benchmarks.spark_rows import read_rows, stream_rows
from benchmarks.text_learners import DIMENSIONS
from benchmarks.texts import Texts

from millstream.engines.local.engine import LocalEngine

__all__ = ["MEASUREMENTS", "run_local"]

_RECORDS = 200_000
_EPOCH = 10_000
_MORE_RECORDS = 600_000
_SPARK_EPOCH = 50_000
_WARM = 2_000


def _pipeline(model: str) -> dict[str, Any]:
    return {
        "use": "text_topics",
        "features": {"type": "hashed_text", "dimensions": DIMENSIONS},
        "model": {"type": model},
    }


def run_local(model: str, file: str, work: str, records: int, epoch: int) -> dict[str, Any]:
    """A run on the local engine, in this process; its rate from the first epoch on."""
    ran = run_pipeline(LocalEngine(), "local", Path(file), Path(work), records, epoch, _pipeline(model))
    return {"per_second": ran.rate.per_second, "correct": ran.correct}


def run_local_whole(model: str, file: str, work: str, records: int, epoch: int) -> dict[str, Any]:
    """The same, all that comes before the first epoch included, once the process has its imports and its kernel."""
    pipeline, warm = _pipeline(model), Path(work) / "warm"
    warm.mkdir(exist_ok=True)
    run_pipeline(LocalEngine(), "local", Path(file), warm, 2 * _WARM, _WARM, pipeline)
    ran = run_pipeline(LocalEngine(), "local", Path(file), Path(work), records, epoch, pipeline)
    return {"per_second": ran.whole.per_second, "correct": ran.correct}


def parse(file: str) -> dict[str, Any]:
    """Gunzip and parse a file of JSON lines into Arrow, and nothing else."""
    began = time.perf_counter()
    records = parsed(Path(file)).num_rows
    return {"per_second": records / (time.perf_counter() - began)}


def _sizes(setting: Setting, records: int, epoch: int) -> tuple[Texts, int, int]:
    """The texts, and how many records in epochs of how many."""
    if setting.quick:
        records, epoch = 4_000, 1_000
    return setting.corpus.texts.first(records), records, epoch


def _local_vs_loop(setting: Setting, model: str) -> Iterator[Figure]:
    texts, records, epoch = _sizes(setting, _RECORDS, _EPOCH)
    work = setting.folder / f"{model}-pipeline"
    work.mkdir()
    file = str(texts.write_parquet(work / "texts.parquet"))
    right: dict[str, int] = {}

    def rate(name: str, take: Callable[..., Any], **arguments: Any) -> float:
        answer = ask(take, model=model, file=file, work=str(work), **arguments)
        right[name] = answer["correct"]
        return float(answer["per_second"])

    loop = partial(rate, "loop", columnar_loop, batch=epoch, topics=texts.topics)
    local = partial(rate, "local", run_local, records=records, epoch=epoch)
    taken = interleaved(setting, {"loop": loop, "local": local})
    if len(set(right.values())) > 1:
        raise Unmeasured(f"they predicted different things: of {records:,} right are {right}")
    yield ratio(f"local_{model}_vs_columnar_loop", taken, "local", "loop", AtLeast(0.6))
    rates = taken["local"]
    yield Figure(f"local_{model}", statistics.median(rates), "records/s", AtLeast(150_000), spread(rates, ",.0f"))


def _local_vs_parsing(setting: Setting) -> Iterator[Figure]:
    texts, records, epoch = _sizes(setting, _MORE_RECORDS, _EPOCH)
    work = setting.folder / "packed"
    work.mkdir()
    file = str(texts.write_packed_lines(work / "texts.jsonl.gz"))
    arguments: dict[str, Any] = {"model": "naive_bayes", "file": file, "work": str(work)}

    def local() -> float:
        ran = ask(run_local_whole, one_core=False, records=records, epoch=epoch, **arguments)
        return float(ran["per_second"])

    def loop() -> float:
        return float(ask(columnar_loop, batch=epoch, topics=texts.topics, **arguments)["whole"])

    def parsing() -> float:
        return float(ask(parse, file=file)["per_second"])

    taken = interleaved(setting, {"local": local, "loop": loop, "parsing": parsing})
    yield ratio("local_vs_parsing_gz", taken, "local", "parsing", AtLeast(0.7))
    yield ratio("loop_vs_parsing_gz", taken, "loop", "parsing", None)


def _spark_vs_rows(setting: Setting) -> Iterator[Figure]:
    epoch = _SPARK_EPOCH
    records = 3 * epoch if setting.quick else _MORE_RECORDS  # a micro-batch takes 50,000 at once, if they are there
    texts = setting.corpus.texts.first(records)
    work = setting.folder / "spark-texts"
    work.mkdir()
    file = texts.write_parquet(work / "texts.parquet")
    parts = texts.write_parts(work / "parts", epoch)
    with kept_spark() as spark:

        def run() -> float:
            return run_pipeline(spark, "spark", file, work, records, epoch, _pipeline("naive_bayes")).rate.per_second

        setting.say("warming up Spark")
        contenders: dict[str, Callable[[], float]] = {
            "spark": run,
            "toArrow": lambda: read_rows(parts).per_second,
            "foreachBatch": lambda: stream_rows(parts, work / "checkpoint").per_second,
        }
        for warm in contenders.values():
            warm()
        taken = interleaved(setting, contenders)
    yield ratio("spark_vs_to_arrow_50k", taken, "spark", "toArrow", AtLeast(0.6))
    yield ratio("spark_vs_foreach_batch_rows_50k", taken, "spark", "foreachBatch", None)


MEASUREMENTS = (
    *(
        Measurement(
            f"local_{model}_vs_columnar_loop",
            (f"local_{model}_vs_columnar_loop", f"local_{model}"),
            f"{_RECORDS:,} texts from Parquet to Parquet on one core with {model} and popularity by the hour: the "
            f"local engine (exactly_once, defaults but {_EPOCH:,}-row epochs) from the first epoch through to the "
            "last, over a loop by hand with the same kernel that counts by hour with np.bincount and makes nothing "
            "durable; their predictions agree",
            partial(_local_vs_loop, model=model),
            any_texts=True,
        )
        for model in ("naive_bayes", "softmax")
    ),
    Measurement(
        "local_vs_parsing_gz",
        ("local_vs_parsing_gz", "loop_vs_parsing_gz"),
        f"{_MORE_RECORDS:,} texts from gzipped JSON Lines to Parquet, naive_bayes and popularity: the local engine as "
        "it starts, from the start of the run, unpacking included, to the last epoch, over gunzip and pyarrow's JSON "
        "parser alone on one core; and the loop by hand on one core over the same, which tells what there is to reach",
        _local_vs_parsing,
        any_texts=True,
    ),
    Measurement(
        "spark_vs_to_arrow_50k",
        ("spark_vs_to_arrow_50k", "spark_vs_foreach_batch_rows_50k"),
        f"{_MORE_RECORDS:,} texts from Parquet to Parquet on Spark with naive_bayes and popularity (exactly_once, "
        f"defaults but {_SPARK_EPOCH:,}-row epochs), from the first epoch through to the last, over what Spark needs "
        "to bring text, label and time of as many rows to the driver and no more: toArrow file by file, or in a "
        "foreachBatch (a file a trigger); in one session, both cores",
        _spark_vs_rows,
        any_texts=True,
    ),
)
