"""Processes that begin as forks of one that has imported what this one has, so that a start takes milliseconds."""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.context import ForkServerContext

from millstream.config.models import Config

__all__ = ["fork_server"]

_LIBRARIES = ("millstream", "numpy", "pandas", "pyarrow", "river", "scipy", "sklearn")  # pyarrow imports pandas


def fork_server(config: Config) -> ForkServerContext:
    """Where to start processes that run a pipeline. What is imported by now counts, at the first start."""
    plugged = [plugin for step in config.steps for plugin in (step.config, getattr(step.config, "model", None))]
    roots = {*_LIBRARIES, *(type(plugin).__module__.partition(".")[0] for plugin in plugged)}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in sys.modules if name.partition(".")[0] in roots])
    return context
