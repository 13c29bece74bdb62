"""Twenty kills on Spark while 100,000 records flow from topic to topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers import SharedBroker
from support.kills import kill_while_records_flow


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.spark
def test_twenty_kills_while_100_000_records_flow_leave_every_result_once(tmp_path: Path, broker: SharedBroker) -> None:
    kill_while_records_flow(
        tmp_path,
        broker.bootstrap,
        broker.topic("flowing"),
        ["spark"] * 20,
        records=100_000,
        per_second=400,
        seed=23,
    )
