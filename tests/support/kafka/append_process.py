"""A process that appends epochs to a Kafka sink, for kill tests.

Usage: `append_process.py BOOTSTRAP TOPIC append|prepare UNTIL`.

`append` continues after the progress, epoch after epoch, and prints the number of each appended epoch. `prepare` prints
the token of the prepared epoch, and waits until it is killed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

from support.kafka.sink_topic import SinkTopic, epoch, progress

__all__ = ["ROWS", "start_process"]

ROWS = 20


def start_process(sink_topic: SinkTopic, action: str, until: int) -> subprocess.Popen[str]:
    """Start the process."""
    command = [sys.executable, __file__, sink_topic.bootstrap, sink_topic.topic, action, str(until)]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    # With an input that stays open, the process waits after `prepare`; at the end of its input it would go on.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def main(bootstrap: str, topic: str, action: str, until: str) -> None:
    sink = SinkTopic(bootstrap, topic).open()
    held = sink.fence(0)
    for number in itertools.count(0 if held is None else held.epoch + 1):
        if action == "prepare":
            print(json.dumps(dict(sink.prepare(epoch(number, ROWS), progress(number)))), flush=True)  # noqa: T201
            sys.stdin.read()
        elif number >= int(until):
            break
        else:
            sink.append(epoch(number, ROWS), progress(number))
            print(number, flush=True)  # noqa: T201
    sink.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
