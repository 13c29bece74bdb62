"""The settings of the broker's one node: it starts quickly, also after kill -9, and only this machine can connect."""

from __future__ import annotations

from collections.abc import Mapping

from millstream_connectors.kafka.broker.ports import HOST

__all__ = ["JAVA_OPTIONS", "PARTITIONS", "properties"]

PARTITIONS = "partitions"
"""The folder of all partitions, relative to the data folder, which is the broker's working directory."""

# A broker that lives shortly or has little load needs neither the optimizing compiler nor a parallel collector.
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
    # One node can hold one replica.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The default of 50 delays the first group and the first transaction.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # After kill -9 the node waits until its previous session has expired, by default after 9 s.
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(16 << 20),
    # The default allocates 128 MiB at the start.
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}


def properties(port: int, controller_port: int, more: Mapping[str, str]) -> str:
    """The node's file of settings; those in `more` come last and override the others.

    >>> text = properties(9092, 20000, {"log.retention.check.interval.ms": "100"})
    >>> text.splitlines()[-1]
    'log.retention.check.interval.ms=100'
    """
    ports = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        # In the settings and not in the data, so that each start may use another port.
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
    }
    lines = [f"{name}={value}" for name, value in {**_NODE, **ports, **more}.items()]
    return "\n".join(["# Written at every start.", *lines, ""])
