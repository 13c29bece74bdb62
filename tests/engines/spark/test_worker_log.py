"""Spark's log has the messages and the errors of steps in Spark's workers, without secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import write_documents

pytestmark = [pytest.mark.spark, pytest.mark.long]

VALUE = "s3cr3t-token"
STEP = r"""
import logging, os
from typing import Literal

import pyarrow as pa

from millstream.plugin import Result, Scope, Step, StepConfig, Traits


class Loud(StepConfig):
    def build(self, records):
        return Shouting(records)


class Shouting(Step):
    traits = Traits(Scope.STATELESS, ordered=False, only_adds=True)

    def process(self, records):
        if records.num_rows:
            logging.warning("works with %s\x1b[31m\nand more", os.environ["TOKEN"])
            raise ValueError("refused " + os.environ["TOKEN"]) from KeyError(os.environ["TOKEN"])
        return Result(records)
"""
CONFIG = """
name: loud
source: {type: files, path: documents}
pipeline: {steps: [{type: "loud:Loud", name: loud}]}
sinks: {rejects: {type: files, path: "${TOKEN}/rejects"}}
engine: {type: spark, placement: {loud: worker}}
"""


def test_the_log_of_spark_has_no_secret(tmp_path: Path) -> None:
    write_documents(tmp_path / "documents")
    (tmp_path / "loud.py").write_text(STEP)
    (tmp_path / "loud.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "millstream", "run", "loud.yaml", "--run", "run"]
    environment = os.environ | {"TOKEN": VALUE}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    log = (tmp_path / "run/spark/spark.log").read_text()
    assert ran.returncode == 1
    assert ran.stderr.endswith("ValueError: refused ${TOKEN}\n")
    assert "WARNING root: works with ${TOKEN}\\x1b[31m\\nand more\n" in log
    assert "ValueError: refused ${TOKEN}" in log
    assert VALUE not in log + ran.stderr
