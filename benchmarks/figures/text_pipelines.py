"""Whole pipelines with compiled models, compared with their limits and with other tools for the same job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.contenders import spark_streams
from benchmarks.contenders.columnar_loop import columnar_loop, parsing
from benchmarks.contenders.text_learners import alpha_of
from benchmarks.kit.child import child_rate, script_rate
from benchmarks.kit.environments import environment
from benchmarks.kit.measurement import Figure, Measurement, Setting, Value, at_least
from benchmarks.kit.pipeline import kept_spark, run_local, run_pipeline, with_model
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, ratio
from benchmarks.kit.texts import Texts

__all__ = ["MEASUREMENTS"]

_RECORDS, _MORE, _QUICK = 200_000, 600_000, 8_000
_EPOCH = 10_000
_SPARK_EPOCH = 50_000
_PEER_ROWS = 50_000
"""Rows in a micro-batch of the peer. Smaller ones are slower and predict better, because the model is less behind."""


class _Job:
    """Texts in a folder, and the local engine over them."""

    def __init__(self, setting: Setting, records: int) -> None:
        self.folder = setting.folder
        self.texts: Texts = setting.texts(records, _QUICK)
        self.epoch = _QUICK // 4 if setting.quick else _EPOCH
        self._setting = setting

    def parquet(self) -> str:
        return str(self.texts.write_parquet(self.folder / "texts.parquet"))

    def local(self, model: str, file: str, *, one_core: bool, whole: bool = False) -> Callable[[], Rate]:
        arguments = {"model": model, "file": file, "work": str(self._setting.fresh("local")), "whole": whole}
        records = self.texts.table.num_rows
        return partial(child_rate, run_local, one_core=one_core, records=records, epoch=self.epoch, **arguments)

    def loop(self, model: str, file: str, *, whole: bool = False) -> Callable[[], Rate]:
        loop = partial(child_rate, columnar_loop, model=model, file=file, work=str(self.folder), whole=whole)
        return partial(loop, batch=self.epoch, topics=len(self.texts.labels))

    def compare(self, name: str, peer: Callable[..., Rate]) -> Value:
        """The ratio of the local engine and a peer, both with the whole machine; the peer gets a work folder."""

        def theirs() -> Rate:
            return peer(one_core=False, work=str(self._setting.fresh("peer")))

        ours = self.local("naive_bayes", self.parquet(), one_core=False)
        return ratio(name, interleaved(self._setting, {"millstream": ours, "peer": theirs}), "millstream", "peer")


def _columnar_loop(setting: Setting, model: str) -> Iterator[Value]:
    job = _Job(setting, _RECORDS)
    file = job.parquet()
    contenders = {"loop": job.loop(model, file), "local": job.local(model, file, one_core=True)}
    taken = interleaved(setting, contenders, agree=True)
    yield ratio(f"local_{model}_vs_columnar_loop", taken, "local", "loop")
    yield median(f"local_{model}", taken["local"], ",.0f")


def _parsing(setting: Setting) -> Iterator[Value]:
    job = _Job(setting, _MORE)
    file = str(job.texts.write_packed_lines(job.folder / "texts.jsonl.gz"))
    contenders: dict[str, Callable[[], Rate]] = {
        "local": job.local("naive_bayes", file, one_core=False, whole=True),
        "loop": job.loop("naive_bayes", file, whole=True),
        "parsing": partial(child_rate, parsing, file=file),
    }
    taken = interleaved(setting, contenders)
    for name in ("local", "loop"):
        yield ratio(f"{name}_vs_parsing_gz", taken, name, "parsing")


def _bytewax(setting: Setting) -> Iterator[Value]:
    job = _Job(setting, _RECORDS)
    some = job.texts.first(job.texts.table.num_rows // 4).write_parquet(job.folder / "some.parquet")
    script = Path(__file__).parents[1] / "contenders" / "bytewax_river.py"
    python, alpha = environment("bytewax", setting.say), alpha_of("naive_bayes")
    yield job.compare("local_vs_bytewax", partial(script_rate, python, script, file=str(some), alpha=alpha))


def _foreach_batch(setting: Setting) -> Iterator[Value]:
    job = _Job(setting, _RECORDS)
    parts = str(job.texts.write_parts(job.folder / "parts", job.epoch if setting.quick else _PEER_ROWS))
    topics, alpha = setting.corpus.texts.labels, alpha_of("naive_bayes")
    peer = partial(child_rate, spark_streams.classify, parts=parts, topics=topics, alpha=alpha)
    yield job.compare("local_vs_foreach_batch", peer)


def _to_arrow(setting: Setting) -> Iterator[Value]:
    texts = setting.texts(_MORE, 3 * _SPARK_EPOCH)  # a micro-batch takes 50,000 records at once
    file = texts.write_parquet(setting.folder / "texts.parquet")
    parts = texts.write_parts(setting.folder / "parts", _SPARK_EPOCH)
    records, pipeline = texts.table.num_rows, with_model("naive_bayes")
    with kept_spark() as spark:

        def run() -> Rate:
            return run_pipeline(spark, file, setting.folder, records, _SPARK_EPOCH, pipeline, type="spark").rate

        setting.say("warming up Spark")
        contenders: dict[str, Callable[[], Rate]] = {
            "spark": run,
            "toArrow": partial(spark_streams.read_to_arrow, parts),
        }
        for contender in contenders.values():
            contender()
        taken = interleaved(setting, contenders)
    yield ratio("spark_vs_to_arrow_50k", taken, "spark", "toArrow")


_PEER_JOB = (
    f"{_RECORDS:,} texts from Parquet, classified and learned, topics counted by the hour, predictions written: "
    f"records per second of the local engine with naive_bayes (exactly_once, {_EPOCH:,}-record epochs) after its first "
    "epoch, divided by those of "
)

MEASUREMENTS = (
    *(
        Measurement(
            (
                Figure(f"local_{model}_vs_columnar_loop", "x", at_least(0.6)),
                Figure(f"local_{model}", "records/s", at_least(150_000)),
            ),
            f"{_RECORDS:,} texts from Parquet to Parquet on one core with {model} and popularity by the hour: the "
            f"local engine (exactly_once, defaults, {_EPOCH:,}-record epochs) after its first epoch, divided by a "
            "hand-written loop with the same compiled model, np.bincount for the hours and nothing durable. Their "
            "predictions agree.",
            partial(_columnar_loop, model=model),
            any_texts=True,
        )
        for model in ("naive_bayes", "softmax")
    ),
    Measurement(
        (Figure("local_vs_parsing_gz", "x", at_least(0.7)), Figure("loop_vs_parsing_gz", "x")),
        f"{_MORE:,} texts from gzipped JSON Lines to Parquet, naive_bayes and popularity: the local engine from the "
        "start of the run on both cores, divided by gunzip and pyarrow's JSON parser alone on one core. loop_* is the "
        "hand-written loop on one core: the limit of one core.",
        _parsing,
        any_texts=True,
    ),
    Measurement(
        (Figure("local_vs_bytewax", "x", at_least(5)),),
        _PEER_JOB + "Bytewax 0.21 with River's BagOfWords and MultinomialNB, over a quarter of the texts: batches of "
        "1,000 rows into one stateful step, its own windows, its own file sink, no recovery.",
        _bytewax,
        any_texts=True,
        peers=True,
    ),
    Measurement(
        (Figure("local_vs_foreach_batch", "x", at_least(5)),),
        _PEER_JOB + "PySpark's foreachBatch with scikit-learn's HashingVectorizer (2^18) and MultinomialNB: one "
        f"predict_proba and one partial_fit for each {_PEER_ROWS:,} rows, our session's settings, toArrow, a Parquet "
        "file for each micro-batch, checkpoint on, the model not saved.",
        _foreach_batch,
        any_texts=True,
        peers=True,
    ),
    Measurement(
        (Figure("spark_vs_to_arrow_50k", "x", at_least(0.6)),),
        f"{_MORE:,} texts from Parquet to Parquet on Spark with naive_bayes and popularity (exactly_once, defaults, "
        f"{_SPARK_EPOCH:,}-record epochs) after the first epoch, divided by toArrow of text, label and time, file by "
        "file, and nothing else; in one session, both cores.",
        _to_arrow,
        any_texts=True,
    ),
)
