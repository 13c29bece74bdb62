"""Graphs in a config: every mistake is refused with its line, and `explain --graph` draws the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.command_result import Millstream
from support.docs_pages import ROOT

GRAPH = """\
name: graph
sources:
  news: {type: generator, records: 60, seed: 1}
  blogs: {type: generator, records: 60, seed: 2}
pipeline:
  steps:
    - {type: map, name: shout, from: news, function: "support.user_functions:shout", adds: [first], on_error: reject}
    - {type: map, name: clip, from: blogs, function: "support.user_functions:clip", adds: [first]}
    - {type: classify, name: bayes, from: [shout, clip], model: {type: naive_bayes, features: {}}}
    - {type: classify, name: soft, from: clip, model: {type: softmax, features: {}}}
    - {type: map, name: marked, from: soft.predictions, function: "support.user_functions:mark"}
sinks: {marked: {type: files}, soft.predictions: {type: files, path: soft}}
engine: {type: local}
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "graph.yaml"
    path.write_text(GRAPH)
    return path


def test_a_graph_is_summarized_with_the_streams_that_each_step_reads(millstream: Millstream, graph: Path) -> None:
    ran = millstream("validate", graph.name)
    assert ran.code == 0, ran.err
    assert "bayes (from shout + clip), soft (from clip), marked (from soft.predictions) -> rejects" in ran.out


