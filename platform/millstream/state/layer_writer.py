"""The layers that the owner of some state writes, one for each checkpoint.

Each section of the state has a chain: a base with all of it, and changes. The n-th section of a chain rests on the one
with number n - 1 or, if n is a multiple of 16, n - 16; of 256, n - 256; and so on (numbers counted from the base), and
also has the changes of the sections that it leaves out. So loading a state reads a few sections, however many were
written. When the changes have more bytes than the base, a new base is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from millstream.state.background import Work
from millstream.state.changes import array_entry
from millstream.state.dirty_rows import ArraySnapshot, Value
from millstream.state.files import write_durably
from millstream.state.keyed_state import Entries, KeyedSnapshot, ShardedSnapshot, divide
from millstream.state.layers import LayerContent, Layers, OpenLayers, Section, Sections
from millstream.state.sections import array_chunks, key_chunks
from millstream.state.stored_states import States

__all__ = ["LayerWriter"]

_SPAN = 16
_Place = tuple[str, int]


@dataclass(frozen=True)
class _Link:
    """A section of a chain, and its number."""

    section: Section
    number: int


@dataclass(frozen=True)
class _Chain:
    """The sections of a step and shard, the number of sections since the base, and the state that they make up."""

    links: tuple[_Link, ...]
    number: int
    state: Mapping[str, Value]
    base_bytes: int
    changed_bytes: int = 0

    @property
    def rest(self) -> tuple[_Link, ...]:
        """The links on which the next section rests."""
        number, span = self.number + 1, 1
        while number % (span * _SPAN) == 0:
            span *= _SPAN
        return tuple(link for link in self.links if link.number <= number - span)

    @property
    def outgrown(self) -> bool:
        return self.changed_bytes > self.base_bytes


@dataclass
class _Planned:
    """The next section of a chain: its bytes, and the chain that it continues; none for a base."""

    place: _Place
    state: Mapping[str, Value]
    content: Iterable[bytes | memoryview]
    before: _Chain | None = None
    rest: tuple[_Link, ...] = field(default=())

    def chain(self, section: Section) -> _Chain:
        if self.before is None:
            return _Chain((_Link(section, 0),), 0, self.state, section.length)
        number = self.before.number + 1
        return replace(
            self.before,
            links=(*self.rest, _Link(section, number)),
            number=number,
            state=self.state,
            changed_bytes=self.before.changed_bytes + section.length,
        )


class LayerWriter:
    """Writes the state of the steps that one process owns. The state of the `keyed` steps is divided into shards.

    One thread at a time may write. After a restart of the process, the first layer has a base of each section.
    """

    def __init__(self, layers: Layers, keyed: Collection[str] = ()) -> None:
        self._layers, self._keyed = layers, keyed
        self._chains: dict[_Place, _Chain] = {}

    def write(self, name: str, states: States) -> Work[Sections]:
        """Write what changed in these states; the result has the chains of all their sections.

        The caller must not change the arrays in `states` afterwards. Without changes no file is written.
        """
        self._chains = yield from self._write_changes(f"{name}.layer", states)
        _compact(states)
        return self._sections()

    def _write_changes(self, file: str, states: States) -> Work[dict[_Place, _Chain]]:
        planned: list[_Planned] = []
        chains: dict[_Place, _Chain] = {}
        with OpenLayers(self._layers.folder) as layers:
            for place, state in self._divided(states):
                before = self._chains.get(place)
                step = _plan(place, state, before, layers)
                if step is not None:
                    planned.append(step)
                elif before is not None and (isinstance(state, KeyedSnapshot) or state):
                    chains[place] = replace(before, state=state)
        content = LayerContent(file, [(*each.place, each.before is None, each.content) for each in planned])
        if planned:
            yield from write_durably(self._layers.files, self._layers.folder / file, content.chunks())
        written = zip(planned, content.written, strict=True)
        return chains | {each.place: each.chain(section) for each, section in written}

    def _sections(self) -> Sections:
        sections: dict[str, dict[int, list[Section]]] = {}
        for (step, shard), chain in sorted(self._chains.items()):
            sections.setdefault(step, {})[shard] = [link.section for link in chain.links]
        return sections

    def _divided(self, states: States) -> Iterator[tuple[_Place, Mapping[str, Value]]]:
        for step, state in states.items():
            for shard, part in enumerate(self._shards(step, state)):
                yield (step, shard), part

    def _shards(self, step: str, state: Mapping[str, Value]) -> Iterable[Mapping[str, Value]]:
        if isinstance(state, ShardedSnapshot):
            return state.by_shard
        if isinstance(state, KeyedSnapshot):
            return [Entries(part) for part in divide(state, self._layers.shards)]
        return divide(state, self._layers.shards) if step in self._keyed else [state]


def _plan(place: _Place, state: Mapping[str, Value], before: _Chain | None, layers: OpenLayers) -> _Planned | None:
    """The next section of a chain; None if nothing changed, or if there is no state."""
    if isinstance(state, KeyedSnapshot):
        return _plan_keys(place, state, before, layers)
    return _plan_arrays(place, state, before, layers) if state else None


def _plan_keys(place: _Place, state: KeyedSnapshot, before: _Chain | None, layers: OpenLayers) -> _Planned | None:
    changed = state.since(before.state) if before is not None else None
    if before is None or changed is None or (changed and before.outgrown):
        parts = state.parts() if before is not None else _first_parts(state)
        return _Planned(place, state, key_chunks(parts)) if parts is not None else None
    if not changed:
        return None
    rest = before.rest
    merged: dict[str, bytes | None] = {}
    for link in before.links[len(rest) :]:
        for part in layers[link.section.file].keys(*place, link.section):
            merged.update(part)
    return _Planned(place, state, key_chunks([{**merged, **changed}]), before, rest)


def _plan_arrays(
    place: _Place, state: Mapping[str, Value], before: _Chain | None, layers: OpenLayers
) -> _Planned | None:
    if before is None:
        return _Planned(place, state, array_chunks([array_entry(name, None, state[name]) for name in state]))
    old = before.state
    alone = [array_entry(name, old.get(name), state[name]) for name in state]
    if state.keys() == old.keys() and all(e.indices is not None and not len(e.indices) for e in alone):
        return None
    rest = before.rest
    left_out = [link.section for link in before.links[len(rest) :]]
    between = [layers[section.file].arrays(*place, section) for section in left_out]
    entries = [array_entry(name, old.get(name), state[name], between) for name in state] if between else alone
    if before.outgrown or all(entry.indices is None for entry in entries):
        return _Planned(place, state, array_chunks([array_entry(name, None, state[name]) for name in state]))
    return _Planned(place, state, array_chunks(entries), before, rest)


def _first_parts(state: KeyedSnapshot) -> Iterable[Mapping[str, bytes | None]] | None:
    """The parts of a shard that has no section yet; None if the shard has no keys."""
    parts = iter(state.parts())
    for part in parts:
        if part:
            return _chained(part, parts)
    return None


def _chained(
    first: Mapping[str, bytes | None], others: Iterator[Mapping[str, bytes | None]]
) -> Iterator[Mapping[str, bytes | None]]:
    yield first
    yield from others


def _compact(states: States) -> None:
    """Compact the arrays of these states: their previous snapshots are no longer needed."""
    for state in states.values():
        for value in () if isinstance(state, KeyedSnapshot) else state.values():
            if isinstance(value, ArraySnapshot):
                value.compact()
