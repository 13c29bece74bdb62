"""A Kafka client: requests with retries, reads of record batches as columns, transactional writes.

It is built on kafka-python's connections and protocol classes, and imports nothing of Millstream. Its errors are those
of `client.errors`.
"""
