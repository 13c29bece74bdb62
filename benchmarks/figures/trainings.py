"""The cost of averaged training on Spark: the CPU time of the longest tasks, over that of sequential training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.kit.measurement import Figure, Measurement, Setting, Unmeasured, Value, at_least
from benchmarks.kit.rounds import median
from millstream.config.load import Loaded, load_config
from millstream.engines.spark.shared_session import SHARED
from millstream.history.train import Trained, train

__all__ = ["MEASUREMENTS"]

_TASKS = 2
_NAMES = {"naive_bayes": "averaged_vs_sequential", "softmax": "averaged_softmax_vs_sequential"}


def _config(folder: Path, records: int, model: str) -> Loaded:
    config = {
        "name": "training",
        "source": {"type": "generator", "records": records, "seed": 1},
        "pipeline": {"steps": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": model}}]},
    }
    path = folder / f"{model}.yaml"
    path.write_text(yaml.safe_dump(config))
    return load_config(path)


def _longest(trained: Trained) -> float:
    seconds: float = trained.result["longest_cpu_seconds"]
    return seconds


def _measure(setting: Setting) -> Iterator[Value]:
    records = 100_000 if setting.quick else 1_000_000
    session = SHARED.open(setting.folder / "spark.log")
    try:
        for model, name in _NAMES.items():
            loaded, ratios = _config(setting.folder, records, model), list[float]()
            for number in range(setting.rounds):
                alone = train(loaded, setting.fresh("alone"), tasks=_TASKS)
                many = train(loaded, setting.fresh("many"), how="averaged", tasks=_TASKS)
                if model == "naive_bayes" and many.version.digest != alone.version.digest:
                    raise Unmeasured(f"the models differ: {many.version.digest} and {alone.version.digest}")
                ratios.append(_longest(alone) / _longest(many))
                setting.say(
                    f"round {number + 1}: {model}: sequential {_longest(alone):.2f} s, averaged {_longest(many):.2f} s"
                )
            yield median(name, ratios, ".2f")
    finally:
        SHARED.leave(session, keep=False)


MEASUREMENTS = (
    Measurement(
        (
            Figure(_NAMES["naive_bayes"], "x", at_least(1.5)),
            Figure(_NAMES["softmax"], "x"),
        ),
        "`millstream train` of a million generated documents with `hashed_text` in a Spark session that is open: the "
        "CPU time of the task of `--how sequential`, over that of `--how averaged` with two tasks at a time: of each "
        "stage (labels, parts, their sum or average) the CPU time of the busier process, added. The features, which "
        "both compute in the same way, are left out. naive_bayes has to be the same model, to the bit; softmax is "
        "another one.",
        _measure,
        name="training",
    ),
)
