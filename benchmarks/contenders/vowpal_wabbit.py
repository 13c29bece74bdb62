"""Vowpal Wabbit over a file in its own format."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def learn(file: str, topics: int, predictions: str | None = None, *, probabilities: bool = False) -> dict[str, Any]:
    """Read and learn with 2^18 weights and defaults; its reported loss is prequential.

    It writes its predictions to the file `predictions`, if one is given; with `probabilities`, those of all labels.
    """
    from vowpalwabbit import Workspace  # type: ignore[import-not-found]

    began = time.perf_counter()
    options = ["--quiet", "--oaa", str(topics), "-b", "18", "-d", file]
    if predictions:
        options += ["-p", predictions]
    if probabilities:
        options += ["--loss_function", "logistic", "--probabilities"]
    learner = Workspace(arg_list=options)  # reads and learns the whole file
    seconds = time.perf_counter() - began
    records = round(learner.get_weighted_examples())
    correct = records - round(learner.get_sum_loss())
    learner.finish()
    return {"per_second": records / seconds, "records": records, "correct": correct}


if __name__ == "__main__":
    print(json.dumps(learn(**json.loads(sys.argv[1]))))
