"""`millstream advise`: a table for people, an object for programs, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_result import Millstream

import millstream as ms

ADVISE = ("advise", "demo.yaml")


def advised(millstream: Millstream, *options: str) -> dict[str, Any]:
    ran = millstream(*ADVISE, "--json", *options)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_the_table_has_a_column_for_each_guarantee_and_marks_the_own_one(millstream: Millstream, demo: Path) -> None:
    ran = millstream(*ADVISE, "--set", "guarantee.delivery=at_least_once")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("demo: at_least_once on local, epochs of 500 records, a checkpoint every 1 epoch")
    [head] = [line for line in lines if line.split() == ["exactly_once", "at_least_once", "*", "at_most_once"]]
    columns = [head.index(name) for name in ("exactly_once", "at_least_once", "at_most_once")]
    [rows] = [line for line in lines if line.startswith("  rows of an output")]
    cells = [rows[start:stop].strip() for start, stop in zip(columns, [*columns[1:], None], strict=True)]
    assert cells[0] == "each once" and "repeated (<= 500)" in cells[1] and "missing (<= 500)" in cells[2]
    assert "exactly_once leaves no effect." in ran.out


def test_python_gives_the_same_table(millstream: Millstream, demo: Path) -> None:
    ran = millstream(*ADVISE, "--failures-per-month", "30", "--set", "guarantee.commit_every=3")
    advice = ms.advise("demo.yaml", failures_per_month=30, set={"guarantee.commit_every": 3})
    assert (ran.code, ran.out) == (0, f"{advice}\n"), ran.err


def test_what_was_not_measured_says_so(millstream: Millstream, demo: Path) -> None:
    out = millstream(*ADVISE).out
    assert "accuracy of complement_nb" in out
    assert out.count("not measured") >= 3
    topic = "source={type: kafka, bootstrap: '127.0.0.1:9', topic: t}"
    away = millstream(*ADVISE, "--set", topic)
    assert away.code == 0, away.err
    assert "labels   not measured: source 'source' (kafka) has no end; measure a file" in away.out
    assert "at most <0.001 pp" in away.out


@pytest.mark.parametrize(
    "sets", [(), ("engine.epoch.max_records=5000",), ("pipeline.popularity=null",), ("source.topics=1",)]
)
def test_lines_fit_and_are_plain(millstream: Millstream, demo: Path, sets: tuple[str, ...]) -> None:
    out = millstream(*ADVISE, *(word for text in sets for word in ("--set", text))).out
    assert "\x1b" not in out
    assert all(line == line.rstrip() and len(line) <= 120 for line in out.splitlines()), out


def test_the_object_has_the_figures_of_the_table(millstream: Millstream, demo: Path) -> None:
    found = advised(millstream, "--failures-per-month", "8", "--records-per-second", "3")
    assert found["pipeline"] == "demo" and found["delivery"] == "exactly_once"
    assert (found["failures_per_month"], found["records_per_second"], found["epoch_records"]) == (8, 3, 500)
    assert found["labels"]["measured"] and found["labels"]["records"] == 5000 and found["labels"]["whole_source"]
    assert sum(found["labels"]["shares"].values()) == pytest.approx(1)
    once, least, most = (found["guarantees"][name] for name in ("exactly_once", "at_least_once", "at_most_once"))
    assert once["rows"]["share_bias_month"]["rms"] == 0
    assert 0 < least["state"]["share_bias_month"]["rms"] < least["rows"]["share_bias_month"]["rms"]
    month = most["rows"]["share_bias_month"]
    assert month["rms"] < most["rows"]["share_bias_month_most"] < 0.01
    assert most["accuracy"] == [] and once["latency_ms"]["p50"] > 0 and most["latency_ms"] is None


def test_twice_the_failures_are_root_two_of_the_error(millstream: Millstream, demo: Path) -> None:
    errors = [
        advised(millstream, "--failures-per-month", count)["guarantees"]["at_least_once"]["rows"]["share_bias_month"]
        for count in ("3", "6")
    ]
    assert errors[1]["rms"] / errors[0]["rms"] == pytest.approx(2**0.5, rel=0.01)


def test_longer_intervals_make_larger_effects(millstream: Millstream, demo: Path) -> None:
    def mean(every: int) -> float:
        sets = (f"guarantee.{name}_every={every}" for name in ("checkpoint", "commit"))
        found = advised(millstream, *(word for text in sets for word in ("--set", text)))
        return float(found["guarantees"]["at_least_once"]["rows"]["records_per_failure"]["mean"])

    assert mean(1) < mean(4) < mean(8)


def test_nothing_is_written(millstream: Millstream, demo: Path) -> None:
    before = sorted(demo.rglob("*"))
    millstream(*ADVISE)
    assert sorted(demo.rglob("*")) == before


def test_a_guarantee_with_unknown_errors_is_not_called_enough(millstream: Millstream, demo: Path) -> None:
    many = millstream(*ADVISE, "--failures-per-month", "1e12").out
    assert many.count("is enough is unknown: there are too many failures for a prediction.") == 2
    topic = "source={type: kafka, bootstrap: '127.0.0.1:9', topic: t}"
    sizes = ("engine.epoch={max_records: 5000, max_wait: 60s}", "pipeline.popularity.window={type: tumbling, size: 1s}")
    away = millstream(*ADVISE, *(word for text in (topic, *sizes) for word in ("--set", text)))
    assert away.out.count("is enough is unknown, as is the error of a share in a window of 1s.") == 2, away.err
    for out in (many, away.out):
        assert " is enough where" not in out


def test_one_record_and_one_failure_are_singular(millstream: Millstream, demo: Path) -> None:
    out = millstream(*ADVISE, "--failures-per-month", "1", "--records-per-second", "1").out
    assert "  stream   1 record a second (given), " in out and "; 1 failure a month\n" in out


def test_a_number_of_failures_is_called_assumed_only_if_it_was_not_given(millstream: Millstream, demo: Path) -> None:
    assert "; 4 failures a month (assumed: one a week)\n" in millstream(*ADVISE).out
    assert "; 4 failures a month\n" in millstream(*ADVISE, "--failures-per-month", "4").out


def test_exactly_once_that_is_impossible_says_why(millstream: Millstream, demo: Path) -> None:
    steps = "pipeline={steps: [{type: map, function: 'os.path:basename', deterministic: false}]}"
    ran = millstream(*ADVISE, "--set", steps, "--set", "guarantee.delivery=at_least_once")
    assert ran.code == 0, ran.err
    assert "exactly_once is impossible: step 'map' is not deterministic." in ran.out


@pytest.mark.parametrize("option", ["--failures-per-month", "--records-per-second"])
@pytest.mark.parametrize("value", ["0", "-1", "many", "nan", "inf", "1e300"])
def test_a_rate_that_is_no_number_above_zero_is_refused(
    millstream: Millstream, demo: Path, option: str, value: str
) -> None:
    ran = millstream(*ADVISE, option, value)
    assert ran.code == 2 and option in ran.err


def test_a_bad_config_is_refused(millstream: Millstream, demo: Path) -> None:
    ran = millstream(*ADVISE, "--set", "pipeline.popularity.threshold=2")
    assert ran.code == 2
    assert "(--set) pipeline.popularity.threshold: 2 is not allowed; at most 1" in ran.err


def test_a_learner_of_the_study_has_its_intervals_and_their_limits(millstream: Millstream, demo: Path) -> None:
    model = ("--set", "pipeline.model={type: naive_bayes}")
    lines = millstream(*ADVISE, *model).out.splitlines()
    [first] = [number for number, line in enumerate(lines) if line.startswith("  accuracy of naive_bayes")]
    shown = [line for line in lines[first + 1 :] if line.startswith("    on ")]
    assert [line[7:].split("  ")[0] for line in shown][:4] == [
        f"generated, {stream}" for stream in ("blocks", "iid", "natural", "swap")
    ]
    measured = advised(millstream, *model)["guarantees"]["at_least_once"]["accuracy"]
    iid = [row for row in measured if row["stream"] == "generated, iid"]
    low = min(row["difference_pp"] - row["half_width_pp"] for row in iid)
    high = max(row["difference_pp"] + row["half_width_pp"] for row in iid)
    assert f"{low:+.2f} to {high:+.2f} pp" in shown[1]
    assert "by: make findings (docs/findings.md)" in "\n".join(lines)
