"""The checks of sinks: a correct sink passes all of them, and each check finds a broken sink."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import broken_sinks
from support.plugin_classes import RowFile, RowFileSink

from millstream.log.contracts import OpenContext
from millstream.plugin.checks import SINK_CHECKS, check_sink
from millstream.plugin.checks.sinks import SinkTrial

BROKEN_SINKS: list[tuple[type[RowFile], str, str]] = [
    (
        broken_sinks.BeginsWithProgress,
        "an_unused_sink_is_empty",
        "the config's progress before it was opened is Progre",
    ),
    (broken_sinks.ChangesProgress, "rows_are_read_as_they_were_appended", "return it as it was given"),
    (
        broken_sinks.DropsLowerEpochs,
        "an_epoch_is_appended_again_or_lower",
        "append all rows without a look at the epoch",
    ),
    (
        broken_sinks.RepeatsRows,
        "an_epoch_without_rows_adds_no_row",
        "expected epochs 1, found epochs 1 .12 of 3 rows.*only",
    ),
    (
        broken_sinks.NeedsAGuard,
        "rows_are_appended_without_a_guard",
        "appended with `guarded=False`: 9 rows, then 0 .*found no rows",
    ),
    (
        broken_sinks.KeepsProgress,
        "clearing_removes_rows_and_progress",
        "the progress after `clear` is Progress.*remove th",
    ),
    (
        broken_sinks.ClearsAllOutputs,
        "outputs_have_their_own_rows",
        "after `clear` of .topics. is None",
    ),
    (broken_sinks.OneFile, "outputs_have_their_own_rows", "'topics' after an append to 'predictions' is Progress"),
    (
        broken_sinks.AppendsUnfenced,
        "an_earlier_writer_is_shut_out",
        "after an append of the earlier writer.*let `fence`",
    ),
    (broken_sinks.ShowsHalf, "a_reader_sees_whole_epochs", r"\(1 of 3 rows\).*let a reader see an epoch as a whole"),
    (
        broken_sinks.RowsThenProgress,
        "rows_and_progress_are_one_step",
        "store the rows and the progress in one transactio",
    ),
    (broken_sinks.AppendsLater, "rows_and_progress_are_one_step", "durable before `append` returns"),
]


def trial(config: RowFile, folder: Path) -> SinkTrial:
    return SinkTrial(config, OpenContext(folder, folder / "run", "checks"))


def test_a_correct_sink_passes_all_checks(tmp_path: Path) -> None:
    check_sink(RowFile(path="rows"), tmp_path)
    assert list(tmp_path.glob("rows*")) == []


@pytest.mark.parametrize(("kind", "check", "message"), BROKEN_SINKS)
def test_the_check_finds_the_broken_sink(tmp_path: Path, kind: type[RowFile], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        SINK_CHECKS[check](trial(kind(path="rows"), tmp_path))


def test_every_check_of_sinks_fails_for_some_broken_sink() -> None:
    assert {check for _, check, _ in BROKEN_SINKS} == set(SINK_CHECKS)


def test_the_battery_names_the_check_and_skip_leaves_it_out(tmp_path: Path) -> None:
    sink = broken_sinks.DropsLowerEpochs(path="rows")
    with pytest.raises(AssertionError, match=r"^an_epoch_is_appended_again_or_lower: DropsLowerEpochs"):
        check_sink(sink, tmp_path, kills=2)
    check_sink(sink, tmp_path, skip=["an_epoch_is_appended_again_or_lower"], kills=2)
    with pytest.raises(ValueError, match="there is no check named an_epoch; there are an_unused_sink_is_empty"):
        check_sink(sink, tmp_path, skip=["an_epoch"])


def test_a_sink_that_clears_nothing_fails_the_check_of_clearing(tmp_path: Path) -> None:
    message = r"^clearing_removes_rows_and_progress: ClearsNothing.* after `clear` is Progress.*let `clear` remove"
    with pytest.raises(AssertionError, match=message):
        check_sink(broken_sinks.ClearsNothing(path="rows"), tmp_path, kills=2)


def test_an_error_of_a_sink_is_a_failure_with_the_name_of_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowFileSink, "append", lambda sink, rows, progress: sink.missing)
    message = "^rows_are_read_as_they_were_appended: RowFile.*: it raised AttributeError.*line .*; mend the error"
    with pytest.raises(AssertionError, match=message):
        check_sink(RowFile(path="rows"), tmp_path, kills=2)


def test_a_sink_that_another_process_cannot_import_is_found(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from support.plugin_classes import RowFile\n"
        "from millstream.plugin.checks import check_sink\n"
        "class Mine(RowFile):\n    pass\n"
        "check_sink(Mine(path='rows'), Path(sys.argv[1]), kills=1)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 1
    assert "rows_and_progress_are_one_step: Mine(" in done.stderr
    assert "another process cannot append to it" in done.stderr
