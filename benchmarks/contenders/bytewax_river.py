"""A Bytewax dataflow with River's learner: texts from Parquet, classified, learned, counted by window, written.

It is written as a user would write it for speed: rows come in batches, one stateful step takes whole batches, and
recovery is off.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_BATCH = 1_000
_HOUR = timedelta(hours=1)


def classify(file: str, work: str, alpha: float) -> dict[str, Any]:
    """Run the dataflow to its end; the rate is that from the first learned batch to the last."""
    import bytewax.operators as op  # type: ignore[import-not-found]
    from bytewax.connectors.files import FileSink  # type: ignore[import-not-found]
    from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
    from bytewax.operators.windowing import EventClock, TumblingWindower, count_window  # type: ignore[import-not-found]
    from bytewax.run import cli_main  # type: ignore[import-not-found]

    samples: list[tuple[float, int]] = []
    right: list[int] = []
    flow = Dataflow("topics")
    rows = op.input("texts", flow, _source(Path(file)))
    predicted = op.stateful_batch("classify", rows, lambda _: _learner(alpha, samples, right))
    op.output("predictions", op.map_value("lines", predicted, _line), FileSink(Path(work) / "predictions.jsonl"))
    clock = EventClock(lambda row: row[4], wait_for_system_duration=timedelta(minutes=10))
    windower = TumblingWindower(length=_HOUR, align_to=datetime(2020, 1, 1, tzinfo=UTC))
    answers = op.key_rm("answers", predicted)
    topics = count_window("popularity", answers, clock, windower, key=lambda row: str(row[2]))
    lines = op.map("counts", topics.down, lambda count: ("all", json.dumps(count)))
    op.output("topics", lines, FileSink(Path(work) / "topics.jsonl"))
    cli_main(flow)
    (first, some), (last, all_) = samples[0], samples[-1]
    return {"per_second": (all_ - some) / (last - first), "records": all_, "correct": sum(right)}


def _line(row: tuple[Any, ...]) -> str:
    return json.dumps({"id": row[0], "label": row[1], "predicted": row[2], "probability": row[3]})


def _source(file: Path) -> Any:
    import pyarrow.parquet as pq
    from bytewax.inputs import DynamicSource, StatelessSourcePartition  # type: ignore[import-not-found]

    def rows() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
        start = 0
        for batch in pq.ParquetFile(file).iter_batches(_BATCH, columns=["text", "label", "time"]):
            columns = [column.to_pylist() for column in batch.columns]
            ids = range(start, start + batch.num_rows)
            yield [("all", row) for row in zip(ids, *columns, strict=True)]
            start += batch.num_rows

    class Rows(StatelessSourcePartition):  # type: ignore[misc]
        def __init__(self) -> None:
            self._rows = rows()

        def next_batch(self) -> list[tuple[str, tuple[Any, ...]]]:
            return next(self._rows)

    class Source(DynamicSource):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Rows:
            return Rows()

    return Source()


def _learner(alpha: float, samples: list[tuple[float, int]], right: list[int]) -> Any:
    from bytewax.operators import StatefulBatchLogic
    from river.feature_extraction import BagOfWords
    from river.naive_bayes import MultinomialNB

    words: Any = BagOfWords()
    model: Any = MultinomialNB(alpha=alpha)  # type: ignore[no-untyped-call]

    class Learner(StatefulBatchLogic):  # type: ignore[misc]
        def on_batch(self, values: list[tuple[Any, ...]]) -> tuple[Iterable[tuple[Any, ...]], bool]:
            answers = []
            for number, text, label, moment in values:
                counts = words.transform_one(text)
                probabilities = model.predict_proba_one(counts)
                predicted = max(probabilities, key=probabilities.get, default=None)
                model.learn_one(counts, label)
                answers.append((number, label, predicted, probabilities.get(predicted, 0.0), moment))
            right.append(sum(row[1] == row[2] for row in answers))
            samples.append((time.monotonic(), (samples[-1][1] if samples else 0) + len(values)))
            return answers, False

        def snapshot(self) -> Any:
            return None  # not called without recovery

    return Learner()


if __name__ == "__main__":
    print(json.dumps(classify(**json.loads(sys.argv[1]))))
