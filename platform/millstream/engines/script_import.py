"""The import of a program's script in another process: it starts no run, unlike the script itself.

A worker process imports the script of the program first. A script that starts a run outside
`if __name__ == "__main__":` would start the run again in each of its workers.
"""

from __future__ import annotations

import multiprocessing
import os
import sys

from millstream.config.models import Config
from millstream.errors import MillstreamError

__all__ = ["STARTS_RUN", "process_name", "refuse_run_in_import", "refuse_script_without_file", "unguarded_run"]

STARTS_RUN = 86
"""The exit code of a worker whose import of the script starts a run."""
_WORKER = "millstream worker: "


def process_name(worker: str) -> str:
    """Return the name of the process of a worker."""
    return f"{_WORKER}{worker}"


def refuse_run_in_import() -> None:
    """Refuse a start of a run in a process that imports the script of another process.

    A worker ends at once, so that no handler of the script hides the reason from the run that started the worker.
    """
    process = multiprocessing.current_process()
    if not getattr(process, "_inheriting", False):  # the mark by which Python refuses new processes then
        return
    if process.name.startswith(_WORKER):
        os._exit(STARTS_RUN)
    raise unguarded_run()


def refuse_script_without_file(config: Config) -> None:
    """Refuse workers for a script that no process can import, such as one that Python reads from standard input."""
    if config.engine.type != "local" or config.engine.workers == 1:
        return
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    if getattr(main, "__spec__", None) is None and script is not None and not os.path.exists(script):
        message = (
            f"each worker process imports the script of the program, and the script is no file ({script}): save the "
            "script in a file, or set engine.workers to 1"
        )
        raise MillstreamError(message)


def unguarded_run() -> MillstreamError:
    """Return the error for a script that starts a run while another process imports the script."""
    script = getattr(sys.modules["__main__"], "__file__", None) or "the script"
    return MillstreamError(
        f"{script} starts a run whenever it is imported, and each new process imports it: put the calls that start "
        'runs below `if __name__ == "__main__":`'
    )
