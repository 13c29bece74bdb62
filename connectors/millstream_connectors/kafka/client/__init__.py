"""A Kafka client: requests with retries, reads of record batches as columns, transactional writes.

It is built on kafka-python's connections and protocol classes, and imports nothing of Millstream. Its errors are those
of `client.errors`.
"""

import logging

# kafka-python logs every attempt while a broker is unavailable, and logs its options, passwords included. The client
# logs its retries itself.
logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
