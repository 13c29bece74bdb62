"""The check that another process makes the same results of the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.steps_labelled_records import labelled_records

from millstream.steps.checks import STEP_CHECKS, check_step
from millstream.steps.checks.steps import split_into_epochs

SKIP = ["another_process_changes_nothing"]

HASHING = """
from dataclasses import dataclass

import pyarrow as pa
from millstream.steps.contracts import Result, Scope, Traits

KNOWN = {}

class Hashing:
    traits, outputs = Traits(Scope.STATELESS), ()
    def process(self, records):
        numbers = [NUMBER for text in records["text"].to_pylist()]
        return Result(records.append_column("n", pa.array(numbers, pa.int64())))
    def ended(self, substream):
        return Result(pa.table({}))
    def save(self):
        return {}
    def restore(self, state):
        pass

@dataclass(frozen=True)
class Config:
    type: str = "hashing"
    def build(self, records):
        return Hashing()
"""


def write_step(path: Path, name: str, number: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a step into its own module, which another process can import, and return the config of the step."""
    (path / f"{name}.py").write_text(HASHING.replace("NUMBER", number))
    monkeypatch.syspath_prepend(str(path))
    return __import__(name).Config()


def test_results_that_depend_on_the_process_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steady = write_step(tmp_path, "steady_step", "len(text)", monkeypatch)
    check_step(steady, labelled_records())
    hashing = write_step(tmp_path, "hashing_step", "hash(text)", monkeypatch)
    check_step(hashing, labelled_records(), skip=SKIP)
    with pytest.raises(AssertionError, match="other results for the same records in another process; look for `hash"):
        check_step(hashing, labelled_records())


def test_state_in_a_class_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = "KNOWN.setdefault(text, len(KNOWN))"
    sharing = write_step(tmp_path, "sharing_step", number, monkeypatch)
    with pytest.raises(AssertionError, match=r"^another_process_changes_nothing: .* or state in a class or a module"):
        check_step(sharing, labelled_records())


def test_a_step_that_cannot_run_in_another_process_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = write_step(
        tmp_path, "failing_step", "len(text) if __import__('sys').stdin.isatty() else 1 / 0", monkeypatch
    )
    with pytest.raises(AssertionError, match=r"another process cannot run(.|\n)*ZeroDivisionError"):
        STEP_CHECKS["another_process_changes_nothing"](failing, split_into_epochs(labelled_records()))
