"""A local Kafka broker without Docker: the Python functions behind `millstream kafka`."""

from millstream_connectors.kafka.broker.node import PORT, Broker
from millstream_connectors.kafka.broker.paths import default_data
from millstream_connectors.kafka.broker.ports import free_port
from millstream_connectors.kafka.broker.process import BrokerProcess

__all__ = ["PORT", "Broker", "BrokerProcess", "default_data", "free_port"]
