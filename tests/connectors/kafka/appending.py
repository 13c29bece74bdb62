"""A process that appends epochs to a Kafka sink, to be killed: `appending.py BOOTSTRAP TOPIC append|prepare UNTIL`.

`append` goes on from the mark, epoch after epoch, and says each when it is appended. `prepare` says what it has
prepared, and waits for its end.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from connectors.kafka.sinking import Sinking, epoch, mark

__all__ = ["ROWS", "process"]

ROWS = 20


def process(sinking: Sinking, what: str, until: int) -> subprocess.Popen[str]:
    """Start it."""
    command = [sys.executable, __file__, sinking.bootstrap, sinking.topic, what, str(until)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def main(bootstrap: str, topic: str, what: str, until: str) -> None:
    sink = Sinking(bootstrap, topic).open()
    held = sink.mark()
    for number in itertools.count(0 if held is None else held.epoch + 1):
        if what == "prepare":
            print(json.dumps(dict(sink.prepare(epoch(number, ROWS), mark(number)))), flush=True)  # noqa: T201
            sys.stdin.read()
        elif number >= int(until):
            break
        else:
            sink.append(epoch(number, ROWS), mark(number))
            print(number, flush=True)  # noqa: T201
    sink.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
