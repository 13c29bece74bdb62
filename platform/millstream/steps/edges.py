"""The edges of a graph: the streams that each step reads, by name, the cycles, and the order of the steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from millstream.config.document import KeyPath, Problem
from millstream.config.pipeline import NamedStep, duplicates
from millstream.steps.contracts import ReadsAll
from millstream.steps.graph_outputs import LATE, REJECTS
from millstream.suggestions import suggestion

__all__ = ["Wired", "maker_of", "read_path", "wire"]

_MOST_BACK_EDGES = 127
"""A path has seven bits for the number of the back edge over which a record was sent."""


@dataclass(frozen=True)
class Wired:
    """A step with its place in the config and the streams that it reads.

    `cycle` is the name of the cycle that the step is in, which is that of the cycle's first step; empty without one.
    `back` names the streams that the step reads over back edges: those of itself and of later steps of its cycle.
    """

    named: NamedStep
    number: int
    reads: tuple[str, ...]
    cycle: str = ""
    back: tuple[str, ...] = ()

    @property
    def entering(self) -> tuple[str, ...]:
        """The streams that the step reads from earlier steps and from sources."""
        return tuple(stream for stream in self.reads if stream not in self.back)


def maker_of(stream: str) -> str:
    """The source or the step that makes a stream.

    >>> maker_of("news"), maker_of("classify.predictions")
    ('news', 'classify')
    """
    return stream.partition(".")[0]


def read_path(named: NamedStep, index: int) -> KeyPath:
    """The key path of one of the streams that a step reads."""
    if named.reads is None:
        return named.path
    return (*named.path, "from", index) if len(named.reads) > 1 else (*named.path, "from")


def wire(steps: Sequence[NamedStep], sources: Sequence[str]) -> tuple[list[Wired], list[Problem]]:
    """The steps in topological order, in the order of the config where several could be next; or all problems.

    The steps of a cycle are together, in the order of the config.

    >>> steps = [NamedStep("count", None, reads=("words",)), NamedStep("words", None, reads=("news", "count.more"))]
    >>> [(step.named.name, step.reads) for step in wire(steps[:1], ["words"])[0]]
    [('count', ('words',))]
    >>> [(step.named.name, step.back) for step in wire(steps[::-1], ["news"])[0]]
    [('words', ('count.more',)), ('count', ())]
    >>> [problem.message for problem in wire([NamedStep("count", None, reads=("nwes",))], ["news"])[1]]
    ["there is no stream 'nwes'; did you mean `news`?"]
    """
    names = [step.name for step in steps]
    problems = [Problem(steps[index].path, message) for index, message in duplicates(names)]
    wired = [Wired(step, index, _reads(steps, index, sources)) for index, step in enumerate(steps)]
    for step in wired:
        problems += _wrong_names(step, names, sources)
        problems += _wrong_groupings(step)
    if problems:
        return [], problems
    units = [_unit(members) for members in _circles(wired)]
    problems += [problem for unit in units for step in unit for problem in _never_entered(step)]
    problems += _too_many([step for unit in units for step in unit if step.back])
    problems += _shadows_of_cycles([step for unit in units for step in unit])
    if problems:
        return [], problems
    problems += _unread_sources(wired, sources)
    return [step for unit in _ordered(units, set(sources)) for step in unit], problems


def _reads(steps: Sequence[NamedStep], index: int, sources: Sequence[str]) -> tuple[str, ...]:
    if (beside := steps[index].beside) is not None:
        return _reads(steps, [step.name for step in steps].index(beside), sources)
    chosen = steps[index].reads
    if chosen is not None:
        return chosen
    return tuple(sources) if index == 0 else (steps[index - 1].name,)


def _wrong_names(step: Wired, names: Collection[str], sources: Collection[str]) -> Iterable[Problem]:
    """Problems with a step's name and those in `from`; the outputs of steps are known only when the steps are built."""
    if step.named.name in sources:
        message = f"{step.named.name!r} is the name of a source and of a step; give the step another `name`"
        yield Problem(step.named.path, message)
    if step.named.name in (LATE, REJECTS):
        message = f"{step.named.name!r} is the name of an output that all steps share; give the step another `name`"
        yield Problem(step.named.path, message)
    for index, stream in enumerate(step.named.reads or ()):
        maker = maker_of(stream)
        if maker in names or stream in sources:
            continue
        if maker in sources:
            message = f"there is no stream {stream!r}: a source has no outputs; write `{maker}`"
        else:
            known = [*sources, *(name for name in names if name != step.named.name)]
            meant = suggestion(maker, known, f"the streams are {', '.join(known)}, and the outputs of steps")
            message = f"there is no stream {stream!r}{meant}"
        yield Problem(read_path(step.named, index), message)


