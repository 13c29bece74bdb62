"""The tables of the documents are those of the code."""

from __future__ import annotations

import importlib.metadata
import itertools
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml
from pydantic import BaseModel
from support.docs_pages import TEXTS, blocks, section, table

from millstream.cli import millstream
from millstream.config import plugins
from millstream.config.search import Search
from millstream.config.sources import TimeOptions
from millstream.extras import EXTRAS
from millstream.guarantees.delivery import Crash, Delivery, Point, effects, order
from millstream.runs.watch.metrics import WINDOW
from millstream.runs.watch.prometheus import METRICS
from millstream.steps.join import Join
from millstream.substreams.windows import (
    CountWindow,
    PredicateWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from millstream_connectors.kafka.client.security import Security

PARTS = section("docs/reference.md", "## Parts")
COMMANDS = section("docs/reference.md", "## Commands")
KINDS = {
    "source": plugins.SOURCES,
    "sink": plugins.SINKS,
    "step": plugins.STEPS,
    "model": plugins.MODELS,
    "pipeline": plugins.PIPELINES,
}
WINDOWS: dict[str, type[BaseModel]] = {
    "tumbling": TumblingWindow,
    "sliding": SlidingWindow,
    "session": SessionWindow,
    "predicate": PredicateWindow,
    "count": CountWindow,
}


# ---------------------------------------------------------------- parts and their options


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_every_part_that_comes_with_millstream(kind: str) -> None:
    ours = importlib.metadata.distribution("millstream").entry_points.select(group=KINDS[kind])
    assert sorted(row[0].strip("`") for row in table(PARTS, kind)) == sorted(point.name for point in ours)


@pytest.mark.parametrize("kind", KINDS)
def test_options_and_defaults_of_parts_are_those_of_the_code(kind: str) -> None:
    for name, _, options in table(PARTS, kind):
        model = plugins.load(KINDS[kind], name.strip("`"), "use" if kind == "pipeline" else "type")
        check_options(model, name, options)


def test_the_options_of_every_source_are_those_of_the_code() -> None:
    shown = {row[0].strip("`"): row[1].strip("`") for row in table(PARTS, "option of every source")}
    assert shown == TimeOptions().model_dump()


def test_options_and_defaults_of_windows_are_those_of_the_code() -> None:
    shown = {name.strip("`"): options for name, _, options in table(PARTS, "window")}
    assert shown.keys() == WINDOWS.keys()
    for name, model in WINDOWS.items():
        check_options(model, name, shown[name])


def test_the_keys_of_a_search_and_their_defaults_are_those_of_the_code() -> None:
    shown = {row[0].strip("`"): row[1].strip("`") for row in table(TEXTS["docs/search.md"], "key of `search`")}
    defaults = {name: field.default for name, field in Search.model_fields.items()}
    texts = {name: "null" if value is None else str(value) for name, value in defaults.items()}
    assert shown == {**texts, "over": "required", "step": "the only one"}


def test_the_keys_of_security_are_those_of_the_code() -> None:
    assert [row[0].strip("`") for row in table(PARTS, "key of `security`")] == [*Security.model_fields]


def check_options(model: type[BaseModel], name: str, options: str) -> None:
    before, _, optional = options.partition("[")
    needed = {named.strip("`") for named in re.findall(r"`\w+`", before)}
    shown = {k: v for text in re.findall(r"`([^`]+)`", optional) for k, v in yaml.safe_load(text).items()}
    every = {field.alias or name: field for name, field in model.model_fields.items()}
    fields = {key: field for key, field in every.items() if key not in ("type", "use")}
    assert {key for key, field in fields.items() if field.is_required()} == needed, name
    assert {key for key, field in fields.items() if not field.is_required()} == set(shown), name
    assert filled(model, needed, shown).model_dump() == filled(model, needed, {}).model_dump(), name


def filled(config: type[BaseModel], needed: set[str], options: dict[str, Any]) -> BaseModel:
    """An instance, with something valid for each option that is needed."""
    something = {
        "path": "a.jsonl",
        "bootstrap": "localhost:9092",
        "topic": "documents",
        "by": "id",
        "within": "1h",
        "function": "operator:truth",
        "key": "author",
        "class": "naive_bayes.MultinomialNB",
        "model": {"type": "river_nb"},
        "window": {"type": "count", "size": 2},
        "size": 2 if config is CountWindow else "2s",
        "slide": "1s",
        "gap": "1s",
        "of": "predicted",
    }
    if config is PredicateWindow:
        options = {"ends": "operator:truth", **{key: value for key, value in options.items() if key == "lateness"}}
    either = {"within": "1h"} if config is Join else {}  # or `window`
    return config.model_validate({**{key: something[key] for key in needed}, **options, **either})


def test_the_extras_are_those_of_the_code() -> None:
    rows = table(section("docs/install.md", "## Extras"), "extra")
    assert [row[0].strip("`") for row in rows] == [*EXTRAS, "all"]


# ---------------------------------------------------------------- commands


def test_the_commands_are_those_of_the_command_line() -> None:
    shown = {row[0].strip("`").split()[1] for row in table(COMMANDS, "command")}
    assert shown == {name for name, _ in commands()}


def test_the_options_of_commands_are_those_of_the_command_line() -> None:
    there = dict(option for name, command in commands() for option in options_of(command, f"{name} "))
    rows = [
        (f"run {option}", meaning) for text, meaning in table(COMMANDS, "option of `run`") for option in codes(text)
    ]
    others = table(COMMANDS, "option of another command")
    rows += [(option, meaning) for text, meaning in others for option in codes(text)]
    shown = {" ".join(itertools.takewhile(lambda word: not word.isupper(), words.split())): m for words, m in rows}
    assert shown.keys() == there.keys()
    for option, meaning in shown.items():
        if default := re.search(r"default: (\d+)", meaning):
            assert default[1] == str(there[option].default), option


def codes(cell: str) -> list[str]:
    """The codes in the backticks of a cell, without `=VALUE` and `[...]`."""
    return [code.partition("=")[0].partition("[")[0] for code in re.findall(r"`([^`]+)`", cell)]


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(millstream)
    for name in millstream.list_commands(context):
        if (command := millstream.get_command(context, name)) is not None:
            yield name, command


def options_of(command: click.Command, before: str) -> Iterator[tuple[str, click.Parameter]]:
    """The options of a command, and of the commands below it."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for spelling in (*parameter.opts, *parameter.secondary_opts):
                yield before + spelling, parameter
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from options_of(below, f"{before}{name} ")


# ---------------------------------------------------------------- metrics


def test_the_metrics_are_those_of_the_code() -> None:
    assert table(TEXTS["docs/watching.md"], "metric") == [[f"`{m.name}`", m.kind, m.meaning] for m in METRICS]
    queries = blocks("docs/watching.md", "text", "Prometheus")[0].text
    asked = re.findall(r"millstream_\w+", queries)
    assert asked and {name.removesuffix("_bucket") for name in asked} <= {metric.name for metric in METRICS}


def test_the_windows_of_metrics_are_those_of_the_code() -> None:
    assert f"windows of at least {WINDOW:,} records, each of which ends with an" in TEXTS["docs/watching.md"]


def test_prometheus_is_sent_to_the_port_that_the_text_opens() -> None:
    [scrape] = yaml.safe_load(blocks("docs/watching.md", "yaml")[0].text)["scrape_configs"]
    [host, port] = scrape["static_configs"][0]["targets"][0].split(":")
    assert host == "127.0.0.1" and f"--metrics-port {port}`" in TEXTS["docs/watching.md"]


# ---------------------------------------------------------------- guarantees


def test_the_readmes_table_of_guarantees_is_that_of_the_code() -> None:
    rows = {row[0]: row[1:] for row in table(TEXTS["README.md"], "dies right after")}
    for index, delivery in enumerate(Delivery):
        assert rows["order of points"][index] == ", ".join(order(delivery))
        for point in Point:
            assert rows[point][index] == in_words(delivery, point), (delivery, point)


def in_words(delivery: Delivery, point: Point) -> str:
    found = effects(delivery, 1, 1, [Crash(point, 9)])
    kinds = {
        "trained twice": found.trained_twice,
        "lost": found.lost,
        "rows repeated": found.rows_repeated[0],
        "rows missing": found.rows_missing[0],
    }
    assert all(epochs <= {9} for epochs in kinds.values())  # "of that one epoch"
    return ", ".join(kind for kind, epochs in kinds.items() if epochs) or "nothing"


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE])
def test_the_tables_of_failures_are_those_of_the_code(delivery: Delivery) -> None:
    below = section("docs/guarantees.md", f"### {delivery}")
    rows = re.findall(r"^\| `(\w+)` of (\d+) \| ([^|]+) \| ([^|]+) \|$", below, re.M)
    assert [(point, epoch) for point, epoch, *_ in rows] == [(p, e) for e in "57" for p in order(delivery)]
    least = delivery is Delivery.AT_LEAST_ONCE
    for point, epoch, *shown in rows:
        found = effects(delivery, 4, 4 if least else 1, [Crash(Point(point), int(epoch))])
        right = (found.trained_twice, found.rows_repeated[0]) if least else (found.lost, found.rows_missing[0])
        wrong = (found.lost, found.rows_missing[0]) if least else (found.trained_twice, found.rows_repeated[0])
        assert shown == [", ".join(map(str, sorted(epochs))) or "none" for epochs in right]
        assert not any(wrong)
