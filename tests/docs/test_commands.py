"""The commands of the documents are typed, and print what the text shows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient
from support.conditions import wait_until
from support.docs_pages import ROOT, TEXTS, blocks, section, table
from support.docs_reader import Reader
from support.histories import state_in

from millstream.api.run import Run
from millstream.cli import main
from millstream.log.epochs import EpochReader, Swap
from millstream_connectors.kafka.broker import Broker, free_port

DOCUMENTS = (ROOT / "configs/documents.yaml").read_text()
CONVERTED = (ROOT / "configs/converted.yaml").read_text()
CODE = ("python", "toml", "yaml", "text")
PLAYED = {
    ("README.md", "First run"),
    ("docs/advice.md", "Try it"),
    ("docs/backfill.md", "Try it"),
    ("docs/cycles.md", "Try it"),
    ("docs/documents.md", "Try it"),
    ("docs/fork.md", "Try it"),
    ("docs/graphs.md", "Try it"),
    ("docs/guarantees.md", "Try it"),
    ("docs/internals/formats.md", "A run directory"),  # in test_formats.py
    ("docs/joins.md", "Try it"),
    ("docs/joins.md", "A config to copy"),
    ("docs/joins.md", "A small stream to all"),
    ("docs/kafka.md", "Five commands"),
    ("docs/local.md", "Try it"),
    ("docs/local.md", "Your own text"),
    ("docs/model_life.md", "History"),
    ("docs/model_life.md", "Search"),
    ("docs/model_life.md", "Shadow"),
    ("docs/model_life.md", "Stream"),
    ("docs/model_life.md", "Swap"),
    ("docs/model_life.md", "A change, tried in a fork"),
    ("docs/model_life.md", "Roll-back"),
    ("docs/plugins.md", "A package"),
    ("docs/plugins.md", "Check and run"),
    ("docs/registry.md", "Begin a stream with a registered model"),
    ("docs/registry.md", "Promote a version yourself"),
    ("docs/registry.md", "Register the model of a run"),
    ("docs/search.md", "Try it"),
    ("docs/study.md", "Try it"),
    ("docs/watching.md", "Status"),
    ("docs/windows.md", "Popularity"),
}


def test_every_command_is_run_by_a_test() -> None:
    typed = {(b.document, b.heading) for name in TEXTS for b in blocks(name) if b.language not in CODE}
    assert typed == PLAYED


@pytest.mark.spark
def test_a_first_run_on_spark_and_a_crash_on_the_local_engine_give_the_same_model(folder: Path) -> None:
    printed = Reader(folder).plays("README.md", "First run")
    digests = re.findall(r"^  (model|state) +([0-9a-f]{12})$", printed, re.MULTILINE)
    assert len(digests) == 4 and len(set(digests)) == 2
    assert "python scripts/demo.py" in (ROOT / "Makefile").read_text()


def test_a_crash_at_least_once_leaves_what_the_guarantees_say(folder: Path) -> None:
    Reader(folder).plays("docs/guarantees.md", "Try it")


def test_a_graph_has_two_models_with_an_accuracy_each(folder: Path) -> None:
    printed = Reader(folder).plays("docs/graphs.md", "Try it")
    assert re.findall(r"^  accuracy +(\w+) 0\.9", printed, re.MULTILINE) == ["bayes", "softmax"]
    assert 'n1 -->|"to one"| n3' in printed and '"predicted":' in printed


def test_a_fork_keeps_the_model_and_is_compared_with_the_old_run(folder: Path) -> None:
    Reader(folder, instead={"--records 20000": "--records 2000"}).plays("docs/fork.md", "Try it")
    assert (folder / "runs/compared/accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_documents_are_taken_apart_and_collected_with_weights_that_help_a_model(folder: Path) -> None:
    fewer = {"run configs/documents.yaml": "run configs/documents.yaml --set source.records=1000"}
    printed = Reader(folder, instead=fewer).plays("docs/documents.md", "Try it")
    found = re.findall(r"^  accuracy +(\w+) (0\.\d+),", printed, re.MULTILINE)
    assert [name for name, _ in found] == ["tf_idf", "plain"] * 2
    assert float(found[0][1]) > float(found[1][1]) + 0.02
    assert '"weights": "{\\"' in printed and '"predicted": "' in printed
    digests = re.findall(r"^  (?:model|state) +([0-9a-f]{12})", printed, re.MULTILINE)
    assert len(digests) == 6 and digests[:3] == digests[3:]
    shown, config = (yaml.safe_load(text) for text in (blocks("docs/documents.md", "yaml")[0].text, DOCUMENTS))
    assert shown == {name: config[name] for name in shown}


@pytest.mark.parametrize("name", ["two_models", "documents", "label_propagation"])
def test_the_picture_of_the_graph_is_that_of_the_config(name: str, folder: Path) -> None:
    (folder / "notes.jsonl").touch()
    with pytest.raises(SystemExit):
        main(["explain", str(folder / f"configs/{name}.yaml"), "--graph", str(folder / "drawn.svg")])
    assert (folder / "drawn.svg").read_text() == (ROOT / f"docs/{name}.svg").read_text()


def test_labels_spread_as_the_picture_shows(folder: Path) -> None:
    Reader(folder).plays("docs/cycles.md", "Try it")
    assert (folder / "spreading.svg").read_text() == (ROOT / "docs/spreading.svg").read_text()


def test_the_advice_has_the_lines_that_the_text_shows(folder: Path) -> None:
    Reader(folder).plays("docs/advice.md", "Try it")


def test_the_status_of_a_run_has_the_lines_that_the_text_describes(folder: Path) -> None:
    printed = Reader(folder).plays("docs/watching.md", "Status")
    for line in ("last checkpoint", "behind", "watermark"):
        assert re.search(rf"^  {line} ", printed, re.MULTILINE)
    described = [row[0].strip("`") for row in table(section("docs/watching.md", "## Status"), "line")]
    assert described == ["speed", "latency", "in flight", "restarts", "last checkpoint", "behind", "watermark"]


def test_a_stream_begins_with_the_registered_model_of_a_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    reader = Reader(folder, instead={"--records 30000": "--records 3000"})
    reader.plays("docs/registry.md", "Register the model of a run")
    reader.plays("docs/registry.md", "Begin a stream with a registered model")
    reader.plays("docs/registry.md", "Promote a version yourself")


class PatientReader(Reader):
    """Looks at the status when a version has been on trial, and at the log when it has taken the model's place."""

    def types(self, command: str) -> str:
        if command.startswith("millstream status"):
            wait_until(self._has_judged, "the trial of the shadow")
        elif command.startswith("grep"):
            wait_until(lambda: "is now version 2" in (self.folder / "stream.log").read_text(), "the alias")
        return super().types(command)

    def _has_judged(self) -> bool:
        if not (self.folder / "runs/stream/epochs").is_dir():
            return False
        found = Run(self.folder / "runs/stream").status().shadows["classify"]
        ours, theirs = found.shadow_accuracy, found.champion_accuracy
        better = ours is not None and theirs is not None and ours > theirs + 0.005
        return (better and found.labelled > 500) or found.champion == "models:/news/2"


