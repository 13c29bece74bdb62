"""The process in which a version catches up with a run: `python -m millstream.runs.shadow.process`.

It is apart from the processes of the engine, so it takes neither their memory nor the lock of their interpreter. The
thread that catches up has a low priority; the main thread, which learns the last few epochs while the run waits, has
not. The process ends when the run is gone.

    to the process     the `LearnerSpec`; later `Finish`
    from the process   `Progress` after every round, at the end `Entry` or `Refused`
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection

from millstream.errors import MillstreamError, Unavailable
from millstream.runs.shadow.learner import Learner, LearnerSpec
from millstream.runs.shadow.messages import Finish, Progress, Refused

__all__ = ["main"]

_ROUND_SECONDS = 0.02
"""The time between two looks at the epoch log."""
_PROGRESS_SECONDS = 0.5
"""The time between two reports within a long round."""
_LONGEST_ROUND = 0.03
"""A version is close to the run if its last round took no longer, in seconds."""
_LOWER_PRIORITY = 10


def main(connection: Connection) -> None:
    """Catch up until `Finish` comes, or until the run is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the run handles Ctrl-C
    with suppress(EOFError, OSError):  # the run is gone
        try:
            spec: LearnerSpec = connection.recv()
            _catch_up(connection, Learner(spec))
        except Unavailable as error:
            connection.send(Refused(str(error), again=True))
        except MillstreamError as error:
            connection.send(Refused(str(error), again=False))
        except (EOFError, BrokenPipeError, ConnectionError):
            raise
        except OSError as error:
            connection.send(Refused(str(error), again=True))
        except Exception as error:
            connection.send(Refused(f"{type(error).__name__}: {error}", again=False))
    os._exit(0)  # a thread that learns does not delay the end


def _catch_up(connection: Connection, learner: Learner) -> None:
    background = _Background(connection, learner)
    background.start()
    finish: Finish = connection.recv()
    background.stop()
    connection.send(learner.finish(finish.epoch, finish.models))


class _Background:
    """The thread that follows the run; it pauses after every epoch if the main thread wants to go on alone."""

    def __init__(self, connection: Connection, learner: Learner) -> None:
        self._connection, self._learner = connection, learner
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None
        self._reported: Progress | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        if sys.platform == "linux":  # there a thread has a priority of its own
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY)
        try:
            while not self._stopping.is_set():
                self._round()
                self._stopping.wait(_ROUND_SECONDS)
        except Exception as error:
            self._error = error
            again = isinstance(error, Unavailable | OSError)
            with suppress(OSError):
                self._connection.send(Refused(str(error) or type(error).__name__, again))

    def _round(self) -> None:
        """Follow the epochs that the run has cut by now, and report."""
        learner, said = self._learner, time.monotonic()
        for records in learner.rounds():
            if self._stopping.is_set():
                return
            if time.monotonic() - said >= _PROGRESS_SECONDS:
                self._report(Progress(learner.epoch, records, learner.ahead, close=False))
                said = time.monotonic()
        close = learner.seconds <= _LONGEST_ROUND and not learner.waits
        self._report(Progress(learner.epoch, learner.records, learner.ahead, close))

    def _report(self, progress: Progress) -> None:
        if progress != self._reported:
            self._connection.send(progress)
            self._reported = progress


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