MISTAKES = {
    "a missing stream": (
        "from: clip,",
        "from: clap,",
        "10 pipeline.steps.3.from: there is no stream 'clap'; did you mean `clip`?",
    ),
    "a missing output": (
        "from: soft.predictions",
        "from: soft.prediction",
        "11 pipeline.steps.4.from: step 'marked': there is no stream 'soft.prediction'; did you mean `predictions`?",
    ),
    "an output of a source": (
        "from: news",
        "from: news.text",
        "7 pipeline.steps.0.from: there is no stream 'news.text': a source has no outputs; write `news`",
    ),
    "a source that no step reads": (
        "from: news",
        "from: blogs",
        "3 sources.news: no step reads the source 'news'; remove it",
    ),
    "a cycle that nothing ends": (
        'from: soft.predictions, function: "support.user_functions:mark"}',
        'from: [clip, again], function: "support.user_functions:mark"}\n'
        '    - {type: map, name: again, from: marked, function: "support.user_functions:mark"}',
        "11 pipeline.steps.4.from.1: the steps pass every record on, in a cycle that nothing ends: "
        "marked <- again <- marked; read an output of a step, as `step.output`, or put a `filter` into the cycle",
    ),
    "a step that reads itself": (
        "from: soft.predictions",
        "from: [soft.predictions, marked]",
        "11 pipeline.steps.4.from.1: the steps pass every record on, in a cycle that nothing ends: marked <- marked",
    ),
    "records with other columns that are sent back": (
        "from: clip,",
        "from: [clip, soft],",
        "10 pipeline.steps.3.from.1: step 'soft': the streams 'clip' and 'soft' have different columns: "
        "'clip' lacks 'predicted'",
    ),
    "a cycle that nothing enters": (
        "from: [shout, clip]",
        "from: [marked, soft]",
        "9 pipeline.steps.2.from.0: nothing enters the cycle at step 'bayes', which reads later steps only; "
        "put it after 'marked' and 'soft', or let it read a stream before it",
    ),
    "too many rounds": (
        "  steps:",
        "  rounds: 100001\n  steps:",
        "6 pipeline.rounds:",
    ),
    "two steps of one name": (
        "name: soft,",
        "name: bayes,",
        "10 pipeline.steps.3.name: step 'bayes' already exists",
    ),
    "a step with the name of a source": (
        "name: clip,",
        "name: news,",
        "8 pipeline.steps.1: 'news' is the name of a source and of a step; give the step another `name`",
    ),
    "a union of other columns": (
        "from: [shout, clip]",
        "from: [shout, soft]",
        "9 pipeline.steps.2.from.1: step 'bayes': the streams 'shout' and 'soft' have different columns: "
        "'shout' lacks 'predicted'",
    ),
    "a stream twice": (
        "from: [shout, clip]",
        "from: [shout, shout]",
        "9 pipeline.steps.2.from: the stream 'shout' is named twice; a step reads a stream once",
    ),
    "a stream that is no name": (
        "from: clip,",
        "from: 'a b',",
        '10 pipeline.steps.3.from: "a b" is not allowed',
    ),
    "columns that a step lacks": (
        "label: first, from: [shout, clip]",
        "label: second, from: [shout, clip]",
        "9 pipeline.steps.2: step 'bayes': classify, `label`: the records have no column 'second' here",
    ),
    "records that nobody reads": (
        "{marked: {type: files}, ",
        "{",
        "11 pipeline.steps.4: no step reads the records of 'marked', and no sink gets them; "
        "read them, add `marked` to `sinks`, or remove the step",
    ),
    "a sink of an output of several steps": (
        "soft.predictions: {type: files, path: soft}",
        "predictions: {type: files}",
        "12 sinks.predictions: several steps make this output; write `bayes.predictions` or `soft.predictions`",
    ),
    "a step with the name of a shared output": (
        "name: soft,",
        "name: late,",
        "10 pipeline.steps.3: 'late' is the name of an output that all steps share; give the step another `name`",
    ),
    "a sink of a step's part of a shared output": (
        "marked: {type: files}",
        "bayes.rejects: {type: files}",
        "12 sinks.bayes.rejects: `rejects` is one output of all steps, without full names; write `rejects`",
    ),
    "a sink of a source": (
        "marked: {type: files}",
        "news: {type: files}",
        "12 sinks.news: 'news' is a source, and a sink gets what a step makes; add the step `{type: filter, "
        'name: all_records, from: news, function: "operator:truth"}`, and write `all_records`',
    ),
    "a sink of nothing": (
        "marked: {type: files}",
        "marke: {type: files}",
        "12 sinks.marke: no step makes this output",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_line_and_key(millstream: Millstream, graph: Path, mistake: str) -> None:
    before, after, message = MISTAKES[mistake]
    content = GRAPH
    if mistake == "a cycle that nothing enters":
        content = GRAPH.replace("from: clip,", "from: [clip, bayes],")
    elif mistake == "columns that a step lacks":
        content = GRAPH.replace("name: bayes,", "name: bayes, label: first,")
    assert before in content
    graph.write_text(content.replace(before, after, 1))
    ran = millstream("validate", graph.name)
    assert ran.code == 2
    assert f"graph.yaml:{message}" in ran.err


@pytest.mark.parametrize(
    ("step", "option"),
    [
        ("type: top_k, of: text, by: text, window: {type: count, size: 3}", "max_open"),
        ("type: join, from: [news, blogs], by: text, within: 1m", "most"),
    ],
)
def test_a_limit_is_refused_that_a_shard_of_the_keys_would_soon_reach(
    millstream: Millstream, graph: Path, step: str, option: str
) -> None:
    source = "{type: generator, records: 60}"
    head = f"name: limits\nsources: {{news: {source}, blogs: {source}}}\nsinks: {{limited: {{type: files}}}}\n"
    for most, shards in ((6399, 64), (6400, 64), (100, 1), (1, 1)):
        options = f"name: limited, {step}, {option}: {most}"
        graph.write_text(f"{head}guarantee: {{shards: {shards}}}\npipeline:\n  steps:\n    - {{{options}}}\n")
        ran = millstream("validate", graph.name)
        message = (
            f"graph.yaml:7 pipeline.steps.0.{option}: {most:,} is divided between 64 shards of keys, so the run would "
            "stop with more than 100 in one of them; the smallest value is 6,400, 100 for each shard, or give the run "
            "fewer shards (`guarantee.shards`)"
        )
        assert (ran.code, message in ran.err) == ((2, True) if most == 6399 else (0, False)), ran.err


def test_two_sinks_of_one_output_are_refused(millstream: Millstream, graph: Path) -> None:
    one_model = GRAPH.replace("type: classify, name: bayes", "type: popularity, name: bayes, of: first")
    one_model = one_model.replace("model: {type: naive_bayes, features: {}}", "window: {type: count, size: 10}")
    graph.write_text(one_model.replace("{marked:", "{predictions: {type: files}, marked:"))
    ran = millstream("validate", graph.name)
    assert "sinks.predictions: `soft.predictions` is the same output; keep one of the two sinks" in ran.err


def test_the_graph_is_printed_as_mermaid_text(millstream: Millstream, graph: Path) -> None:
    ran = millstream("explain", graph.name, "--graph")
    assert ran.code == 0, ran.err
    lines = [line.strip() for line in ran.out.splitlines()]
    assert lines[0] == "flowchart LR"
    assert 'n2["shout<br>map"]' in lines and 'n2 -->|"to one"| n4' in lines and 'n5 -->|"predictions"| n6' in lines


def test_an_arrow_names_the_fields_of_the_key(millstream: Millstream, graph: Path) -> None:
    model, window = "model: {type: naive_bayes, features: {}}", "by: [text, first], window: {type: count, size: 10}"
    by_key = GRAPH.replace("type: classify, name: bayes", "type: popularity, name: bayes, of: first")
    graph.write_text(by_key.replace(model, window))
    assert '|"by text, first"|' in millstream("explain", graph.name, "--graph").out


def test_the_graph_is_drawn_with_every_box_and_label(millstream: Millstream, graph: Path) -> None:
    assert millstream("explain", graph.name, "--graph", "graph.svg").code == 0
    drawn = Path("graph.svg").read_text()
    for text in ("news", "blogs", "shout", "bayes", "soft.predictions", "marked", "to one"):
        assert f">{text}</text>" in drawn


def test_a_drawing_has_the_ending_svg(millstream: Millstream, graph: Path) -> None:
    ran = millstream("explain", graph.name, "--graph", "graph.png")
    assert ran.code == 2 and "does not end with .svg" in ran.err


def test_a_run_of_two_models_reports_the_accuracy_of_each(millstream: Millstream, graph: Path) -> None:
    ran = millstream("run", graph.name, "--json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out.splitlines()[-1])
    assert set(summary["steps"]) == {"bayes", "soft"}
    assert summary["steps"]["bayes"]["model"] == summary["model"] != summary["steps"]["soft"]["model"]
    assert list(summary["delivered"]) == ["rejects", "bayes.predictions", "soft.predictions", "marked"]
    assert "several steps of runs/graph classify: bayes, soft" in millstream("predict", "runs/graph", "a text").err
    assert "classify: bayes, soft; name one of them with `--step NAME`" in millstream("predict", "runs/graph", "x").err
    assert (
        "; its steps make `bayes.predictions` and `soft.predictions`"
        in millstream("read", "runs/graph", "predictions").err
    )
    assert millstream("predict", "runs/graph", "a text", "--step", "soft").code == 0
    assert "did you mean `soft`" in millstream("predict", "runs/graph", "a text", "--step", "sof").err
    assert "accuracy   soft" in millstream("status", "runs/graph").out
    ran = millstream("audit", "runs/graph", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["class"] == {"state": "precise", "output": "precise"}


def test_a_function_for_each_source_makes_a_field_for_rows_by_source(
    millstream: Millstream, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions and steps of docs/graphs.md."""
    page = ROOT.joinpath("docs/graphs.md").read_text().partition("## Rows by source")[2].partition("\n## ")[0]
    (function,) = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    steps = [yaml.safe_load(step) for step in page.split("`") if step.startswith("{type: ")]
    graph.with_name("places.py").write_text(function)
    monkeypatch.syspath_prepend(str(graph.parent))
    sources = {name: {"type": "generator", "seed": seed, "records": 60} for seed, name in enumerate(("de", "fr"))}
    config = {"name": "graph", "sources": sources, "pipeline": {"steps": steps}, "engine": {"type": "local"}}
    graph.write_text(yaml.safe_dump(config))
    ran = millstream("run", graph.name)
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in millstream("read", "runs/graph", "topics").out.splitlines()]
    counted = {name: sum(row["count"] for row in rows if row["country"] == name) for name in sources}
    assert counted == {"de": 60, "fr": 60}


def test_the_streams_of_a_step_are_written_out_and_read_back(millstream: Millstream, graph: Path) -> None:
    resolved = yaml.safe_load(millstream("config", graph.name).out)
    assert [step.get("from") for step in resolved["pipeline"]["steps"]] == [
        "news", "blogs", ["shout", "clip"], "clip", "soft.predictions",
    ]  # fmt: skip
    Path("again.yaml").write_text(yaml.safe_dump(resolved))
    assert yaml.safe_load(millstream("config", "again.yaml").out) == resolved


def test_the_streams_that_a_step_reads_stay_fixed_for_the_life_of_a_run(millstream: Millstream, graph: Path) -> None:
    assert millstream("run", graph.name).code == 0
    graph.write_text(GRAPH.replace("from: clip,", "from: [clip, shout],"))
    ran = millstream("run", graph.name)
    assert ran.code == 3 and "the steps changed since the first start" in ran.err
    renamed = GRAPH.replace("name: clip", "name: cut").replace("clip]", "cut]").replace("from: clip", "from: cut")
    graph.write_text(renamed)
    assert "since the first start: 'clip' is now called 'cut'; use" in millstream("run", graph.name).err


def test_a_sink_that_is_added_to_the_records_of_a_step_changes_no_replay(millstream: Millstream, graph: Path) -> None:
    sets = ("--set", "engine.epoch.max_records=30", "--set", "guarantee.checkpoint_every=4")
    assert millstream("run", graph.name, *sets, "--records", "60").code == 0
    ran = millstream("run", graph.name, *sets, "--set", "sinks.clip.type=files", "--json")
    assert ran.code == 0, ran.err
    assert "clip" in json.loads(ran.out.splitlines()[-1])["delivered"]


def test_a_key_with_a_dot_is_set_in_quotes(millstream: Millstream, graph: Path) -> None:
    ran = millstream("run", graph.name, "--set", 'sinks."soft.predictions".path=other', "--json")
    assert ran.code == 0, ran.err
    assert any(graph.parent.joinpath("other").iterdir()) and not graph.parent.joinpath("soft").exists()
    ran = millstream("validate", graph.name, "--set", 'sinks."soft.predictions.path=other')
    assert ran.code == 2 and "a value is set with `--set a.b=value`" in ran.err
