"""The text of an explanation for people: tables that fit a narrow terminal, plain text elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from millstream.plain_text import one_line

__all__ = ["explanation_text"]

_PLAIN_WIDTH = 120


def explanation_text(description: Mapping[str, Any], *, terminal: bool = False) -> str:
    """Return the description of a config, from its steps to the effects of crashes, with colours for a terminal."""
    console = Console(
        width=None if terminal else _PLAIN_WIDTH,
        force_terminal=None if terminal else False,
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as captured:
        _draw(console, _shown(description), box.SIMPLE_HEAD if terminal else None)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _shown(value: Any) -> Any:
    """The description with every text as one line of printable characters."""
    if isinstance(value, Mapping):
        return {name: _shown(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner) for inner in value]
    return one_line(value) if isinstance(value, str) else value


def _waiting(most: str) -> str:
    return "does not wait for more" if most == "0s" else f"waits at most {most}"


def _watermark(source: Mapping[str, Any]) -> str:
    """Describe for what windows over event time wait in a source.

    >>> _watermark({"name": "news", "times": False})
    'windows over event time do not wait for source news: it has no times'
    """
    name = source["name"]
    if not source["times"]:
        return f"windows over event time do not wait for source {name}: it has no times"
    until = "it has ended" if source["idle"] is None else f"it has ended, or was read and silent for {source['idle']}"
    ahead = "" if source["ahead"] is None else f"; a record more than {source['ahead']} ahead of the clock is a reject"
    return f"windows over event time wait for each partition of source {name} until {until}{ahead}"


def _draw(console: Console, description: Mapping[str, Any], lines: box.Box | None) -> None:
    guarantee, epoch = description["guarantee"], description["epoch"]
    sources = ", ".join(f"{source['name']} ({source['type']})" for source in description["sources"])
    console.print(f"{description['name']}: from {sources}, on {description['engine']}")
    checkpoint, commit = _every(guarantee["checkpoint_every"]), _every(guarantee["commit_every"])
    console.print(
        f"{guarantee['delivery']}, recovery {guarantee['recovery']}; checkpoint {checkpoint}, commit {commit}; "
        f"an epoch holds at most {epoch['max_records']:,} records and {_waiting(epoch['max_wait'])}"
    )
    if any("time" in step["ends"] for step in description["steps"]):
        for source in description["sources"]:
            console.print(_watermark(source))
    _heading(console, "Steps")
    steps = map(_step_row, description["steps"])
    console.print(_table(["step", "type", "runs in", "state", "traits"], steps, lines))
    for step in description["steps"]:
        for stream, copies in step["copies"].items():
            _indented(console, 2, _copies(step["name"], stream, copies))
    _heading(console, "Options")
    for step in description["steps"]:
        options = ", ".join(f"{name}={_plain(value)}" for name, value in step["options"].items())
        _indented(console, 2, f"{step['name']}: {options or 'none'}")
    _heading(console, "Outputs")
    outputs = map(_output_row, description["outputs"])
    console.print(_table(["output", "made by", "a row for each", "sink", "location"], outputs, lines))
    _heading(console, "The points of every epoch")
    _indented(console, 2, " -> ".join(description["order"]))
    _heading(console, "After a crash, at worst")
    for head, effects in _crash_sentences(description):
        _indented(console, 2, head)
        for effect in effects:
            _indented(console, 4, f"- {effect}")
    console.print()
    _indented(console, 2, f"The next start {description['restart']}.")


def _crash_sentences(description: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return a sentence for each moment of a crash, and the effects on the state and on the rows of each output."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for crash in description["crashes"]:
        if "." not in crash["after"]:
            alike.setdefault(tuple(_effects(crash, description["outputs"])), []).append(f"`{crash['after']}`")
    if not any(alike):
        return [("a crash anywhere: nothing is lost, nothing is trained twice, no row is repeated or missing", [])]
    sentences = []
    for effects, points in alike.items():
        after = " or ".join(filter(None, (", ".join(points[:-1]), points[-1])))
        sentences.append((f"a crash right after {after} of epoch e:" + ("" if effects else " nothing"), list(effects)))
    if len(description["outputs"]) > 1:
        between = (
            "a crash between two sinks of `deliver`: the earlier sinks as after `deliver`, the later sinks as before it"
        )
        sentences.append((between, []))
    return sentences


def _effects(crash: Mapping[str, Any], outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    if crash["trained_twice"]["epochs"]:
        found.append(f"state: {_amount(crash['trained_twice'])} trained twice")
    if crash["lost"]["epochs"]:
        found.append(f"state: {_amount(crash['lost'])} lost to the model and to windows")
    for kind, word in (("rows_repeated", "repeated"), ("rows_missing", "missing")):
        alike: dict[tuple[int, bool], list[str]] = {}
        for output in outputs:
            epochs = crash[kind][output["name"]]["epochs"]
            if epochs:
                alike.setdefault((epochs, output["row_of"] == "window"), []).append(output["name"])
        for (_, windows), names in alike.items():
            amount = _amount(crash[kind][names[0]])
            if windows:
                changed = ", perhaps with other content" if word == "repeated" else ""
                found.append(f"{', '.join(names)}: rows of windows that closed in {amount} {word}{changed}")
            else:
                found.append(f"{', '.join(names)}: rows of {amount} {word}")
    return found


def _amount(count: Mapping[str, int]) -> str:
    epochs = f"{count['epochs']:,} epoch" + ("s" if count["epochs"] > 1 else "")
    records = f" ({count['records']:,} records)" if "records" in count else ""
    return f"at most {epochs}{records}"


def _every(number: int) -> str:
    return "after every epoch" if number == 1 else f"after every {number} epochs"


def _step_row(step: Mapping[str, Any]) -> list[str]:
    traits = ["ordered" if step["ordered"] else "any order"]
    traits += [] if step["deterministic"] else ["not deterministic"]
    traits += [f"needs the end of {', '.join(step['ends'])}"] if step["ends"] else []
    return [step["name"], step["type"], step["runs"], step["state"], ", ".join(traits)]


def _copies(step: str, stream: str, copies: int) -> str:
    """The price of a stream that goes to all processes of a step.

    >>> _copies("paid", "rates", 3)
    'paid: each record of rates is sent to 3 readers, and held 3 times; each record of the other stream once'
    """
    if copies == 1:
        return f"{step}: one process holds the keys, so each record of {stream} is held once"
    price = f"each record of {stream} is sent to {copies} readers, and held {copies} times"
    return f"{step}: {price}; each record of the other stream once"


def _output_row(output: Mapping[str, Any]) -> list[str]:
    return [output["name"], output["step"] or "any", output["row_of"], output["sink"], output["location"]]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items()) + "}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)


def _indented(console: Console, columns: int, text: str) -> None:
    console.print(Padding(Text(text), (0, 0, 0, columns)))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(text, style="bold")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], lines: box.Box | None) -> Table:
    table = Table(box=lines, pad_edge=True, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
