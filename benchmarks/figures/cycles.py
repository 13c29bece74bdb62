"""Cycles: records sent back in label propagation, in one process and in workers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from benchmarks.kit.measurement import Figure, Measurement, Setting, Value
from benchmarks.kit.pipeline import run_pipeline
from benchmarks.kit.rates import Rate
from benchmarks.kit.rounds import interleaved, median, ratio, repeated
from millstream.config.load import read_config
from millstream.engines.local.engine import LocalEngine
from millstream.log.epochs import Added, Epoch, PartitionName
from millstream.steps.contracts import Result, Step
from millstream.steps.graph import build_graph
from millstream.steps.processor import EpochProcessor

__all__ = ["MEASUREMENTS"]

_CONFIG = Path(__file__).parents[2] / "configs" / "label_propagation.yaml"
_SINKS = {"labels": {"type": "files"}}
_EPOCH, _EPOCHS, _QUICK = 1_000, 13, 3
_LARGE, _LARGE_EPOCHS = 12_000, 3
"""On workers: epochs so large that each is delivered alone, so that rates count from the end of the first one."""
_WORDS, _LABELS, _LABELLED = 3, 8, 0.02
"""The words of a note, the labels, and the part of the notes that have one."""


def _notes(count: int) -> list[dict[str, Any]]:
    """Notes of words drawn at random from four times as many words as there are notes."""
    dice = np.random.default_rng(1)
    words, labels = dice.integers(0, 4 * count, (count, _WORDS)), dice.integers(0, _LABELS, count)
    labelled = dice.random(count) < _LABELLED
    return [
        {
            "id": f"note {number}",
            "text": " ".join(f"words{word:06d}" for word in words[number].tolist()),
            "label": f"label {labels[number]}" if labelled[number] else None,
        }
        for number in range(count)
    ]


def _epochs(notes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Epoch, pa.Table]]:
    """The notes in epochs, as the planner cuts them and a source reads them."""
    for number, start in enumerate(range(0, len(notes), _EPOCH)):
        part = notes[start : start + _EPOCH]
        offsets = np.arange(start, start + len(part))
        position = {
            "_rank": np.zeros(len(part), np.int32),
            "_offset": offsets,
            "_time": offsets * 1_000_000,
            "_reject": pa.nulls(len(part), pa.string()),
        }
        added = (Added(PartitionName("source", "0", 0)),) if number == 0 else ()
        fields = {name: pa.array([note[name] for note in part], pa.string()) for name in ("id", "text", "label")}
        yield Epoch(number, {0: (start, start + len(part))}, added, 10**16), pa.table({**position, **fields})


def _pipeline() -> dict[str, Any]:
    """The pipeline of the config that Millstream ships."""
    config: dict[str, Any] = yaml.safe_load(_CONFIG.read_text())
    return dict(config["pipeline"])


def _sent_back(setting: Setting) -> Iterator[Value]:
    notes = _notes(_EPOCH * (_QUICK if setting.quick else _EPOCHS))
    config = read_config(
        {"name": "bench", "source": _source(setting, notes), "pipeline": _pipeline(), "sinks": _SINKS},
        setting.folder,
        "bench.yaml",
    ).config
    epochs = list(_epochs(notes))

    def rate(_: int) -> float:
        graph = build_graph(
            config.steps, ["id", "text", "label"], config.source_times, config.sinks, config.cycle_limits
        )
        sent = _counted(graph.node("shared").step)
        processor = EpochProcessor(graph)
        processor.restore({}, [])
        began = time.process_time()
        for epoch, records in epochs:
            processor.process(epoch, records)
        return sum(sent) / (time.process_time() - began)

    yield median("cycle_sent_back", repeated(setting, rate), ",.0f")


def _counted(step: Step) -> list[int]:
    """The numbers of records that a step makes from now on, batch by batch."""
    process, made = step.process, list[int]()

    def counted(records: pa.Table) -> Result:
        result = process(records)
        made.append(result.records.num_rows)
        return result

    setattr(step, "process", counted)  # noqa: B010
    return made


def _source(setting: Setting, notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A file of these notes."""
    file = setting.folder / "notes.jsonl"
    file.write_text("".join(json.dumps(note) + "\n" for note in notes))
    return {"type": "files", "path": str(file), "fields": {"id": "id", "text": "text", "label": "label"}}


def _workers(setting: Setting) -> Iterator[Value]:
    """The notes in one process and on three workers."""
    notes = _notes(_LARGE * (2 if setting.quick else _LARGE_EPOCHS))
    source = _source(setting, notes)

    def run(workers: int) -> Rate:
        pipeline, folder = _pipeline(), setting.folder
        ran = run_pipeline(LocalEngine(), source, folder, len(notes), _LARGE, pipeline, _SINKS, workers=workers)
        return ran.rate

    taken = interleaved(setting, {"one": partial(run, 1), "three": partial(run, 3)})
    yield ratio("cycle_three_workers", taken, "three", "one")


MEASUREMENTS = (
    Measurement(
        (Figure("cycle_sent_back", "records/s"),),
        f"Label propagation over notes of {_WORDS} words, as in configs/label_propagation.yaml, in one process with "
        f"{_EPOCH:,}-record epochs: records sent back per second of processor time, with all other work of the steps.",
        _sent_back,
    ),
    Measurement(
        (Figure("cycle_three_workers", "x"),),
        f"The same from a file to files, exactly_once, with {_LARGE:,}-record epochs: notes per second with three "
        "workers, divided by those in one process.",
        _workers,
    ),
)
