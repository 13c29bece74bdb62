"""Kafka: a source, a sink, the protocol client of both (`client`), and a local broker without Docker (`broker`)."""
