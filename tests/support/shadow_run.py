"""A program that runs a pipeline with a shadow: a version enters at one epoch, and a swap comes at another one.

python -m support.shadow_run FOLDER RUN WORKERS [CRASH]     CRASH is a point of an epoch, such as deliver@5
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.documents import EPOCH_RECORDS
from support.planned_events import PlannedEvents, entering

from millstream.config.load import Loaded, read_config
from millstream.guarantees.crash_point import CrashPoint
from millstream.log.epochs import Event, Swap
from millstream.runs.start import Options, start
from millstream.runs.summary import Summary
from millstream.state.model_version import ModelVersion

__all__ = ["ENTERS", "SWAPS", "config", "run"]

ENTERS, SWAPS = 2, 5


def config(folder: Path, workers: int, model: str = "sgd") -> Loaded:
    steps = [
        {"type": "hashed_text", "name": "features", "dimensions": 256},
        {
            "type": "classify",
            "name": "label",
            "model": {"type": model, "batch_size": 16},
            "shadow": {"from": "models:/news@challenger"},
        },
    ]
    content = {
        "name": "shadowed",
        "source": {"type": "files", "path": "documents"},
        "pipeline": {"steps": steps},
        "engine": {"type": "local", "workers": workers, "epoch": {"max_records": EPOCH_RECORDS}},
    }
    return read_config(content, folder, "shadowed.yaml")


def run(folder: Path, name: str, workers: int = 1, crash: str | None = None) -> Summary:
    """Make one start; with `crash`, SIGKILL ends this process there."""
    version = ModelVersion.load(folder / "version")
    events: dict[int, list[Event]] = {
        ENTERS: [entering("label_shadow", version)],
        SWAPS: [Swap("label", "models:/news/1")],
    }
    return start(
        config(folder, workers),
        Options(folder / name, crash=None if crash is None else CrashPoint.parse(crash)),
        inbox=lambda store: PlannedEvents(events, [version], store),
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
