"""A broker that is away for half a minute while a pipeline on Spark follows a topic into a topic."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from conformance.kafka_documents import seen
from faults.conftest import Commands, wait_until
from faults.kafka_kills import Flow, processed, write_config
from kafka_broker import OwnBroker

RECORDS = 20_000
AWAY = 30.0


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets of kafka-python's producer
@pytest.mark.spark
def test_a_run_waits_for_its_broker_and_every_result_is_there_once(tmp_path: Path, own_broker: OwnBroker) -> None:
    broker = own_broker()
    write_config(tmp_path, broker.bootstrap, "documents")
    commands = Commands(tmp_path)
    flow = Flow(broker.bootstrap, "documents", RECORDS, per_second=400)
    flow.goes_on()
    process = commands.start("run", "--follow", "--set", "engine.type=spark")
    wait_until(lambda: processed(tmp_path / "run") >= 5, "epochs", 180)
    broker.kill()
    time.sleep(AWAY)
    broker.up()
    flow.pauses()
    wait_until(lambda: len(seen(broker.bootstrap, "documents-predictions")) >= RECORDS, "all results", 120)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert "waiting for Kafka" in told and "answers again" in told
    rows = seen(broker.bootstrap, "documents-predictions")
    times = Counter((row["_partition"], row["_offset"]) for row in rows)
    assert (len(times), set(times.values())) == (RECORDS, {1})
    summary = commands.finish("run", "--until-idle", "--set", "engine.type=local")
    golden = commands.finish("golden", "--replay", str(tmp_path / "run"), "--set", "sinks={}")
    for key in ("records", "accuracy", "model", "state", "outputs"):
        assert summary[key] == golden[key], key
