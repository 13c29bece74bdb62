"""Twenty kills on Spark while 100,000 records flow from topic to topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.kafka_kills import kill_while_it_flows
from kafka_broker import SharedBroker


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.spark
def test_twenty_kills_while_100_000_records_flow_leave_every_result_once(tmp_path: Path, broker: SharedBroker) -> None:
    kill_while_it_flows(
        tmp_path,
        broker.bootstrap,
        broker.topic("flowing"),
        records=100_000,
        per_second=400,
        engines=["spark"] * 20,
        seed=23,
    )
