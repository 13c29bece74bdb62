"""A small pipeline over generated documents, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.config.load import Loaded, read_config

Configured = Callable[..., Loaded]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """A function that makes a config of 3,000 documents in epochs of 300; arguments replace parts of it."""

    def make(**changes: Any) -> Loaded:
        config: dict[str, Any] = {
            "name": "small",
            "source": {"type": "generator", "records": 3000},
            "pipeline": {
                "use": "text_topics",
                "features": {"type": "hashed_text", "dimensions": 1024},
                "model": {"type": "complement_nb", "batch_size": 32},
                "popularity": {"window": {"type": "tumbling", "size": "10m"}},
            },
            "engine": {"type": "local", "epoch": {"max_records": 300}},
        }
        return read_config({**config, **changes}, tmp_path, "small.yaml")

    return make
