"""`ms.run` and `ms.Run`: one start, and everything that a run directory has, equal to what the commands print."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from support.conditions import HANG_SECONDS
from support.summaries import results

import millstream as ms
from millstream.cli import main
from millstream.runs.directory import RunDirectory


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The output of a command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    assert not ended.value.code, captured.err
    return captured.out


COLUMNS = {
    "predictions": ["_source", "_partition", "_offset", "time", "label", "predicted", "probability"],
    "topics": ["_window", "topic", "count", "share", "popular", "changed"],
}


def test_a_run_has_what_the_commands_print(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ms.run("news.yaml")
    assert run.path == folder / "runs/news" and repr(run) == f"<Run {folder}/runs/news>"
    assert run.outputs == ("rejects", "predictions", "topics", "late")
    assert run.summary is not None and json.loads((run.path / "summary.json").read_text()) == run.summary.content()
    assert all(run.output(name).num_rows for name in ("predictions", "topics"))
    for name, columns in COLUMNS.items():
        assert run.output(name).schema.names == columns
    for name in run.outputs:
        lines = command(capsys, "read", "runs/news", name).splitlines()
        assert len(lines) == run.output(name).num_rows == sum(rows.num_rows for rows in run.batches(name))
        assert run.output(name).schema.names == [*(json.loads(lines[0]) if lines else run.output(name).schema.names)]
    status = json.loads(command(capsys, "status", "runs/news", "--json"))
    assert (run.status().records, run.status().state) == (status["records"], status["state"]) == (192, "ended")
    [found] = run.predict(["harbour1 harbour2 word3"])
    predicted = json.loads(command(capsys, "predict", "runs/news", "harbour1 harbour2 word3", "--json"))
    assert {key: asdict(found)[key] for key in predicted} == predicted
    assert predicted["predicted"] == "harbour"
    audit = json.loads(command(capsys, "audit", "runs/news", "--json"))
    assert run.audit().records == audit["records"] == 192
    assert [each.epoch for each in run.checkpoints()][-1] == 7
    assert run.config.resolved() == yaml.safe_load((run.path / "config.yaml").read_text())


def test_predictions_may_name_several_labels(folder: Path) -> None:
    run = ms.run("news.yaml")
    texts = ["harbour1 harbour2 word3", "glacier1", "orchard7 orchard3"]
    one, three = run.predict(texts), run.predict(texts, top=3)
    assert [found.predicted for found in one] == ["harbour", "glacier", "orchard"]
    for single, several in zip(one, three, strict=True):
        assert single.top == ((single.predicted, single.probability),) == several.top[:1]
        assert {label for label, _ in several.top} == {"harbour", "glacier", "orchard"}
        assert sum(chance for _, chance in several.top) == pytest.approx(1, rel=1e-3)
        assert [chance for _, chance in several.top] == sorted((chance for _, chance in several.top), reverse=True)


def test_an_opened_run_is_the_same(folder: Path) -> None:
    ran = ms.run("news.yaml")
    run = ms.open_run("runs/news")
    assert run.summary == ran.summary and run.outputs == ran.outputs
    assert run.output("predictions") == ran.output("predictions")
    assert run.config.resolved() == ran.config.resolved()
    assert run.audit(against=ran).rows_missing == 0


def test_metrics_are_a_table_with_a_row_for_each_window(folder: Path) -> None:
    source = {"type": "generator", "records": 5000}
    run = ms.run("news.yaml", set={"source": source, "engine.epoch.max_records": 500})
    metrics = run.metrics()
    assert metrics["records"].to_pylist() == [1000, 2000, 3000, 4000, 5000]
    assert metrics["accuracy"][-1].as_py() == pytest.approx(run.status().accuracy, abs=1e-6)
    written = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert set(metrics.schema.names) == set(written[0]) - {"baselines_correct"}


def test_a_run_without_windows_and_rows_has_empty_tables(folder: Path) -> None:
    run = ms.run("news.yaml", records=10)
    assert run.metrics().num_rows == run.output("late").num_rows == 0
    assert "accuracy" in run.metrics().schema.names and "_window" in run.output("late").schema.names


def test_a_second_run_continues_and_fresh_starts_over(folder: Path) -> None:
    whole = ms.run("news.yaml", run="runs/whole")
    assert results(ms.run("news.yaml", records=48).summary)["records"] == 48
    ended = ms.run("news.yaml")
    assert results(ended.summary) == results(whole.summary)
    assert ended.summary is not None and ended.summary.processed == 192
    assert results(ms.run("news.yaml", fresh=True).summary) == results(whole.summary)
    assert (folder / "runs/news.1/run.json").exists()
    other_cuts = {"engine.epoch.max_records": 7}
    replayed = ms.run("news.yaml", run="runs/replayed", replay="runs/whole", set=other_cuts)
    assert results(replayed.summary) == results(whole.summary)


def test_runs_may_be_named_by_their_paths(folder: Path) -> None:
    run = ms.run("news.yaml")
    for original in (run, run.path, "runs/news"):
        with ms.start("news.yaml", run="runs/replayed", replay=original, fresh=True) as running:
            assert results(running.wait().summary) == results(run.summary)
        for golden in (running.wait(), running.path, "runs/replayed"):
            assert run.audit(against=golden).state == "precise"
    with pytest.raises(ms.MillstreamError, match="runs/new is not a run directory"):
        run.audit(against="runs/new")


READERS: dict[str, Callable[[ms.Run], object]] = {
    "status": lambda run: run.status(),
    "outputs": lambda run: run.outputs,
    "output": lambda run: run.output("predictions"),
    "batches": lambda run: run.batches("predictions"),
    "predict": lambda run: run.predict(["a text"]),
    "metrics": lambda run: run.metrics(),
    "audit": lambda run: run.audit(),
    "checkpoints": lambda run: run.checkpoints(),
}


@pytest.mark.parametrize("opened", [False, True])
def test_a_run_directory_that_is_deleted_is_an_error(folder: Path, opened: bool) -> None:
    run = ms.run("news.yaml")
    if opened:
        run = ms.open_run(run.path)
    shutil.rmtree(run.path)
    for read in READERS.values():
        with pytest.raises(ms.MillstreamError, match=r"runs/news is not a run directory any more: it was deleted"):
            read(run)
    if opened:
        with pytest.raises(ms.MillstreamError, match="it was deleted"):
            _ = run.summary


def test_rows_of_a_run_directory_that_is_deleted_do_not_end_silently(folder: Path) -> None:
    run = ms.run("news.yaml")
    before, begun = run.batches("predictions"), run.batches("predictions")
    next(begun)
    shutil.rmtree(run.path)
    for rows in (before, begun):
        with pytest.raises(ms.MillstreamError, match="it was deleted or moved"):
            list(rows)


@pytest.mark.parametrize("content", [b'{"run": ', b'{"unknown": 1}', b"[]", b"\xff"])
def test_a_damaged_summary_is_an_error_with_its_file(folder: Path, content: bytes) -> None:
    run = ms.run("news.yaml", records=24)
    (run.path / "summary.json").write_bytes(content)
    with pytest.raises(ms.MillstreamError, match=r"runs/news/summary\.json is damaged"):
        _ = ms.open_run("runs/news").summary
    assert results(ms.run("news.yaml").summary) == results(ms.open_run("runs/news").summary)


def test_a_damaged_file_of_outputs_is_written_again(folder: Path) -> None:
    run = ms.run("news.yaml", records=24)
    file = run.path / "outputs.json"
    whole = file.read_bytes()
    file.write_bytes(b"\xff")
    ms.run("news.yaml")
    assert file.read_bytes() == whole


def test_a_library_that_is_absent_is_found_before_fresh_starts_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(config: object) -> None:
        raise ModuleNotFoundError("numba")

    ms.run("news.yaml", records=24)
    monkeypatch.setattr("millstream.runs.start.versions", absent)
    with pytest.raises(ModuleNotFoundError):
        ms.run("news.yaml", fresh=True)
    assert [path.name for path in (folder / "runs").iterdir()] == ["news"]


def test_errors_are_those_of_the_commands(folder: Path) -> None:
    ms.run("news.yaml", records=24)
    for wrong, error, message in (
        ({"records": 0}, ms.ConfigError, "records: 0 is not allowed; give a whole number of at least 1"),
        ({"crash": "delver@3"}, ms.ConfigError, "did you mean `deliver`?"),
        ({"replay": "nowhere"}, ms.MillstreamError, "nowhere is not a run directory"),
        ({"set": {"engine.type": "flink"}}, ms.ConfigError, "one of spark, local"),
        ({"set": {"guarantee.delivery": "at_most_once"}}, ms.Contradiction, "the delivery changed"),
    ):
        with pytest.raises(error) as refused:
            ms.run("news.yaml", **wrong)
        assert message in str(refused.value)
    with pytest.raises(ms.MillstreamError, match="has no output 'topic'; did you mean `topics`"):
        ms.open_run("runs/news").output("topic")
    with pytest.raises(ms.MillstreamError, match="runs/new is not a run directory; there are runs/news"):
        ms.open_run("runs/new")
    for other in ("runs", "documents"):
        with pytest.raises(ms.MillstreamError, match=f"^{other} is not a run directory; there are runs/news$"):
            ms.open_run(other)
    shutil.rmtree("runs")
    with pytest.raises(
        ms.MillstreamError, match=r"documents is not a run directory; a run directory has a file run\.json"
    ):
        ms.open_run("documents")


def test_a_run_directory_in_use_is_refused(folder: Path) -> None:
    held = RunDirectory(folder / "runs/news")
    held.lock()
    with pytest.raises(ms.InUse, match=f"in use by process {os.getpid()}"):
        ms.run("news.yaml")
    held.release()


def test_an_exit_in_a_plug_in_is_an_error_of_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(self: object) -> None:
        sys.exit(3)

    monkeypatch.setattr("millstream_connectors.files.source.FilesLog.partitions", leave)
    with pytest.raises(ms.MillstreamError, match=r"called sys.exit\(3\)"):
        ms.run("news.yaml")


def test_an_exit_in_a_step_is_in_the_file_with_the_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*arguments: object, **options: object) -> None:
        sys.exit(3)

    monkeypatch.setattr("millstream_connectors.files.sink.PartFiles.append", leave)
    with pytest.raises(ms.MillstreamError, match=r"called sys.exit\(3\)"):
        ms.run("news.yaml")
    assert "called sys.exit(3)" in (folder / "runs/news/error.txt").read_text()


def test_a_kill_between_config_and_outputs_leaves_the_new_config(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    ms.run("news.yaml", records=24)
    monkeypatch.setattr("millstream.runs.start.write_outputs", killed)
    with pytest.raises(KeyboardInterrupt):
        ms.run("news.yaml", set={"engine.epoch.max_records": 7})
    assert ms.open_run("runs/news").config.resolved()["engine"]["epoch"]["max_records"] == 7


CRASHING = """
import sys
import millstream as ms
crash = sys.argv[1] or None
print(ms.run("news.yaml", crash=crash, progress=True).audit().state)
"""


def test_an_armed_crash_kills_the_program_and_the_next_call_continues(folder: Path) -> None:
    def program(crash: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", CRASHING, crash]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)

    assert program("deliver@3").returncode == -signal.SIGKILL
    again = program("")
    assert (again.returncode, again.stdout) == (0, "precise\n"), again.stderr
    assert again.stderr.splitlines()[-1].startswith("news: 192 records, epoch 7, 0 behind, accuracy 0.")


def test_a_crash_that_did_not_happen_is_a_warning_in_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    ms.run("news.yaml", crash="deliver@99")
    assert "the crash at deliver@99 did not happen: the run ended before it" in caplog.messages


def test_without_progress_nothing_is_printed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ms.run("news.yaml")
    assert capfd.readouterr() == ("", "")


def test_values_from_outside_are_in_no_status_and_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "hidden-place")
    monkeypatch.setenv("THRESHOLD", "0.25")
    values = {
        "sinks": {"topics": {"type": "files", "path": "${PLACE}"}},
        "pipeline.popularity.threshold": "${THRESHOLD}",
    }
    assert ms.run("news.yaml", set=values).status().outputs["topics"].location.endswith("/${PLACE}")
    (folder / "hidden-place").rename(folder / "moved")
    (folder / "hidden-place").write_text("no folder")
    with pytest.raises((ms.MillstreamError, OSError)) as refused:
        ms.run("news.yaml", set=values, fresh=True)
    assert "hidden-place" not in str(refused.value)
