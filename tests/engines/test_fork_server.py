"""A process that is forked for a pipeline has the libraries of the pipeline, so it starts in milliseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.config.load import read_config
from millstream.config.models import Config
from millstream.engines.fork_server import fork_server
from millstream.steps.graph import build_graph

FIELDS = ("text", "label", "time")
LIBRARIES = {"llvmlite", "numba", "numpy", "pandas", "pyarrow", "river", "scipy", "sklearn"}


def begin(config: Config, answers: Connection) -> None:
    """Send the names of the libraries that this process imports until the first record is processed."""
    before = set(sys.modules)
    records = pa.table({"_rank": [0], "_offset": [0], "_time": [0], "text": ["a late goal"], "label": ["sport"]})
    for node in build_graph(config.steps, FIELDS).steps:
        records = node.step.process(records).records
    answers.send(sorted({name.partition(".")[0] for name in set(sys.modules) - before} & LIBRARIES))


STEPS = {
    "words counted before": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "naive_bayes"}}],
    "words counted by the model": [{"type": "classify", "model": {"type": "naive_bayes", "features": {}}}],
    "scikit-learn": [{"type": "hashed_text"}, {"type": "classify", "model": {"type": "sgd"}}],
}


@pytest.mark.parametrize("steps", STEPS)
def test_a_worker_has_the_libraries_that_its_pipeline_needs(steps: str) -> None:
    done = subprocess.run([sys.executable, __file__, steps], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


if __name__ == "__main__":  # a process of its own, because a process has only one fork server
    pipeline = {"steps": STEPS[sys.argv[1]]}
    config = {"name": "forked", "source": {"type": "generator"}, "pipeline": pipeline}
    loaded = read_config(config, Path(), "forked.yaml")
    build_graph(loaded.config.steps, FIELDS)
    context = fork_server(loaded.config)
    here, there = context.Pipe()
    process = context.Process(target=begin, args=(loaded.config, there))
    process.start()
    sys.stdout.write(json.dumps(here.recv()))
    process.join()
