"""The steps whose state a fork keeps: steps of the same name whose state means the same under the new config.

An option with `json_schema_extra={"keeps_state": True}` may change without a loss of state, such as the threshold of
popularity. A step starts over if any other option changed, or the step that makes the features of its model. A join
stores records, so it starts over if a step or the fields before it changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from millstream.runs.config_difference import difference
from millstream.shadow_names import champion_of, is_shadow
from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node

__all__ = ["StepChange", "step_changes"]

_FEATURES = "features"
"""The column that a model reads unless its config says otherwise."""
_NOT_STATE = ("name", "from")


@dataclass(frozen=True)
class StepChange:
    """A step of the old config or of the new one: its state is kept, or it starts over or is dropped for a `reason`."""

    step: str
    kept: bool
    reason: str = ""

    def describe(self) -> str:
        """Describe the change in a few words.

        >>> StepChange("classify", False, "starts over: model.type was sgd, is ftrl").describe()
        'starts over: model.type was sgd, is ftrl'
        """
        return "keeps its state" if self.kept else self.reason


def step_changes(
    graph: Graph,
    was: Mapping[str, Any],
    now: Mapping[str, Any],
) -> list[StepChange]:
    """Compare the steps with state; `was` and `now` are the fixed parts of the two configs."""
    compared = _Compared(graph, was, now)
    changes = []
    for node in graph.steps:
        if node.traits.scope is not Scope.STATELESS:
            reason = compared.reason(node)
            changes.append(
                StepChange(node.name, kept=reason is None, reason=f"starts over: {reason}" if reason else "")
            )
    here = {node.name for node in graph.steps}
    gone = [name for name in compared.was if name not in here]
    return [*changes, *(StepChange(name, False, "is dropped: the new config has no such step") for name in gone)]


class _Compared:
    def __init__(self, graph: Graph, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        self._graph = graph
        self.was = {step["name"]: step for step in was["steps"]}
        self._now = {step["name"]: step for step in now["steps"]}
        self._fields = [_fields(was["source"]), _fields(now["source"])]
        self._shards = [was["shards"], now["shards"]]

    def reason(self, node: Node) -> str | None:
        """Why the state of a step is not kept; None if it is."""
        if is_shadow(node.name):
            return self._other_shadow(self._graph.node(champion_of(node.name)))
        if node.name not in self.was:
            return "the old config has no such step"
        if changed := self._changed(node):
            return changed
        if node.traits.scope is Scope.KEYED and self._shards[0] != self._shards[1]:
            return f"shards was {self._shards[0]}, is {self._shards[1]}"
        if node.joined is not None:
            return self._other_records(node)
        return self._other_features(node)

    def _other_shadow(self, champion: Node) -> str | None:
        """Why the state of a champion's shadow is not kept; the options of the champion's model do not count."""
        if champion.name not in self.was:
            return f"the old config has no step {champion.name!r}"
        if champion.config.label != (label := self.was[champion.name].get("label")):
            return difference(label, champion.config.label, "label")
        return self._other_features(champion)

    def _changed(self, node: Node) -> str | None:
        if node.name not in self.was:
            return "the old config has no such step"
        return _changed_option(node.config, self.was[node.name], self._now[node.name])

    def _other_records(self, node: Node) -> str | None:
        """Why the stored records of a step may have other columns than those that it gets now."""
        if self._fields[0] != self._fields[1]:
            return f"the fields of its records changed: {difference(*self._fields)}"
        streams = [self.was[node.name].get("from"), self._now[node.name].get("from")]
        if streams[0] != streams[1]:
            return f"from {difference(*streams)}"
        for before in self._before(node):
            if changed := self._changed(before):
                return f"it stores records of step {before.name}, which changed: {changed}"
        return None

    def _other_features(self, node: Node) -> str | None:
        """Why the features that a model has learned from mean something else now."""
        model = getattr(node.config, "model", None)
        if model is None:
            return None
        column = getattr(model, "reads", _FEATURES)
        for before in self._before(node):
            makes = column in before.made.names and column not in before.records.names
            if makes and (changed := self._changed(before)):
                return f"it learns from step {before.name}, which changed: {changed}"
        return None

    def _before(self, node: Node) -> Iterator[Node]:
        """The steps through which the records of a step came."""
        seen, waiting = {node.name}, [node]
        while waiting:
            for stream in waiting.pop().reads:
                maker = self._graph.streams[stream].maker
                if maker is not None and maker not in seen:
                    seen.add(maker)
                    waiting.append(self._graph.node(maker))
                    yield waiting[-1]


def _fields(sources: Mapping[str, Any]) -> Any:
    several = sources.values() if "type" not in sources or not isinstance(sources["type"], str) else [sources]
    return [source.get("fields") for source in several]


def _changed_option(config: object, was: Mapping[str, Any], now: Mapping[str, Any], path: str = "") -> str | None:
    """The first option on which the meaning of a state depends and that changed, with both values."""
    fields = {field.alias or name: (name, field) for name, field in getattr(type(config), "model_fields", {}).items()}
    for key in [*was, *(key for key in now if key not in was)]:
        before: Any = was.get(key)
        after: Any = now.get(key)
        if before == after or (not path and key in _NOT_STATE):
            continue
        name, field = fields.get(key, (key, None))
        extra = field.json_schema_extra if field is not None else None
        if isinstance(extra, dict) and extra.get("keeps_state"):
            continue
        part = getattr(config, name, None)
        if isinstance(part, BaseModel) and _same_type(before, after):
            if changed := _changed_option(part, before, after, f"{path}{key}."):
                return changed
            continue
        return difference(before, after, f"{path}{key}")
    return None


def _same_type(before: Any, after: Any) -> bool:
    return isinstance(before, dict) and isinstance(after, dict) and before.get("type") == after.get("type")
