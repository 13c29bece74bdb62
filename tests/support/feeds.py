"""Documents that arrive while a pipeline runs: appended to files, or sent to a topic by a thread."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path

from support.documents import document_lines
from support.kafka.clients import connect_producer
from support.topics import create_topic

from millstream.log.contracts import OpenContext
from millstream_connectors.generator import GeneratorSource

__all__ = ["FileFeed", "TopicFeed"]

_PARTITIONS = 2


class FileFeed:
    """Appends documents to the files of a folder, in turn; the files are empty at first."""

    def __init__(self, folder: Path, records: int) -> None:
        folder.mkdir(parents=True)
        self._files = [folder / f"part{index}.jsonl" for index in range(_PARTITIONS)]
        self._lines = document_lines(records)
        self.append(0)

    def append(self, records: int | None = None) -> int:
        """Append this number of documents, or all others; return the number."""
        lines = list(itertools.islice(self._lines, records))
        for index, path in enumerate(self._files):
            with path.open("a") as file:
                file.write("".join(f"{line}\n" for line in lines[index :: len(self._files)]))
        return len(lines)


class TopicFeed:
    """Sends generated documents to a topic at a steady rate, in a thread."""

    def __init__(self, bootstrap: str, topic: str, records: int, per_second: float) -> None:
        create_topic(bootstrap, topic, _PARTITIONS)
        self._bootstrap, self._topic, self._per_second = bootstrap, topic, per_second
        log = GeneratorSource(seed=7, records=records).open(OpenContext(Path(), Path()))
        self._documents = (row for batch in log.read("0", 0, records) for row in batch.to_pylist())
        self._thread = threading.Thread()

    def start(self, records: int | None = None) -> None:
        """Begin to send this number of documents, or all others; return at once."""
        self._thread = threading.Thread(target=self._run, args=(records,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the broker has the documents of the last `start`."""
        self._thread.join()

    def _run(self, records: int | None) -> None:
        producer = connect_producer(self._bootstrap, linger_ms=5)
        began = time.monotonic()
        for sent, record in enumerate(itertools.islice(self._documents, records), 1):
            value = {"text": record["text"], "label": record["label"], "time": record["_time"] / 1e6}
            producer.send(self._topic, json.dumps(value).encode(), partition=record["_offset"] % _PARTITIONS)
            if sent % 100 == 0:
                time.sleep(max(0.0, began + sent / self._per_second - time.monotonic()))
        producer.flush()
        producer.close()