@pytest.mark.spark
@pytest.mark.long
def test_a_model_is_searched_streamed_replaced_changed_and_rolled_back_in_one_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (folder / "configs/demo.yaml").write_text((ROOT / "configs/demo.yaml").read_text())
    page = "docs/model_life.md"
    small = {"--records 20000": "--records 4000", "--records 3000": "--records 500", "over: 5000": "over: 1000"}
    reader = PatientReader(folder, instead={**small, "--records 40000": "--records 4000"})
    try:
        for heading in ("History", "Search", "Stream", "Shadow", "Swap", "A change, tried in a fork"):
            reader.plays(page, heading)
        champion = MlflowClient(f"sqlite:///{folder}/mlflow.db").get_model_version_by_alias
        assert int(champion("news", "champion").version) == 2
        events = [event for epoch in EpochReader(folder / "runs/stream/epochs").epochs() for event in epoch.events]
        [swap] = [event for event in events if isinstance(event, Swap)]
        assert swap.version == "models:/news/2"
        reader.plays(page, "Roll-back")
        assert int(champion("news", "champion").version) == 1
    finally:
        reader.types("millstream stop runs/stream")
    fast = "millstream run configs/demo.yaml --env stream --set source.rate=null --set pipeline.shadow=null"
    reader.types(f"{fast} --records 4500 --run runs/whole")
    assert state_in(folder / "runs/whole", "classify") == state_in(folder / "runs/back", "classify")
    assert state_in(folder / "runs/stream", "classify") != state_in(folder / "runs/changed", "classify")


