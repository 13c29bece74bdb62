"""A Kafka broker of one's own on this machine, without Docker: what `millstream kafka` does, for Python."""

from millstream_connectors.kafka.broker.node import PORT, Broker
from millstream_connectors.kafka.broker.places import default_data, free_port
from millstream_connectors.kafka.broker.process import Running

__all__ = ["PORT", "Broker", "Running", "default_data", "free_port"]
