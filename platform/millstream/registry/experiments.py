"""Experiments of MLflow, which its UI shows with the pages for models that are trained."""

from __future__ import annotations

from typing import Any

from millstream.errors import MillstreamError

__all__ = ["open_experiment"]

_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""Without this tag the UI shows an experiment as one of prompts and traces."""


def open_experiment(client: Any, name: str) -> str:
    """The id of the experiment of this name, which is made if there is none."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, tags=_KIND))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        found = client.get_experiment_by_name(name)  # another process or thread has made it
    if found.lifecycle_stage != "active":
        message = f"the experiment {name!r} was deleted; restore it, or give another `experiment`"
        raise MillstreamError(message)
    return str(found.experiment_id)