@pytest.mark.kafka
@pytest.mark.spark
def test_five_commands_lead_to_kafka(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("BOOTSTRAP", f"127.0.0.1:{port}")
    reader = Reader(folder, instead={"kafka up": f"kafka up --port {port}", "127.0.0.1:9092": f"127.0.0.1:{port}"})
    try:
        printed = reader.plays("docs/kafka.md", "Five commands")
    finally:
        Broker(folder / "data/millstream/kafka").kill()
    assert sum(len(list(block.commands())) for block in blocks("docs/kafka.md", "sh", "Five commands")) == 5
    assert len(re.findall(r'^{"_source".*"predicted": ', printed, re.M)) == 3


@pytest.mark.spark
def test_a_study_is_run_in_a_command(folder: Path) -> None:
    Reader(folder).plays("docs/study.md", "Try it")
    assert (folder / "studies/quick/trials.parquet").is_file()


@pytest.mark.spark
def test_a_model_trained_on_the_history_is_that_of_the_run(folder: Path) -> None:
    printed = Reader(folder).plays("docs/backfill.md", "Try it")
    [digest] = re.findall(r"digest of the state: (\S+)", printed)
    assert digest == state_in(folder / "runs/demo", "classify")


@pytest.mark.spark
def test_the_best_of_the_candidates_is_trained(folder: Path) -> None:
    Reader(folder).plays("docs/search.md", "Try it")
    assert (folder / "history/search/search.png").read_bytes().startswith(b"\x89PNG")


def test_text_of_ones_own_is_classified_in_three_commands(folder: Path) -> None:
    Reader(folder).plays("docs/local.md", "Your own text")


def test_a_join_makes_the_rows_that_the_text_shows(folder: Path) -> None:
    Reader(folder).plays("docs/joins.md", "Try it")


def test_the_config_to_copy_makes_the_rows_that_the_text_shows(folder: Path) -> None:
    (folder / "configs/paid.yaml").write_text(blocks("docs/joins.md", "yaml", "A config to copy")[0].text)
    Reader(folder).plays("docs/joins.md", "A config to copy")


def test_a_small_stream_goes_to_all_with_the_price_that_the_text_shows(folder: Path) -> None:
    Reader(folder).plays("docs/joins.md", "A small stream to all")
    shown, config = (yaml.safe_load(text) for text in (blocks("docs/joins.md", "yaml")[1].text, CONVERTED))
    assert shown == config


def test_popularity_has_rows_of_a_topic_that_changed(folder: Path) -> None:
    printed = Reader(folder).plays("docs/windows.md", "Popularity")
    changed = re.findall(r'"topic": "space".*"popular": (\w+), "changed": true', printed)
    assert changed[:2] == ["true", "false"]  # it became popular, and is no longer popular


def test_the_local_engine_is_tried_in_a_command(folder: Path) -> None:
    assert "demo on local, exactly_once" in Reader(folder).plays("docs/local.md", "Try it")


def test_the_parts_of_the_docs_pass_the_battery_and_a_crash_leaves_no_trace(folder: Path) -> None:
    reader, rows = parts_of_the_docs(folder)
    printed = reader.plays("docs/plugins.md", "Check and run")
    assert "3 passed" in printed
    assert "continuing runs/parts from epoch 3" in printed
    assert "state is precise" in printed and printed.count("precise: every result once") == 2
    assert "no text" in reader.types("millstream read runs/parts rejects")
    assert len(reader.types("millstream read runs/parts predictions").splitlines()) == rows
    assert "starting over" in reader.types("millstream run configs/parts.yaml --fresh")


def test_the_package_of_the_docs_registers_names(folder: Path) -> None:
    reader, rows = parts_of_the_docs(folder)
    assert "3 passed" in reader.plays("docs/plugins.md", "A package")
    assert len(reader.types("millstream read runs/short predictions").splitlines()) == rows


def parts_of_the_docs(folder: Path) -> tuple[Reader, int]:
    """A reader of docs/plugins.md who has written its files and some texts; the number of texts."""
    reader = Reader(folder, written(folder, "docs/plugins.md", "my_parts"))
    rows = [f'"{word} {number}",{word}\n' for number in range(25) for word in ("tide", "train")]
    (folder / "texts.csv").write_text("text,label\n" + "".join(rows) + ",sport\n")
    return reader, len(rows)


def written(folder: Path, document: str, package: str) -> Path:
    """Write the files that a document shows, and what an installation of this package would add; its folder."""
    shown = [block.text for block in blocks(document) if block.text.startswith("# ")]
    files = {text.partition("\n")[0].removeprefix("# "): text for text in shown}
    for name, text in files.items():
        if "/" in name and " " not in name:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    project = tomllib.loads(files[f"{package}/pyproject.toml"])["project"]
    info = folder / package / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    return folder / package
