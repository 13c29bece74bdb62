"""The states of the steps in a checkpoint, read from its layers on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from millstream.arrays import Array
from millstream.state.dirty_rows import Value
from millstream.state.keyed_state import KeyedSnapshot, ShardedSnapshot
from millstream.state.layers import Layer, Section, Sections
from millstream.state.sections import ARRAYS
from millstream.state.shards import SHARDS

__all__ = ["States", "StoredStates"]

States = Mapping[str, Mapping[str, Value]]
"""The state of every step: by step name, then by the step's own names."""


class StoredStates(Mapping[str, Mapping[str, Value]]):
    """The states in the sections of a checkpoint. A step without sections has an empty state.

    A process that gets this object reads only the bytes of the sections that it asks for.
    """

    def __init__(self, folder: Path, sections: Sections, shards: int = SHARDS) -> None:
        self._folder, self.sections, self._shards = folder, sections, shards

    def owned(self, owns: Callable[[int], bool], steps: Collection[str], whole: Collection[str] = ()) -> StoredStates:
        """The states of the steps, and of these only the shards for which `owns` is true; others are `whole`."""
        sections = {
            step: {shard: chain for shard, chain in shards.items() if step in whole or owns(shard)}
            for step, shards in self.sections.items()
            if step in steps or step in whole
        }
        return StoredStates(self._folder, sections, self._shards)

    def __getitem__(self, step: str) -> Mapping[str, Value]:
        chains = self.sections.get(step, {})
        if chains and self._kind(next(iter(chains.values()))[0]) == ARRAYS:
            return {name: value for shard in chains for name, value in self._arrays(step, shard).items()}
        return ShardedSnapshot(
            [_StoredShard(self._folder, step, shard, chains.get(shard, ())) for shard in range(self._shards)]
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.sections)

    def __len__(self) -> int:
        return len(self.sections)

    def _kind(self, section: Section) -> bytes:
        with Layer(self._folder / section.file) as layer:
            return layer.kind(section)

    def _arrays(self, step: str, shard: int) -> Mapping[str, Array | bytes]:
        state: dict[str, Array | bytes] = {}
        for section in self.sections[step][shard]:
            with Layer(self._folder / section.file) as layer:
                entries = layer.arrays(step, shard, section)
            state = {name: entry.apply_to(state.get(name)) for name, entry in entries.items()}
        return state


class _StoredShard(KeyedSnapshot):
    """A shard of state by key in layers: the first section has all keys, a later one the changes."""

    def __init__(self, folder: Path, step: str, shard: int, chain: Sequence[Section]) -> None:
        self._folder, self._step, self._shard, self._chain = folder, step, shard, chain

    def since(self, earlier: object) -> None:
        return None

    def parts(self) -> Iterator[Mapping[str, bytes | None]]:
        for section in self._chain:
            with Layer(self._folder / section.file) as layer:
                yield from layer.keys(self._step, self._shard, section)

    def __getitem__(self, key: str) -> bytes:
        return self._entries[key]

    @cached_property
    def _entries(self) -> dict[str, bytes]:
        return self.to_dict()
