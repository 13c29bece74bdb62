"""Ten thousand schedules of the demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config.load import load_config
from millstream.engines.simulated.parallel_seeds import outcomes
from millstream.engines.simulated.world.logs import recorded
from millstream.log.contracts import OpenContext

DEMO = Path(__file__).parents[2] / "configs/demo.yaml"
SCHEDULES, RECORDS = 10_000, 300


@pytest.mark.soak
def test_ten_thousand_schedules_of_the_demo_come_out_as_exactly_once_promises(tmp_path: Path) -> None:
    loaded = load_config(str(DEMO), [])
    source = loaded.config.logs[0]
    records = recorded({source.name: source.config.open(OpenContext(loaded.folder, tmp_path))}, RECORDS)
    seeds = range(SCHEDULES)
    assert [outcome for outcome in outcomes(loaded.config, records, seeds, jobs=2) if outcome.wrong] == []
