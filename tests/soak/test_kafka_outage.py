"""A broker that is down for a while, during which a pipeline on Spark follows a topic into a topic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.brokers import OwnBroker
from support.commands import processed
from support.conditions import HANG_SECONDS, wait_until
from support.feeds import TopicFeed
from support.kills import write_killed_kafka
from support.topics import seen

RECORDS = 20_000


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets of kafka-python's producer
@pytest.mark.spark
def test_a_run_waits_for_its_broker_and_every_result_is_there_once(tmp_path: Path, own_broker: OwnBroker) -> None:
    broker = own_broker()
    commands = write_killed_kafka(tmp_path, broker.bootstrap, "documents")
    feed = TopicFeed(broker.bootstrap, "documents", RECORDS, per_second=400)
    feed.start()
    process = commands.start("run", "--follow", "--set", "engine.type=spark")
    wait_until(lambda: processed(tmp_path / "run") >= 5, "epochs", process)
    broker.kill()
    errors = ""
    assert process.stderr is not None
    while errors.count("still waiting for Kafka") < 3:  # the source and the sink print it every ten seconds
        errors += process.stderr.readline()
        assert process.poll() is None, errors
    broker.up()
    feed.join()
    wait_until(lambda: len(seen(broker.bootstrap, "documents-predictions")) >= RECORDS, "all results", process)
    process.terminate()
    errors += process.communicate(timeout=HANG_SECONDS)[1]
    assert process.returncode == 0, errors
    assert "waiting for Kafka" in errors and "answers again" in errors
    rows = seen(broker.bootstrap, "documents-predictions")
    times = Counter((row["_partition"], row["_offset"]) for row in rows)
    assert (len(times), set(times.values())) == (RECORDS, {1})
    summary = commands.finish("run", "--until-idle")
    golden = commands.finish("golden", "--replay", str(tmp_path / "run"), "--set", "sinks={}")
    for key in ("records", "accuracy", "model", "state", "outputs"):
        assert summary[key] == golden[key], key
