"""The candidates of a search: the config with other options of the model, each built before any work begins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.config.document import KeyPath, Problem
from millstream.config.load import Loaded
from millstream.config.search import Choice, Search
from millstream.errors import ConfigError, ConfigProblem
from millstream.guarantees.validation import checked_graph
from millstream.history.way import Way, refuse_versions, way_to_model
from millstream.plain_text import short, value_text

__all__ = ["Candidate", "candidates_of"]

_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class Candidate:
    """One candidate: its number, from 1 on, the values of its options, and the config that has them.

    The config has no `search`: it is that of a pipeline with this model.
    """

    number: int
    values: Mapping[str, Any]
    loaded: Loaded
    way: Way

    @property
    def model(self) -> Mapping[str, Any]:
        """All options of the model."""
        options: Mapping[str, Any] = self.way.model.config.model.model_dump(mode="json")
        return options

    def __str__(self) -> str:
        return _described(self.number, self.values)


def candidates_of(loaded: Loaded, step: str | None = None) -> list[Candidate]:
    """The candidates of a config; `ConfigError` names those whose options the model refuses, with their values.

    `step` is the step that classifies, in place of that in the config.
    """
    search = loaded.config.search
    if search is None:
        message = (
            f"{loaded.file} has no `search`, which names the values to try; for example "
            "`search: {over: {model.alpha: [0.1, 1.0]}}`"
        )
        raise ConfigError(message)
    refuse_versions(loaded, "a search on a history")
    if outside := [path for path in loaded.document.references if path[:2] == ("search", "over")]:
        loaded.refuse([Problem(outside[0], "a value from the environment is no candidate; write it into the config")])
    try:
        model = _model_path(way_to_model(checked_graph(loaded, packages=False), step or search.step))
    except ConfigError as error:
        if step is None and search.step is not None and str(error).startswith("no step "):
            loaded.refuse([Problem(("search", "step"), str(error))])
        raise
    written = loaded.written().at(model)
    found: list[Candidate] = []
    refused: dict[Problem, list[str]] = {}
    for number, choice in enumerate(search.choices(), 1):
        sets = [(".".join(map(str, model)), _with_values(written, choice.values)), ("search", None)]
        try:
            changed = loaded.changed(sets)
            way = way_to_model(checked_graph(changed, packages=False), step or search.step)
        except ConfigError as error:
            for problem in error.problems:
                placed = _placed(problem, choice, model, search)
                refused.setdefault(placed, []).append(_described(number, choice.values))
        else:
            found.append(Candidate(number, choice.values, changed, way))
    if refused:
        loaded.refuse(list(_refusals(refused))[:_MOST_PROBLEMS])
    return found


def _described(number: int, values: Mapping[str, Any]) -> str:
    return f"candidate {number} ({', '.join(f'{key}={short(value_text(value))}' for key, value in values.items())})"


def _model_path(way: Way) -> KeyPath:
    """The key path of the model's mapping; the path of a step in a named pipeline may be that of its model."""
    path = way.model.path
    return path if path[-1] == "model" else (*path, "model")


def _with_values(written: Any, values: Mapping[str, Any]) -> Any:
    """The mapping of a model with these values: with another `type`, it has no other options than these."""
    model = json.loads(json.dumps(values.get("model", written or {})))
    if not isinstance(model, dict):
        return model
    kind = values.get("model.type", model.get("type"))
    if kind != model.get("type"):
        model = {"type": kind}
    for key in sorted(values, key=lambda key: key.count(".")):
        holder = model
        *outer, last = key.split(".")[1:] or [""]
        for part in outer:
            if not isinstance(holder.get(part), dict):
                holder[part] = {}
            holder = holder[part]
        if last:
            holder[last] = values[key]
    return model


def _placed(problem: ConfigProblem, choice: Choice, model: KeyPath, search: Search) -> Problem:
    """A problem of a candidate at the searched option that causes it, or at `over`."""
    over: KeyPath = ("search", "over", choice.space) if isinstance(search.over, list) else ("search", "over")
    dotted = ".".join(map(str, model))
    key = f"model{problem.key.removeprefix(dotted)}" if f"{problem.key}.".startswith(f"{dotted}.") else ""
    searched = [each for each in choice.values if f"{key}.".startswith(f"{each}.") or each.startswith(f"{key}.")]
    hint, one_space = "", not isinstance(search.over, list)
    if one_space and problem.message.startswith("unknown key") and {"model", "model.type"} & choice.values.keys():
        hint = "; models with other options need a space of their own: `over` is then a list of mappings"
    message = problem.message if searched or not problem.key else f"{problem.key}: {problem.message}"
    return Problem((*over, max(searched, key=len)) if searched else over, f"{message}{hint}")


def _refusals(refused: Mapping[Problem, Sequence[str]]) -> Iterator[Problem]:
    for problem, candidates in refused.items():
        others = f" and {len(candidates) - 1:,} more" if len(candidates) > 1 else ""
        yield Problem(problem.path, f"{candidates[0]}{others}: {problem.message}")
