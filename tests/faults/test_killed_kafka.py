"""kill -9 at random moments while records flow from topic to topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.kafka_kills import kill_while_it_flows
from kafka_broker import SharedBroker


@pytest.mark.kafka
@pytest.mark.spark
def test_five_kills_while_records_flow_leave_every_result_once(tmp_path: Path, broker: SharedBroker) -> None:
    kill_while_it_flows(
        tmp_path,
        broker.bootstrap,
        broker.topic("flowing"),
        records=10_000,
        per_second=2_000,
        engines=["local", "spark", "local", "local", "local"],
        seed=11,
    )
