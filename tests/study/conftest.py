"""Small studies: written, loaded, and run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.studies import RunStudy, WriteStudy, run_here, write_study

from millstream.study.study_file import load_study


@pytest.fixture
def write(tmp_path: Path) -> WriteStudy:
    """Return a function that writes the small study with other values, as in `data__records=10`."""
    return lambda **changes: write_study(tmp_path / "small.yaml", changes)


@pytest.fixture
def run(write: WriteStudy, tmp_path: Path) -> RunStudy:
    """Return a function that runs the small study with other values, without Spark, and returns its table."""

    def run(out: str = "out", **changes: Any) -> pa.Table:
        return run_here(load_study(write(**changes)), tmp_path / out)

    return run
