"""The fork server: it has imported the libraries of the pipeline, so that processes start in milliseconds."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

from millstream.compiled.later_imports import import_noted
from millstream.config.models import Config

__all__ = ["fork_server", "start_process"]

_FIRST = "millstream.blas_threads"
"""The module that comes before numpy: it sets the number of BLAS threads, which this process may leave alone."""
_LIBRARIES = ("millstream", "numpy", "pandas", "pyarrow", "river", "scipy", "sklearn")  # pyarrow imports pandas
_LAZY = ("pandas", "pyarrow.pandas_compat", "pyarrow.vendored.version")
"""Modules that pyarrow imports with the first array made of Python objects, where pandas is installed."""


def fork_server(config: Config) -> ForkServerContext:
    """Return the context that starts processes of a pipeline.

    The fork server starts with the first process, and imports the libraries that this process has imported so far.
    """
    import_noted()  # else every process would import numba
    plugged = [plugin for step in config.steps for plugin in (step.config, getattr(step.config, "model", None))]
    roots = {*_LIBRARIES, *(type(plugin).__module__.partition(".")[0] for plugin in plugged)}
    context = multiprocessing.get_context("forkserver")
    names = [name for name in sys.modules if name.partition(".")[0] in roots]
    context.set_forkserver_preload([_FIRST, *names, *_LAZY])
    return context


def start_process(process: BaseProcess) -> None:
    """Start a process through the fork server.

    With the fork server, Python starts a process that removes the named semaphores and shared memory of processes that
    were killed. If it was killed itself, Python starts it again, with a warning that some may be left. A pipeline has
    neither, so the warning says nothing to its user.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "resource_tracker: process died unexpectedly", UserWarning)
        process.start()
