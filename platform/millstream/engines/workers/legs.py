"""The legs of a graph: groups of steps that a role runs one after the other, without an exchange between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from millstream.steps.contracts import Scope
from millstream.steps.graph import Graph
from millstream.steps.nodes import Node

__all__ = ["BOUNDARY", "LOG", "RECORDS", "Leg", "Legs", "Place", "legs_of"]

LOG = ""
"""The name for the records of all sources among the streams that a leg reads."""
RECORDS, BOUNDARY = 0, 1
"""The phases of an epoch: its records, and the rows that steps make at its boundary."""


class Place(StrEnum):
    """The roles that run a leg: one reader for each epoch, all readers by key, or the sequencer."""

    READ = "read"
    KEYED = "keyed"
    ONE = "one"


@dataclass(frozen=True)
class Leg:
    """Steps in the order of the graph. `reads` has the streams that they read of each feeding leg.

    `ends` has those of these streams that may have rows at the boundary of an epoch. `phases` is 1 if nothing happens
    at a boundary. With `needs_order`, records come with their places in the epoch. `key` are the fields of the key, and
    `sources` the sources that the steps read.

    The legs of a cycle that runs in the owners of keys name the `cycle`. They read each other's streams in every round:
    `inside` has those that they read from earlier legs of the cycle, `back` those of back edges.
    """

    index: int
    place: Place
    steps: tuple[Node, ...]
    reads: Mapping[int, frozenset[str]]
    ends: Mapping[int, frozenset[str]]
    phases: int = 1
    needs_order: bool = False
    key: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    cycle: str = ""
    inside: Mapping[int, frozenset[str]] = field(default_factory=dict)
    back: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @property
    def to_all(self) -> str | None:
        """The stream of which every owner of keys gets all records; None without one."""
        return self.steps[0].reads[1] if self.steps and self.steps[0].traits.to_all else None

    @property
    def in_cycle(self) -> tuple[Node, ...]:
        """The steps that run in every round; the others run once, after the cycle."""
        return tuple(node for node in self.steps if self.cycle and node.cycle == self.cycle)

    @property
    def behind(self) -> tuple[Node, ...]:
        """The steps that run once in an epoch."""
        return tuple(node for node in self.steps if node not in self.in_cycle)

    def streams(self, feeding: int, phase: int) -> frozenset[str] | None:
        """The streams of a leg that this leg reads in a phase; None if it waits for nothing from that leg."""
        return (self.reads if phase == RECORDS else self.ends).get(feeding)


@dataclass(frozen=True)
class Legs:
    """The legs of a graph in an order in which every leg follows those that it reads; the first one is `head`."""

    all: tuple[Leg, ...]

    @property
    def head(self) -> Leg:
        """The steps that a reader runs on the epochs that it reads, perhaps none."""
        return self.all[0]

    @property
    def keyed(self) -> Sequence[Leg]:
        return [leg for leg in self.all if leg.place is Place.KEYED]

    @property
    def one(self) -> Sequence[Leg]:
        return [leg for leg in self.all if leg.place is Place.ONE]

    def fed_by(self, leg: Leg, phase: int = RECORDS) -> Sequence[Leg]:
        """The legs that read streams of this leg in a phase."""
        return [each for each in self.all if each.streams(leg.index, phase) is not None]

    def around(self, leg: Leg) -> Mapping[int, frozenset[str]]:
        """The streams of this leg that the legs of its cycle read in a round, by the index of the receiving leg."""
        found = {}
        for each in self.all:
            streams = each.inside.get(leg.index, frozenset()) | each.back.get(leg.index, frozenset())
            if streams:
                found[each.index] = streams
        return found

    def sending_back(self, cycle: str) -> Sequence[Leg]:
        """The legs of a cycle from which a back edge leads."""
        known = {index for leg in self.all if leg.cycle == cycle for index in leg.back}
        return [self.all[index] for index in sorted(known)]

    def senders(self, feeding: int, readers: int) -> int:
        """The number of roles that send the parts of one leg."""
        return readers if self.all[feeding].place is Place.KEYED else 1

    def names(self, *places: Place) -> Sequence[str]:
        """The names of the steps in these places."""
        return [node.name for leg in self.all if leg.place in places for node in leg.steps]


def legs_of(graph: Graph) -> Legs:
    """Assign the steps of a graph to legs.

    A step without state runs where the streams are that it reads; if they are in several legs, in the sequencer.
    """
    late = _late(graph)
    assigned: dict[str, _Group] = {}
    head = _Group(Place.READ, 0, "")
    for unit in graph.units:
        makers = _makers(graph, unit).difference(node.name for node in unit)
        read = {assigned[maker] if maker is not None else head for maker in makers}
        if unit[0].cycle:
            assigned |= _groups_of_cycle(graph, unit, read, late)
        else:
            assigned[unit[0].name] = _group_of(unit[0], read, late)
    groups = sorted({head, *assigned.values()}, key=lambda group: group.order(list(assigned)))
    index_of = {name: groups.index(group) for name, group in assigned.items()}
    legs = [_leg(graph, index, group.place, index_of, late) for index, group in enumerate(groups)]
    return Legs(tuple(_with_order(graph, legs)))


@dataclass(frozen=True)
class _Group:
    """The steps of a leg: `level` counts the legs of the sequencer before it, `keyed` names a keyed step."""

    place: Place
    level: int
    keyed: str = ""

    def order(self, names: Sequence[str]) -> tuple[int, bool, int]:
        """At each level the keyed steps in the order of the graph, then those of the sequencer; the readers first."""
        if self.place is Place.READ:
            return -1, False, 0
        return self.level, self.place is Place.ONE, names.index(self.keyed) if self.keyed else 0


def _group_of(node: Node, read: set[_Group], late: frozenset[str]) -> _Group:
    """The group of a step from the groups whose streams it reads."""
    if node.traits.scope is Scope.KEYED:
        return _Group(Place.KEYED, max(group.level + (group.place is Place.ONE) for group in read), node.name)
    if node.traits.scope is Scope.STATELESS and len(read) == 1:
        [group] = read
        if group.place is not Place.READ or node.name not in late:
            return group
    return _Group(Place.ONE, max(group.level for group in read))


def _groups_of_cycle(graph: Graph, cycle: Sequence[Node], read: set[_Group], late: frozenset[str]) -> dict[str, _Group]:
    """The groups of the steps of a cycle: those of its keyed steps, or one of the sequencer.

    Readers share a cycle if its rounds begin at keyed steps, and nothing happens to it at a boundary.
    """
    level = max(group.level + (group.place is Place.ONE) for group in read)
    found: dict[str, _Group] = {}
    for node in cycle:
        makers = _makers(graph, [node])
        made = {found[maker] for maker in makers if maker in found}
        if node.traits.scope is Scope.KEYED and node.name not in late:
            found[node.name] = _Group(Place.KEYED, level, node.name)
        elif node.traits.scope is Scope.STATELESS and len(made) == 1 and found.keys() >= makers:
            [found[node.name]] = made
        else:
            one = _Group(Place.ONE, max(group.level for group in read))
            return {each.name: one for each in cycle}
    return found


def _late(graph: Graph) -> frozenset[str]:
    """The steps that may make rows at the boundary of an epoch."""
    late: set[str] = set()
    for unit in graph.units:
        windows = any(output.of == "window" for node in unit for output in node.step.outputs)
        ends = any(node.traits.ends for node in unit)
        if ends or windows or not late.isdisjoint(filter(None, _makers(graph, unit))):
            late.update(node.name for node in unit)
    return frozenset(late)


def _makers(graph: Graph, unit: Sequence[Node]) -> set[str | None]:
    return {graph.streams[stream].maker for node in unit for stream in node.reads}


def _leg(graph: Graph, index: int, place: Place, index_of: Mapping[str, int], late: frozenset[str]) -> Leg:
    nodes = tuple(node for node in graph.steps if index_of[node.name] == index)
    sources: set[str] = set()
    reads: dict[int, set[str]] = {}
    ends: dict[int, set[str]] = {}
    inside: dict[int, set[str]] = {}
    back: dict[int, set[str]] = {}
    cycle = next((node.cycle for node in nodes if node.cycle and place is Place.KEYED), "")
    for reader, stream in ((node, stream) for node in nodes for stream in node.reads) if index else ():
        maker = graph.streams[stream].maker
        feeding = 0 if maker is None else index_of[maker]
        if maker is None:
            sources.add(stream)
        if cycle and stream in reader.back:
            back.setdefault(feeding, set()).add(stream)
        elif cycle and maker is not None and graph.node(maker).cycle == cycle:
            if feeding != index:
                inside.setdefault(feeding, set()).add(stream)
        elif feeding != index:
            reads.setdefault(feeding, set()).add(stream if maker is not None else LOG)
            if maker in late:
                ends.setdefault(feeding, set()).add(stream)
    key = next((node.traits.key_fields for node in nodes if place is Place.KEYED), ())
    phases = 2 if late.intersection(node.name for node in nodes) else 1
    entering, at_end, around, sent_back = (
        {feeding: frozenset(streams) for feeding, streams in each.items()} for each in (reads, ends, inside, back)
    )
    read = frozenset(sources)
    return Leg(index, place, nodes, entering, at_end, phases, False, key, read, cycle, around, sent_back)


def _with_order(graph: Graph, legs: Sequence[Leg]) -> Sequence[Leg]:
    """The legs, with `needs_order` where records are put in order, or go on to such a leg."""
    found: list[Leg] = []
    for leg in reversed(legs):
        merges = any(node.cycle or graph.inputs[node.name].needs_order for node in leg.steps)
        feeds = any(leg.index in other.reads and other.needs_order for other in found)
        found.insert(0, replace(leg, needs_order=leg.place is Place.KEYED or merges or feeds))
    return found
