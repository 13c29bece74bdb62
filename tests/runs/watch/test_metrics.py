"""metrics.jsonl: windows of the records as they were first processed, complete after crashes and restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from millstream.config.load import Loaded
from millstream.guarantees.crash_point import CrashPoint
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream.runs.watch.metrics import Metrics, Window, read_windows
from millstream.runs.watch.observer import Observer, Watched

Configured = Callable[..., Loaded]


class Crash(BaseException):
    """The end of a run that drops all memory."""


def crash() -> None:
    raise Crash


def fail(message: str) -> None:
    raise AssertionError(message)


def measure(loaded: Loaded, run: Path, warnings: list[str] | None = None, **options: Any) -> Summary:
    def observers(watched: Watched) -> Sequence[Observer]:
        seconds = iter(range(1000))
        warn = fail if warnings is None else warnings.append
        return [Metrics(watched, warn=warn, clock=lambda: float(next(seconds)))]

    return start(loaded, Options(run, **options), observers=observers, fire=crash)


def counts(run: Path) -> list[tuple[int, int, int, int, Any]]:
    """The parts of the windows that do not depend on the clock."""
    windows = read_windows(run / "metrics.jsonl")
    return [(w.records, w.epoch, w.correct, w.labelled, w.baselines_correct) for w in windows]


def test_a_window_ends_with_the_epoch_that_fills_it(tmp_path: Path, configured: Configured) -> None:
    summary = measure(configured(), tmp_path / "run")
    first, second = read_windows(tmp_path / "run/metrics.jsonl")
    assert (first.records, first.epoch, second.records, second.epoch) == (1200, 3, 2400, 7)
    assert first.accuracy == first.window_accuracy == round(first.correct / 1200, 6)
    assert second.window_accuracy == round((second.correct - first.correct) / 1200, 6)
    assert second.accuracy == round(second.correct / 2400, 6)
    assert summary.accuracy is not None and summary.accuracy > 0.5
    for name in ("no_change", "majority"):
        once, twice = ((w.baselines_correct or {})[name] for w in (first, second))
        assert first.baselines == first.window_baselines and 0 < once < twice
        assert (first.baselines or {})[name] == round(once / 1200, 6)
        assert (second.window_baselines or {})[name] == round((twice - once) / 1200, 6)
        assert (second.baselines or {})[name] == round(twice / 2400, 6)
    assert (first.seconds, second.seconds, second.records_per_second) == (1.0, 2.0, 1200.0)


TWO_MODELS = {
    "steps": [
        {"type": "classify", "name": "bayes", "model": {"type": "naive_bayes", "features": {}}},
        {"type": "classify", "name": "before", "from": "source", "model": {"type": "no_change"}},
    ]
}


def test_each_of_several_models_has_its_accuracy_also_after_a_restart(tmp_path: Path, configured: Configured) -> None:
    for run, records in (("golden", None), ("run", 1500), ("run", None)):
        summary = measure(configured(pipeline=TWO_MODELS), tmp_path / run, records=records)
    expected, found = (list(read_windows(tmp_path / run / "metrics.jsonl")) for run in ("golden", "run"))
    assert [window.steps for window in found] == [window.steps for window in expected]
    first, second = found
    for name in ("bayes", "before"):
        once, twice = first.steps[name], second.steps[name]
        assert once["accuracy"] == once["window_accuracy"] == round(once["correct"] / once["labelled"], 6)
        assert twice["window_accuracy"] == round((twice["correct"] - once["correct"]) / 1200, 6)
    assert second.correct == sum(each["correct"] for each in second.steps.values())
    assert second.steps["bayes"]["accuracy"] > 0.6 > 0.3 > second.steps["before"]["accuracy"]
    assert summary.steps["bayes"]["accuracy"] > 0.6


def test_restarts_do_not_make_windows_shorter(tmp_path: Path, configured: Configured) -> None:
    measure(configured(), tmp_path / "golden")
    for records in (500, 100, 900, None):
        measure(configured(), tmp_path / "run", records=records)
    assert [w.records for w in read_windows(tmp_path / "golden/metrics.jsonl")] == [1200, 2400]
    first, second = (w.records for w in read_windows(tmp_path / "run/metrics.jsonl"))
    assert first >= 1000 and second - first >= 1000


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("point", ["process@3", "deliver@3", "checkpoint@7"])
def test_a_crash_neither_loses_nor_repeats_a_window(
    tmp_path: Path, configured: Configured, delivery: str, point: str
) -> None:
    loaded = configured(guarantee={"delivery": delivery})
    with pytest.raises(Crash):
        measure(loaded, tmp_path / "run", crash=CrashPoint.parse(point))
    measure(loaded, tmp_path / "run")
    measure(loaded, tmp_path / "golden")
    assert [row[:2] for row in counts(tmp_path / "run")] == [row[:2] for row in counts(tmp_path / "golden")]
    if delivery == "exactly_once":
        assert counts(tmp_path / "run") == counts(tmp_path / "golden")


@pytest.mark.parametrize("damage", [b"", b'{"records": 1200, "epo', b'{"records": 99000, "epoch": 3}\n'])
def test_a_damaged_file_is_repaired_from_the_epoch_log(tmp_path: Path, configured: Configured, damage: bytes) -> None:
    run = tmp_path / "run"
    measure(configured(), run, records=2400)
    expected = counts(run)
    kept = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes((kept[0] if b"1200" in damage else b"") + damage)
    assert len(counts(run)) < 2
    measure(configured(), run)
    assert counts(run) == expected


def test_a_reader_leaves_out_an_incomplete_line(tmp_path: Path, configured: Configured) -> None:
    measure(configured(), tmp_path / "run")
    content = (tmp_path / "run/metrics.jsonl").read_bytes()
    torn = tmp_path / "torn.jsonl"
    for length in range(len(content)):
        torn.write_bytes(content[:length])
        assert len(list(read_windows(torn))) == content[:length].count(b"\n")


def test_metrics_that_cannot_be_written_cause_one_warning(tmp_path: Path, configured: Configured) -> None:
    measure(configured(), tmp_path / "golden")
    run, warnings = tmp_path / "run", list[str]()
    measure(configured(), run, records=300)
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").mkdir()
    summary = measure(configured(), run, warnings)
    assert summary.records == 3000
    assert warnings == [f"cannot write {run / 'metrics.jsonl'}: Is a directory; the run continues without this file"]


def test_every_window_is_also_given_to_the_next_observer(tmp_path: Path, configured: Configured) -> None:
    given: list[Window] = []

    def observers(watched: Watched) -> Sequence[Observer]:
        return [Metrics(watched, warn=fail, then=given.append)]

    start(configured(), Options(tmp_path / "run"), observers=observers)
    assert given == list(read_windows(tmp_path / "run/metrics.jsonl"))
