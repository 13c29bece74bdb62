"""Processes that are forked for a pipeline have what it needs: they begin in milliseconds."""

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
from millstream.engines.forking import forking
from millstream.steps.graph import build_graph

FIELDS = ("text", "label", "time")
LIBRARIES = {"llvmlite", "numba", "numpy", "pandas", "pyarrow", "river", "scipy", "sklearn"}


def begin(config: Config, answers: Connection) -> None:
    """Tell which of the libraries this process still has to import before the first record is through."""
    before = set(sys.modules)
    features, *_ = build_graph(config.steps, FIELDS).steps
    features.step.process(pa.table({"text": ["a late goal"]}))
    answers.send(sorted({name.partition(".")[0] for name in set(sys.modules) - before} & LIBRARIES))


@pytest.mark.parametrize("model", ["naive_bayes", "sgd"])
def test_a_worker_has_the_libraries_that_its_pipeline_needs(model: str) -> None:
    done = subprocess.run([sys.executable, __file__, model], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


if __name__ == "__main__":  # in a process of its own: where processes are forked from is decided once
    steps = [{"type": "hashed_text"}, {"type": "classify", "model": {"type": sys.argv[1]}}]
    config = {"name": "forked", "source": {"type": "generator"}, "pipeline": {"steps": steps}}
    loaded = read_config(config, Path(), "forked.yaml")
    build_graph(loaded.config.steps, FIELDS)
    context = forking(loaded.config)
    here, there = context.Pipe()
    process = context.Process(target=begin, args=(loaded.config, there))
    process.start()
    sys.stdout.write(json.dumps(here.recv()))
    process.join()
