"""The settings of the one node: quick to start, also after kill -9, and for this machine alone."""

from __future__ import annotations

from collections.abc import Mapping

from millstream_connectors.kafka.broker.places import HOST

__all__ = ["JAVA_OPTIONS", "PARTITIONS", "properties"]

PARTITIONS = "partitions"
"""The folder of all partitions, in the data folder, from which the broker is started."""

# A broker that ends soon, or has little to do, is not worth a second compiler and a second collector.
JAVA_OPTIONS = (
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)

_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": PARTITIONS,
    # One node holds everything once.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The default of 50 makes the first group and the first transaction wait.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # After kill -9 the node waits until its own former session has expired, 9 s by default.
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(16 << 20),
    # The default takes 128 MiB as soon as the node is up.
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}


def properties(port: int, controller_port: int, more: Mapping[str, str]) -> str:
    """The node's file of settings; `more` comes last and goes before ours.

    >>> text = properties(9092, 20000, {"log.retention.check.interval.ms": "100"})
    >>> text.splitlines()[-1]
    'log.retention.check.interval.ms=100'
    """
    ports = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        # Named here and not kept with the data, so that it may be another one at every start.
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
    }
    lines = [f"{name}={value}" for name, value in {**_NODE, **ports, **more}.items()]
    return "\n".join(["# Written at every start.", *lines, ""])
