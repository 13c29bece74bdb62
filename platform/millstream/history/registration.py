"""Registration of a trained model, as a version in the registry of MLflow."""

from __future__ import annotations

from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.history.backfill import checked_way
from millstream.history.train import Trained
from millstream.history.way import Way
from millstream.log.epochs import Scores
from millstream.registry.versions import RegisteredVersion
from millstream.runs.export import Origin, check_name, export_artefact
from millstream.runs.model_versions import artefact_of, check_steps

__all__ = ["check", "register"]


def check(loaded: Loaded, name: str, step: str | None = None) -> Way:
    """Refuse a model that could not be registered after its training; returns the way of records to the model."""
    check_name(name)
    way = checked_way(loaded, step, "training on a history")
    check_steps(way.steps, way.model)
    return way


def register(trained: Trained, loaded: Loaded, name: str, run: str | None = None) -> RegisteredVersion:
    """Register a trained model as the next version of the model `name`, unless it is the newest one already.

    `run` is the MLflow run to which the version belongs; None: one of its own.
    """
    version, result = trained.version, trained.result
    if not version.labels:
        message = "the model has learned no label, so it is not registered; name the field of the label in the source"
        raise MillstreamError(message)
    way = check(loaded, name, version.step)
    scores = Scores(result["labelled"], result["correct"]) if "correct" in result else Scores()
    artefact = artefact_of(version, loaded, (*way.steps, way.model)[0].records, scores)
    origin = Origin("train", {"millstream.training": str(trained.path.absolute())}, run)
    return export_artefact(artefact, loaded, name, origin)
