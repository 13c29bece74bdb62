"""MLflow runs for versions that come from no recorded run: from a training, or from a run without `mlflow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["SourceRun", "log_params"]

_MOST_PARAMS = 100


@dataclass(frozen=True)
class SourceRun:
    """An MLflow run that is to be made: its name, its tags, the config as params and as text, and its datasets."""

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    config: str
    datasets: Sequence[Any]

    def make(self, client: Any, experiment: str) -> str:
        """Make the run, which has ended; its id."""
        run: str = client.create_run(experiment, run_name=self.name, tags=dict(self.tags)).info.run_id
        log_params(client, run, self.params)
        client.log_inputs(run, list(self.datasets))
        client.log_text(run, self.config, "config.yaml")
        client.set_terminated(run)
        return run


def log_params(client: Any, run: str, params: Mapping[str, str]) -> None:
    """Log params, which the server takes in parts."""
    from mlflow.entities import Param

    logged = [Param(name, value) for name, value in params.items()]
    for start in range(0, len(logged), _MOST_PARAMS):
        client.log_batch(run, params=logged[start : start + _MOST_PARAMS])
