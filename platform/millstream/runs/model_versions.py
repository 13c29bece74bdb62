"""The model of a run's newest checkpoint as a version, with the positions up to which it was trained."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.config.load import Loaded
from millstream.errors import MillstreamError
from millstream.guarantees.notebook_classes import unimportable_names
from millstream.log.checked_source import open_log
from millstream.log.contracts import Log, OpenContext
from millstream.log.epochs import EpochReader, Scores, Totals
from millstream.registry.artefact import Artefact
from millstream.runs.checkpoint_model import load_model
from millstream.runs.directory import RunDirectory
from millstream.runs.user_code import user_code
from millstream.state.model_version import ModelVersion, Trained
from millstream.steps.contracts import Scope
from millstream.steps.nodes import Node

__all__ = ["artefact_of", "check_steps", "newest_artefact", "step_options", "version_steps"]


def newest_artefact(directory: RunDirectory, loaded: Loaded, step: str | None = None) -> Artefact:
    """The model of the newest checkpoint with what it needs to predict; `step` names it if several steps classify.

    The logs are opened for their identities. Refuses a model that has learned nothing, or that needs other state.
    """
    model = load_model(directory, loaded, step)
    node, before = model.texts.node, model.texts.before
    check_steps(before, node)
    model.predict([""])  # refuses a model without labels, and one that needs other fields
    reader = EpochReader(directory.epochs)
    totals = reader.totals_upto(model.checkpoint.epoch)
    version = ModelVersion(
        step=node.name,
        state=model.classify.version_state(),
        steps=version_steps(loaded, (*before, node)),
        trained=_trained(loaded, totals),
        cuts=reader.id,
        latest=model.latest,
    )
    return artefact_of(version, loaded, model.texts.records, totals.scores.get(node.name, Scores()))


def artefact_of(version: ModelVersion, loaded: Loaded, records: pa.Schema, scores: Scores) -> Artefact:
    """A version with what it needs to predict; `records` has the columns that the first step before the model gets."""
    modules = sorted({name.partition(":")[0] for name in user_code(loaded.config)})
    return Artefact(version, [field for field in records.names if not field.startswith("_")], modules, scores)


def check_steps(before: Sequence[Node], model: Node) -> None:
    """Refuse steps that a version cannot have: those with state before the model, and the code of a notebook."""
    for each in before:
        if each.traits.scope is not Scope.STATELESS:
            message = (
                f"the step {each.name!r} before the model {model.name!r} has state, which a version of the model does "
                "not have; only steps without state may be between the log and a model that is exported"
            )
            raise MillstreamError(message)
    for each in (*before, model):
        for _, name in unimportable_names(each.config, each.path):
            message = (
                f"the step {each.name!r} has {name}, which a notebook, a script or a function defines, so a version of "
                "the model cannot have its code; move it into a module"
            )
            raise MillstreamError(message)


def version_steps(loaded: Loaded, steps: Iterable[Node]) -> tuple[Mapping[str, Any], ...]:
    """The steps up to a model as a version has them; refuses options from the environment."""
    return tuple(step_options(loaded, step) for step in steps)


def step_options(loaded: Loaded, node: Node) -> Mapping[str, Any]:
    """The name and the options of a step; refuses options from the environment, which may be secrets.

    The options of the model are those of the version that has entered the step, if one has. A shadow is left out.
    """
    options = node.config.model_dump(mode="json", exclude={"shadow", "warm_start"})
    if loaded.redacted(options, node.path) != options:
        message = (
            f"the step {node.name!r} has values from the environment, which a version of a model does not keep; write "
            "them into the config"
        )
        raise MillstreamError(message)
    entered = getattr(node.step, "model_options", None)
    return {"name": node.name, **options, **({} if entered is None else {"model": entered})}


def _trained(loaded: Loaded, totals: Totals) -> Mapping[str, Mapping[str, Trained]]:
    """The position of each partition, with the identity of the log up to there."""
    found: dict[str, dict[str, Trained]] = {}
    with ExitStack() as ending:
        cache = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="millstream-export-")))
        logs: dict[str, Log] = {}
        for source in loaded.config.logs:
            folder = cache / source.name
            folder.mkdir()
            context = OpenContext(loaded.folder, folder, loaded.config.name, fail_fast=True)
            logs[source.name] = open_log(source.config, context)
            ending.callback(logs[source.name].close)
        for rank, partition in enumerate(totals.partitions):
            upto = totals.positions[rank]
            identity = logs[partition.source].identity(partition.name, upto)
            found.setdefault(partition.source, {})[partition.name] = Trained(upto, identity)
    return found
