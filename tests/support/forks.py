"""The fork server of the tests, from which workers are forked."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from functools import cache
from multiprocessing import forkserver

__all__ = ["start_fork_server"]

_MODULES = (
    "millstream.steps.classify",
    "millstream.steps.popularity",
    "millstream_connectors.files.sink",
    "millstream_connectors.files.source",
    "millstream_connectors.journal",
    "millstream_models.compiled.naive_bayes",
    "millstream_models.compiled.softmax",
    "millstream_models.compiled.words",
    "millstream_models.hashed_text",
    "millstream_models.naive_bayes",
    "millstream_models.online.ftrl",
    "millstream_models.online.naive_bayes",
    "millstream_models.online.softmax",
    "millstream_models.sgd",
    "millstream_pipelines.text_topics",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "sklearn.linear_model",
    "sklearn.preprocessing",
)
_ROOTS = ("millstream", "millstream_connectors", "millstream_models", "numpy", "pandas", "pyarrow", "scipy", "sklearn")


@cache
def start_fork_server() -> None:
    """Start the fork server with the libraries of all models.

    If a pipeline without these models started it, every worker of a later pipeline would have to import them.
    """
    for name in _MODULES:
        importlib.import_module(name)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.partition(".")[0] in _ROOTS])
    forkserver.ensure_running()
