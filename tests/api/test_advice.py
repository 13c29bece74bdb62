"""`ms.advise`: what a program asks of the advice, and the burstiness of labels in a file of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.label_streams import iid, markov, markov_deff

import millstream as ms
from millstream.guarantees.delivery import Delivery
from millstream.study.labels import Labels


def written(folder: Path, labels: Labels) -> ms.Config:
    """A config of a file with these labels, one a second."""
    rows = [{"text": "a", "label": labels.names[code], "time": second} for second, code in enumerate(labels.codes)]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ms.Config(
        name="own",
        source={"type": "files", "path": "own.jsonl"},
        pipeline={"use": "text_topics"},
        engine={"type": "local", "epoch": {"max_records": 100}},
    )


def test_the_burstiness_of_a_file_is_measured(folder: Path) -> None:
    measured = {}
    for name, labels in (("random", iid(20_000, 1)), ("bursts", markov(20_000, 1, 0.9))):
        advice = ms.advise(written(folder, labels))
        assert advice.labels is not None and len(advice.labels) == 20_000
        measured[name] = advice.labels.burstiness(100)
        assert advice.deff == advice.labels.burstiness(advice.burst_span or 0)
    assert measured["random"] == pytest.approx(1, rel=0.15)
    assert measured["bursts"] == pytest.approx(markov_deff(100, 0.9), rel=0.15)


def test_a_rate_and_failures_change_the_month_and_not_one_failure(folder: Path) -> None:
    config = written(folder, iid(5_000, 1))
    few, many = (ms.advise(config, failures_per_month=count, records_per_second=9) for count in (1, 100))
    assert few.conditions.records_per_second == 9
    for one, hundred in zip(few.guarantees, many.guarantees, strict=True):
        assert one.rows.spans == hundred.rows.spans
        assert one.delivery is Delivery.EXACTLY_ONCE or hundred.dose == pytest.approx(100 * one.dose)


def test_a_wrong_config_is_refused_with_arguments_in_place_of_options(folder: Path) -> None:
    with pytest.raises(ms.ConfigError, match=r"news.yaml \(set\) engine.type: .*"):
        ms.advise("news.yaml", set={"engine.type": "cluster"})
