"""`millstream validate`: every bad config is refused with exit code 2, the position of the problem, and a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_result import Millstream


def test_a_valid_config_is_summarized_in_one_line(millstream: Millstream, folder: Path) -> None:
    ran = millstream("validate", "news.yaml")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "news.yaml: valid (news: files -> features -> classify -> popularity -> "
        "rejects, predictions, topics, late; at_least_once on local)\n"
    )


LINES = {
    "an unknown key": (
        "popularity: {window:",
        "popularity: {windwo:",
        "news.yaml:7 pipeline.popularity.windwo: unknown key; did you mean `window`?",
    ),
    "an unknown key like no other": (
        "  use: text_topics",
        "  use: text_topics\n  colour: red",
        "news.yaml:5 pipeline.colour: unknown key; one of features, label, model, popularity, shadow, use",
    ),
    "a wrong type": (
        "max_records: 500",
        "max_records: many",
        'news.yaml:10 engine.epoch.max_records: "many" is not a whole number',
    ),
    "a window of size 0": (
        "size: 1h",
        "size: 0",
        "news.yaml:7 pipeline.popularity.window.size: 0 is not allowed; more than 0",
    ),
    "a counting window of size 0": (
        "{type: tumbling, size: 1h, lateness: 10m}",
        "{type: count, size: 0}",
        "news.yaml:7 pipeline.popularity.window.size: 0 is not allowed; at least 1",
    ),
    "a window without a unit": (
        "size: 1h",
        "size: 3600",
        "news.yaml:7 pipeline.popularity.window.size: 3600 is not allowed; "
        "a duration needs a unit: 10us, 100ms, 10s, 5m, 1h, 7d, 2w",
    ),
    "a threshold of 2": (
        "threshold: 0.10",
        "threshold: 2",
        "news.yaml:7 pipeline.popularity.threshold: 2 is not allowed; at most 1",
    ),
    "an unknown kind of window": (
        "type: tumbling",
        "type: tumblin",
        'news.yaml:7 pipeline.popularity.window: `type` "tumblin" is not allowed; one of count, '
        "predicate, session, sliding, tumbling; "
        "did you mean `tumbling`?",
    ),
    "an unknown engine": (
        "type: local",
        "type: lokal",
        'news.yaml:10 engine.type: "lokal" is not allowed; one of spark, local; did you mean `local`?',
    ),
    "something that is required": ("name: news\n", "", "news.yaml:1 name: required"),
    "a name that is no folder's": (
        "name: news",
        "name: ../news",
        'news.yaml:1 name: "../news" is not allowed; letters, digits, `.`, `_` and `-`, at most 100: it names a folder',
    ),
    "at_most_once that commits now and then": (
        "at_least_once",
        "at_most_once",
        "news.yaml:9 guarantee.commit_every: 2 is not allowed with at_most_once, which commits every epoch before it "
        "is processed; leave commit_every out, or choose at_least_once",
    ),
    "a recovery that no engine has": (
        "checkpoint_every: 4",
        "recovery: snapshots",
        "news.yaml:9 guarantee.recovery: no engine recovers by snapshots yet; spark and local recover by epochs",
    ),
    "a sink of an output that nothing makes": (
        "{predictions:",
        "{prediction:",
        "news.yaml:8 sinks.prediction: no step makes this output; one of rejects, predictions, topics, late; "
        "did you mean `predictions`?",
    ),
    "no field for the label": (
        "fields: {text: text, label: label, time: published_at}",
        "fields: {text: text}",
        "news.yaml:6 pipeline.model: classify, `label`: the records have no column 'label' here; "
        "there are text, features; "
        "name the field that holds it in the source's `fields: {label: ...}`",
    ),
    "a key that is given twice": (
        "engine:",
        "name: olds\nengine:",
        "news.yaml:10 name: the key is given twice, first on line 1; keep one of them",
    ),
    "two kinds of sources": (
        "pipeline:",
        "sources: {a: {type: files, path: news.jsonl}}\npipeline:",
        "news.yaml:2 source: `source` and `sources` are both given; keep one of the two",
    ),
    "no source": (
        "source: {type: files, path: news.jsonl, fields: {text: text, label: label, time: published_at}}\n",
        "",
        "news.yaml:1 source: required; or `sources`, if there are several",
    ),
    "a step that runs nowhere": (
        "engine: {",
        "engine: {placement: {feature: worker}, ",
        "news.yaml:10 engine.placement.feature: there is no such step; one of features, classify, popularity; "
        "did you mean `features`?",
    ),
    "a step with a placement that is not allowed": (
        "engine: {",
        "engine: {placement: {classify: worker}, ",
        "news.yaml:10 engine.placement.classify: this step cannot run in workers: it has state; run it on the driver",
    ),
    "a variable that is not set": (
        "name: news",
        "name: ${ZYX_NOT_SET}",
        "news.yaml:1 name: the environment has no ZYX_NOT_SET; set it, or give a default: ${ZYX_NOT_SET:-default}",
    ),
    "a variable that is not closed": (
        "name: news",
        "name: ${HOME",
        "news.yaml:1 name: `${` has no closing brace or no valid name; "
        "write ${NAME}, ${NAME:-default} or ${file:PATH}, and $$ for a $",
    ),
    "YAML that is none": (
        "name: news",
        "name: news: today",
        "news.yaml:1: not YAML, at column 11: mapping values are not allowed here",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_a_bad_config_is_refused(case: str, millstream: Millstream, folder: Path) -> None:
    old, new, message = LINES[case]
    text = (folder / "news.yaml").read_text()
    assert text.count(old) == 1
    (folder / "news.yaml").write_text(text.replace(old, new))
    ran = millstream("validate", "news.yaml")
    assert (ran.code, ran.out, ran.err) == (2, "", f"millstream: {message}\n")


def test_two_outputs_at_one_location_are_refused_by_name(millstream: Millstream, folder: Path) -> None:
    index = "{type: files, path: ./in/../out}"
    sinks = ["--set", "sinks.predictions={type: files, path: out}", "--set", f"sinks.topics={index}"]
    ran = millstream("validate", "news.yaml", *sinks)
    assert (ran.code, ran.out) == (2, "")
    assert "sinks.topics: sinks 'predictions' and 'topics' both write to " in ran.err
    assert "; give each output a location of its own" in ran.err
    assert millstream("validate", "news.yaml", *sinks[:2], "--set", "sinks.topics={type: files}").code == 0


def test_a_file_of_an_unknown_kind_is_refused_with_the_known_kinds(millstream: Millstream, folder: Path) -> None:
    ran = millstream("validate", "news.yaml", "--set", "source.path=news.yaml")
    assert ran.code == 2
    assert f"source.path: {folder / 'news.yaml'} is no file that can be read: it ends in none of .jsonl, " in ran.err


@pytest.mark.parametrize(
    ("path", "value", "start"),
    [
        ("source.type", "fils", 'source.type: "fils": no such source is installed; one of files,'),
        ("pipeline.model.type", "complement", 'pipeline.model.type: "complement": no such model is installed; one of'),
        ("pipeline.use", "text_topic", 'pipeline.use: "text_topic": no such pipeline is installed; one of'),
        ("sinks.predictions.type", "flies", 'sinks.predictions.type: "flies": no such sink is installed; one of'),
    ],
)
def test_an_unknown_type_is_refused_with_the_installed_ones(
    millstream: Millstream, folder: Path, path: str, value: Any, start: str
) -> None:
    ran = millstream("validate", "news.yaml", "--set", f"{path}={value}")
    assert ran.code == 2
    assert ran.err.startswith(f"millstream: news.yaml (--set) {start}")
    assert "did you mean" in ran.err


def test_several_problems_are_reported_together_in_the_order_of_the_file(millstream: Millstream, folder: Path) -> None:
    text = (
        (folder / "news.yaml")
        .read_text()
        .replace("threshold: 0.10", "threshold: 2")
        .replace("batch_size: 256", "batch_size: 0")
    )
    (folder / "news.yaml").write_text(text)
    ran = millstream("validate", "news.yaml")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        "millstream: news.yaml: 2 problems",
        "  news.yaml:6 pipeline.model.batch_size: 0 is not allowed; at least 1",
        "  news.yaml:7 pipeline.popularity.threshold: 2 is not allowed; at most 1",
    ]


def test_problems_of_the_built_steps_are_reported_together_too(millstream: Millstream, folder: Path) -> None:
    (folder / "news.jsonl").unlink()
    ran = millstream(
        "validate", "news.yaml", "--set", "sinks.topic={type: files}", "--set", "engine.placement.features=worker"
    )
    assert ran.code == 2
    assert "news.yaml: 2 problems" in ran.err
    assert "source.path" in ran.err
    assert "(--set) sinks.topic: no step makes this output" in ran.err


def test_missing_data_is_a_problem(millstream: Millstream, folder: Path) -> None:
    (folder / "news.jsonl").unlink()
    ran = millstream("validate", "news.yaml")
    assert ran.code == 2
    assert ran.err.startswith("millstream: news.yaml:2 source.path: ")


def test_relative_paths_start_at_the_config(
    millstream: Millstream, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert millstream("validate", "../news.yaml").code == 0


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["engine.typ=local"], "news.yaml (--set) engine.typ: unknown key; did you mean `type`?"),
        (["engin.type=local"], "news.yaml (--set) engin: unknown key; did you mean `engine`?"),
        (["keep"], "news.yaml (--set) keep: a value is set with `--set a.b=value`"),
        (["name.first=x"], "news.yaml (--set) name.first: name is a single value, so it has no key 'first'"),
        (["keep={"], "news.yaml (--set) keep: {: not YAML, at column 2: "),
        (["engine.epoch.max_records=0"], "news.yaml (--set) engine.epoch.max_records: 0 is not allowed; at least 1"),
    ],
)
def test_a_bad_set_is_refused(millstream: Millstream, folder: Path, sets: list[str], message: str) -> None:
    ran = millstream("validate", "news.yaml", *(part for text in sets for part in ("--set", text)))
    assert ran.code == 2
    assert ran.err.startswith(f"millstream: {message}")


def test_set_reaches_items_of_a_list_by_their_index(millstream: Millstream, folder: Path) -> None:
    written = "pipeline: {steps: [{type: hashed_text}, {type: classify, model: {type: sgd}}]}\n"
    (folder / "steps.yaml").write_text(f"name: steps\nsource: {{type: files, path: news.jsonl}}\n{written}")
    assert millstream("validate", "steps.yaml", "--set", "pipeline.steps.0.dimensions=1024").code == 0
    ran = millstream("validate", "steps.yaml", "--set", "pipeline.steps.2.dimensions=16")
    assert ran.code == 2
    assert "pipeline.steps is a list, and '2' is not an index of it; indices are 0 to 1" in ran.err


STEPS = """\
name: steps
source: {{type: files, path: news.jsonl}}
pipeline:
  steps:
{steps}
"""


def steps_file(folder: Path, *steps: str) -> str:
    (folder / "steps.yaml").write_text(STEPS.format(steps="\n".join(f"    - {step}" for step in steps)))
    return "steps.yaml"


def test_two_steps_of_one_name_are_refused(millstream: Millstream, folder: Path) -> None:
    config = steps_file(folder, "{type: hashed_text}", "{type: hashed_text}")
    ran = millstream("validate", config)
    assert ran.code == 2
    assert ran.err == (
        "millstream: steps.yaml:6 pipeline.steps.1.name: step 'hashed_text' already exists; "
        "do you have two steps of one type? give each a `name`\n"
    )


def test_problems_within_a_list_of_steps_have_its_indices(millstream: Millstream, folder: Path) -> None:
    config = steps_file(
        folder, "{type: hashed_text, name: bad name, dimensions: 0}", "{type: classify, nam: x, mode: {}}"
    )
    ran = millstream("validate", config)
    assert ran.code == 2
    assert ran.err.splitlines()[1:] == [
        '  steps.yaml:5 pipeline.steps.0.name: "bad name" is not allowed; letters, digits, `_` and `-`, at most 64',
        "  steps.yaml:5 pipeline.steps.0.dimensions: 0 is not allowed; at least 1",
        "  steps.yaml:6 pipeline.steps.1.nam: unknown key; did you mean `name`?",
        "  steps.yaml:6 pipeline.steps.1.mode: unknown key; did you mean `model`?",
    ]


def test_a_column_that_no_step_makes_is_refused_with_a_step_that_could(millstream: Millstream, folder: Path) -> None:
    config = steps_file(folder, "{type: classify, model: {type: sgd}}", "{type: hashed_text, dimensions: 1024}")
    ran = millstream("validate", config)
    assert ran.code == 2
    assert ran.err.startswith(
        "millstream: steps.yaml:5 pipeline.steps.0: step 'classify': there is no column 'features'"
    )
    assert "or move step 'hashed_text' before it" in ran.err


def test_an_output_of_two_steps_has_the_names_of_the_steps(millstream: Millstream, folder: Path) -> None:
    windows = "window: {type: count, size: 10}"
    config = steps_file(
        folder,
        f"{{type: popularity, name: labels, of: label, {windows}}}",
        f"{{type: popularity, name: texts, of: text, {windows}}}",
    )
    ran = millstream("validate", config)
    assert ran.code == 0, ran.err
    assert "rejects, labels.topics, texts.topics;" in ran.out


def test_exactly_once_with_a_step_that_is_not_deterministic_is_impossible(
    millstream: Millstream, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "dice.py").write_text("def roll(record):\n    return True\n")
    monkeypatch.syspath_prepend(str(folder))
    config = steps_file(folder, "{type: filter, name: dice, function: 'dice:roll', deterministic: false}")
    ran = millstream("validate", config)
    assert ran.code == 2
    assert "guarantee.delivery: exactly_once is impossible: step 'dice' is not deterministic" in ran.err
    assert millstream("validate", config, "--set", "guarantee.delivery=at_least_once").code == 0


def test_a_missing_file_is_refused_with_the_nearest_name(millstream: Millstream, folder: Path) -> None:
    ran = millstream("validate", "new.yaml")
    assert (ran.code, ran.err) == (2, "millstream: new.yaml: no such file; did you mean `news.yaml`?\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; it needs name, source and pipeline"),
        (b"# nothing\n", "the file is empty; it needs name, source and pipeline"),
        (b"- name: a\n", "a config is a mapping, `name: ...`, not a list or a single value"),
        (b"name: \xff\n", "not UTF-8 at byte 6; save it as UTF-8"),
        (b"\tname: a\n", "indent with spaces, not tabs"),
        (b"{name: ${NAME}}\n", "within { } or [ ], put ${...} in quotes"),
        (b"name: a\n---\nname: b\n", "expected a single document in the stream"),
        (b"name: !!python/object:os.system x\n", "name: not a plain value"),
        (b"name: &a [*a]\n", "an alias refers to a mapping or list that contains it"),
    ],
)
def test_a_file_that_is_no_config_is_refused(
    millstream: Millstream, folder: Path, content: bytes, message: str
) -> None:
    (folder / "odd.yaml").write_bytes(content)
    ran = millstream("validate", "odd.yaml")
    assert ran.code == 2
    assert ran.err.startswith("millstream: odd.yaml")
    assert message in ran.err


def test_a_wrong_command_is_refused_with_the_nearest_name(millstream: Millstream) -> None:
    ran = millstream("vaildate", "news.yaml")
    assert ran.code == 2
    assert ran.err.startswith("millstream: there is no command 'vaildate'; did you mean `validate`?\n")


def test_a_wrong_option_exits_with_2(millstream: Millstream) -> None:
    assert millstream("validate", "--sett", "a=b", "news.yaml").code == 2
    assert millstream("validate").code == 2


def test_a_traceback_is_shown_only_with_debug(folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("millstream")), "validate", "new.yaml"]
    quiet = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (quiet.returncode, quiet.stdout, quiet.stderr.count("\n")) == (2, "", 1)
    loud = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert loud.returncode != 0
    assert "Traceback" in loud.stderr


def test_help_is_quick_because_commands_are_imported_when_used() -> None:
    imports = "import sys, millstream.cli\ntry: millstream.cli.main(['--help'])\nexcept SystemExit: pass\n"
    program = "print([name for name in ('pydantic', 'pyarrow', 'numpy', 'yaml', 'rich') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", imports + program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_validate_is_quick_because_nothing_is_compiled(folder: Path) -> None:
    program = (
        "import sys, millstream.cli\n"
        "try: millstream.cli.main(['validate', 'news.yaml', '--set', 'pipeline.model={type: naive_bayes}'])\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "print([name for name in ('numba', 'rich', 'scipy', 'sklearn', 'mlflow', 'pyspark') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
