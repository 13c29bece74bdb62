"""Kafka: a source, a sink, and a broker without Docker."""

import logging

# kafka-python logs each try while a broker is away, and its options with passwords; we tell it in our own words.
logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
