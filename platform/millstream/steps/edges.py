"""The edges of a graph: the streams that each step reads, by name, and the order of the steps in an epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from millstream.config.document import KeyPath, Problem
from millstream.config.pipeline import NamedStep, duplicates
from millstream.suggestions import suggestion

__all__ = ["Wired", "maker_of", "read_path", "wire"]


@dataclass(frozen=True)
class Wired:
    """A step with its place in the config and the streams that it reads."""

    named: NamedStep
    number: int
    reads: tuple[str, ...]


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

    >>> steps = [NamedStep("count", None, reads=("words",)), NamedStep("words", None, reads=("news",))]
    >>> [(step.named.name, step.reads) for step in wire(steps, ["news"])[0]]
    [('words', ('news',)), ('count', ('words',))]
    >>> [problem.message for problem in wire([NamedStep("count", None, reads=("nwes",))], ["news"])[1]]
    ["there is no stream 'nwes'; did you mean `news`?"]
    """
    names = [step.name for step in steps]
    problems = [Problem(steps[index].path, message) for index, message in duplicates(names)]
    wired = [Wired(step, index, _reads(steps, index, sources)) for index, step in enumerate(steps)]
    for step in wired:
        problems += _wrong_names(step, names, sources)
    if problems:
        return [], problems
    ordered = _ordered(wired, set(sources))
    if len(ordered) < len(wired):
        return [], [_cycle([step for step in wired if step not in ordered])]
    problems += _unread_sources(wired, sources)
    return ordered, problems


def _reads(steps: Sequence[NamedStep], index: int, sources: Sequence[str]) -> tuple[str, ...]:
    chosen = steps[index].reads
    if chosen is not None:
        return chosen
    return tuple(sources) if index == 0 else (steps[index - 1].name,)


def _wrong_names(step: Wired, names: Collection[str], sources: Collection[str]) -> Iterable[Problem]:
    """Problems with the names in `from`; the outputs of steps are known only when the steps are built."""
    for index, stream in enumerate(step.named.reads or ()):
        maker, path = maker_of(stream), read_path(step.named, index)
        if maker in names and maker in sources:
            message = f"{maker!r} is the name of a source and of a step; give the step another `name`"
        elif maker in sources and maker != stream:
            message = f"there is no stream {stream!r}: a source has no outputs; write `{maker}`"
        elif maker not in names and maker not in sources:
            known = [*sources, *(name for name in names if name != step.named.name)]
            meant = suggestion(maker, known, f"the streams are {', '.join(known)}, and the outputs of steps")
            message = f"there is no stream {stream!r}{meant}"
        else:
            continue
        yield Problem(path, message)


def _ordered(wired: Sequence[Wired], made: set[str]) -> list[Wired]:
    """The steps in an order in which every stream is made before it is read, as far as there is one."""
    waiting, ordered = list(wired), []
    while (ready := next((step for step in waiting if made >= set(map(maker_of, step.reads))), None)) is not None:
        waiting.remove(ready)
        ordered.append(ready)
        made.add(ready.named.name)
    return ordered


def _cycle(left: Sequence[Wired]) -> Problem:
    """The problem of steps that wait for each other, at the first step of a cycle."""
    reads: Mapping[str, Wired] = {step.named.name: step for step in left}
    step, seen = left[0], list[str]()
    while step.named.name not in seen:
        seen.append(step.named.name)
        step = next(reads[maker] for maker in map(maker_of, step.reads) if maker in reads)
    cycle = seen[seen.index(step.named.name) :]
    first = min((reads[name] for name in cycle), key=lambda each: each.number)
    index = next(index for index, stream in enumerate(first.reads) if maker_of(stream) in cycle)
    start = cycle.index(first.named.name)
    around = " <- ".join([*cycle[start:], *cycle[:start], first.named.name])
    message = f"the steps read each other in a cycle that nothing ends: {around}; read an earlier stream instead"
    return Problem(read_path(first.named, index), message)


def _unread_sources(wired: Sequence[Wired], sources: Sequence[str]) -> list[Problem]:
    read = {stream for step in wired for stream in step.reads}
    return [
        Problem(("sources", name) if len(sources) > 1 else ("source",), f"no step reads the source {name!r}; remove it")
        for name in sources
        if name not in read
    ]
