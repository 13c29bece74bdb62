"""Millstream: online-learning pipelines over text streams, with a delivery guarantee that each pipeline chooses.

    import millstream as ms

    run = ms.run("configs/demo.yaml", set={"engine.type": "local"})
    print(run.summary.accuracy, run.predict(["a late goal"]))

The import has no side effect, and imports nothing else: a name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.api.advice import advise
    from millstream.api.config import Config
    from millstream.api.execution import run, start
    from millstream.api.explanation import explain
    from millstream.api.run import Run, open_run
    from millstream.api.running import Running
    from millstream.api.study import Study, compare
    from millstream.api.validation import validate
    from millstream.errors import (
        AlteredCheckpoint,
        AlteredLog,
        ConfigError,
        ConfigProblem,
        Contradiction,
        DifferentReplay,
        ForeignSink,
        InUse,
        MillstreamError,
        StepFailed,
        Truncated,
        Unavailable,
        UnknownFormat,
        WorkerLost,
    )

__all__ = [
    "AlteredCheckpoint",
    "AlteredLog",
    "Config",
    "ConfigError",
    "ConfigProblem",
    "Contradiction",
    "DifferentReplay",
    "ForeignSink",
    "InUse",
    "MillstreamError",
    "Run",
    "Running",
    "StepFailed",
    "Study",
    "Truncated",
    "Unavailable",
    "UnknownFormat",
    "WorkerLost",
    "__version__",
    "advise",
    "compare",
    "explain",
    "open_run",
    "run",
    "start",
    "validate",
]

__version__ = "0.1.0"

_MODULES = {
    "Config": "api.config",
    "Run": "api.run",
    "Running": "api.running",
    "Study": "api.study",
    "advise": "api.advice",
    "compare": "api.study",
    "explain": "api.explanation",
    "open_run": "api.run",
    "run": "api.execution",
    "start": "api.execution",
    "validate": "api.validation",
}
"""The modules of the public names that are not errors."""

if not TYPE_CHECKING:  # a type checker takes the imports above, and refuses every other name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        module = importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}")
        globals()[name] = value = getattr(module, name)
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
