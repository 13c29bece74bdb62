"""A search in MLflow: one run with its table and plot, and below it a run for each candidate."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import yaml

from millstream.config.load import Loaded
from millstream.config.models import Mlflow
from millstream.history.search.judgement import Judgement
from millstream.history.search.search import PLOT, Searched
from millstream.log.journal.durability import write_whole
from millstream.plain_text import short, value_text
from millstream.registry.experiments import open_experiment
from millstream.registry.settings import quietly, tracking_uri

__all__ = ["record_search"]

_LONGEST_WARNING = 200
_LONGEST_PARAM = 500
_SEARCH, _PARENT = "millstream.search", "mlflow.parentRunId"


def record_search(found: Searched, loaded: Loaded, warn: Callable[[str], None]) -> str | None:
    """Record a search, unless the store has it already; returns the MLflow run of the best candidate.

    None if the config records nothing. If MLflow fails, `warn` is called; a later call records the search.
    """
    config, known = loaded.config.mlflow, found.path / "mlflow.json"
    if not config:
        return None
    uri = tracking_uri(config, os.environ)
    record = _Record(found, loaded, config, uri)
    store = {"store": loaded.redact(uri)}
    written = json.loads(known.read_text()) if known.exists() else {}
    if store.items() <= written.items():
        return str(written["best"])
    try:
        runs = quietly(record.write)
    except Exception as error:  # any error of the store of MLflow: the search is done, and its model is there
        reason = shorten(str(error).strip() or type(error).__name__, _LONGEST_WARNING, placeholder=" ...")
        warn(f"MLflow: {loaded.redact(reason)}; the search is not recorded: the same command tries again")
        return None
    write_whole(known, json.dumps({**store, **runs}))
    return runs["best"]


@dataclass(frozen=True)
class _Record:
    """The record of a search in one store of MLflow."""

    found: Searched
    loaded: Loaded
    config: Mlflow
    uri: str

    def write(self) -> dict[str, str]:
        """Write the runs, and remove those of an interrupted record; returns the ids of the search and of the best."""
        from mlflow import MlflowClient

        client: Any = MlflowClient(tracking_uri=self.uri)
        experiment = open_experiment(client, self.config.experiment)
        _remove_interrupted(client, experiment, self._key)
        search = self._write_search(client, experiment)
        children = [self._write_candidate(client, experiment, search, row) for row in self._rows]
        client.set_terminated(search)
        return {"run": search, "best": children[0]}

    @property
    def _key(self) -> str:
        """The tag of this search: that of its folder and its model."""
        text = f"{self.found.path.absolute()} {self.found.result['digest']}"
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    @property
    def _rows(self) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = self.found.result["candidates"]
        return rows

    def _write_search(self, client: Any, experiment: str) -> str:
        from mlflow.entities import Metric, Param

        result, best = self.found.result, self._rows[0]
        tags = {_SEARCH: self._key, "millstream.training": str(self.found.path.absolute())}
        run = str(client.create_run(experiment, run_name=f"search {self.loaded.config.name}", tags=tags).info.run_id)
        options: Any = self.loaded.config.search
        about = {
            "step": result["step"],
            "candidates": len(self._rows),
            "records": result["rows"],
            "halving": options.halving,
            "held_out": options.held_out,
            **{f"best.{key}": value for key, value in best["values"].items()},
        }
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, 0) for name, value in _accuracies(best).items()]
        client.log_batch(run, metrics=metrics, params=[Param(key, _param(value)) for key, value in about.items()])
        shown = ("place", "candidate", "rung", "records", "accuracy", "held_out", "error")
        table = {name: [row[name] for row in self._rows] for name in shown}
        values = [", ".join(f"{key}={value_text(each)}" for key, each in row["values"].items()) for row in self._rows]
        client.log_table(run, {**table, "values": values}, "candidates.json")
        client.log_artifact(run, str(self.found.path / PLOT))
        config = yaml.safe_dump(self.loaded.resolved(), sort_keys=False, allow_unicode=True)
        client.log_text(run, self.loaded.redact(config), "config.yaml")
        return run

    def _write_candidate(self, client: Any, experiment: str, search: str, row: Mapping[str, Any]) -> str:
        from mlflow.entities import Metric, Param

        words = ", ".join(f"{key.removeprefix('model.')}={value_text(value)}" for key, value in row["values"].items())
        name = f"{row['candidate']}: {short(words)}"
        run = str(client.create_run(experiment, run_name=name, tags={_PARENT: search}).info.run_id)
        now = int(time.time() * 1000)
        metrics = [Metric("rung", row["rung"], now, 0), Metric("seconds", row["seconds"], now, 0)]
        for judgement in self._judgements(row["candidate"]):
            accuracies = {"accuracy": judgement.prequential.share, "held_out": judgement.held_out.share}
            each = _accuracies(accuracies).items()
            metrics += [Metric(name, value, now, judgement.records) for name, value in each]
        metrics += [
            Metric("span_accuracy", accuracy.share, now, min((index + 1) * judgement.span, judgement.records))
            for index, accuracy in enumerate(judgement.curve)
            if accuracy.share is not None
        ]
        params = {"model.type": row["type"], **row["values"]}
        client.log_batch(run, metrics=metrics, params=[Param(key, _param(value)) for key, value in params.items()])
        if row["error"] is not None:
            client.set_tag(run, "millstream.error", row["error"])
        client.set_terminated(run, "FINISHED" if row["error"] is None else "FAILED")
        return run

    def _judgements(self, candidate: int) -> list[Judgement]:
        """The judgements of a candidate, one for each of its rungs."""
        return [Judgement.load(file) for file in sorted((self.found.path / "judged").glob(f"*-{candidate:04d}.json"))]


def _accuracies(row: Mapping[str, float | None]) -> dict[str, float]:
    named = {"accuracy": row["accuracy"], "held_out_accuracy": row["held_out"]}
    return {name: share for name, share in named.items() if share is not None}


def _param(value: Any) -> str:
    return value_text(value)[:_LONGEST_PARAM]


def _remove_interrupted(client: Any, experiment: str, key: str) -> None:
    """Remove the runs of interrupted records of the same search; a complete one may have a registered version."""
    for search in client.search_runs([experiment], f"tags.`{_SEARCH}` = '{key}' and attributes.status != 'FINISHED'"):
        for run in client.search_runs([experiment], f"tags.`{_PARENT}` = '{search.info.run_id}'"):
            client.delete_run(run.info.run_id)
        client.delete_run(search.info.run_id)
