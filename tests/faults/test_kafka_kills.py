"""kill -9 at random moments while records flow from topic to topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers import SharedBroker
from support.kills import kill_while_records_flow


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize(
    "engines",
    [
        pytest.param(["local", "spark", "local"], id="three"),
        pytest.param(["local", "spark", "local", "local", "local"], id="five", marks=pytest.mark.matrix),
    ],
)
def test_kills_while_records_flow_leave_every_result_once(
    tmp_path: Path, broker: SharedBroker, engines: list[str]
) -> None:
    kill_while_records_flow(
        tmp_path,
        broker.bootstrap,
        broker.topic("flowing"),
        engines,
        records=2_000 * len(engines),
        per_second=2_000,
        seed=11,
    )