def _wrong_groupings(step: Wired) -> Iterable[Problem]:
    """Problems with `to: all`, which only the second of the two streams of some steps can have."""
    config = step.named.config
    for index, stream in enumerate(step.reads):
        if stream not in step.named.to_all:
            continue
        path = (*read_path(step.named, index), "to")
        if not isinstance(config, ReadsAll):
            message = f"step {step.named.name!r} is no join, and only the second stream of a `join` can go `to: all`"
            yield Problem(path, f"{message}; write `{stream}`")
        elif index != 1:
            message = "only the second stream of a `join` can go `to: all`"
            other = next((name for name in step.reads if name != stream), "OTHER")
            yield Problem(path, f"{message}, the small one; write `from: [{other}, {{stream: {stream}, to: all}}]`")
        elif (wrong := config.not_to_all()) is not None:
            yield Problem((*step.named.path, wrong[0]), wrong[1])


def _circles(wired: Sequence[Wired]) -> list[list[Wired]]:
    """The steps in groups, in the order of the config: those that read each other in a circle are one group."""
    makers = {step.named.name: {maker_of(stream) for stream in step.reads} for step in wired}
    before: dict[str, set[str]] = {}
    for name in makers:
        found, waiting = set[str](), [name]
        while waiting:
            new = makers.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        before[name] = found
    groups: dict[str, list[Wired]] = {}
    for step in wired:
        name = step.named.name
        first = next((other for other in groups if other in before[name] and name in before[other]), name)
        groups.setdefault(first, []).append(step)
    return list(groups.values())


def _unit(members: Sequence[Wired]) -> list[Wired]:
    """A group of steps with their back edges: each leads to the step itself, or to an earlier one of the cycle."""
    numbers = {step.named.name: step.number for step in members}
    name = members[0].named.name
    unit = []
    for step in members:
        back = tuple(stream for stream in step.reads if numbers.get(maker_of(stream), -1) >= step.number)
        unit.append(replace(step, cycle=name, back=back) if len(members) > 1 or back else step)
    return unit


def _never_entered(step: Wired) -> Iterable[Problem]:
    """The problem of a step that reads over back edges only: it cannot be the first step of its cycle."""
    if step.back and not step.entering:
        makers = " and ".join(f"{maker_of(stream)!r}" for stream in step.back)
        message = f"nothing enters the cycle at step {step.named.name!r}, which reads later steps only"
        yield Problem(read_path(step.named, 0), f"{message}; put it after {makers}, or let it read a stream before it")


def _too_many(steps: Sequence[Wired]) -> Iterable[Problem]:
    edges = [(step, stream) for step in steps for stream in step.back]
    for step, stream in edges[_MOST_BACK_EDGES:][:1]:
        message = f"a graph has at most {_MOST_BACK_EDGES} back edges, and this one has {len(edges)}"
        yield Problem(read_path(step.named, step.reads.index(stream)), message)


def _shadows_of_cycles(steps: Sequence[Wired]) -> Iterable[Problem]:
    """Problems with shadows of steps in a cycle, whose records come in rounds."""
    cycles = {step.named.name: step.cycle for step in steps}
    for step in steps:
        if step.named.beside is not None and cycles[step.named.beside]:
            message = f"step {step.named.beside!r} is in a cycle, and a step in a cycle can have no shadow"
            yield Problem(step.named.path, f"{message}; remove `shadow`, or the back edge")


def _ordered(units: Sequence[list[Wired]], made: set[str]) -> Iterable[list[Wired]]:
    """The groups in an order in which every stream is made before another group reads it."""
    waiting = list(units)
    while waiting:
        ready = next(unit for unit in waiting if made | _names(unit) >= {*_makers(unit)})
        waiting.remove(ready)
        made |= _names(ready)
        yield ready


def _names(unit: Iterable[Wired]) -> set[str]:
    return {step.named.name for step in unit}


def _makers(unit: Iterable[Wired]) -> Iterable[str]:
    return (maker_of(stream) for step in unit for stream in step.reads)


def _unread_sources(wired: Sequence[Wired], sources: Sequence[str]) -> list[Problem]:
    read = {stream for step in wired for stream in step.reads}
    return [
        Problem(("sources", name) if len(sources) > 1 else ("source",), f"no step reads the source {name!r}; remove it")
        for name in sources
        if name not in read
    ]
