"""Faults of the registry and of what it holds, at the start of a run and while a version is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from support.commands import Commands, processed
from support.conditions import wait_until
from support.histories import HereSession
from support.killed_at import append, flow, killed_after

from millstream.api.run import Run
from millstream.config.load import Loaded, load_config
from millstream.errors import AlteredCheckpoint, ConfigError, Contradiction, Truncated, Unavailable
from millstream.history.train import train
from millstream.log.epochs import Epoch, EpochLog, EpochReader, NewModel, Skipped
from millstream.log.journal import Journal
from millstream.registry.client import Registry
from millstream.runs.directory import RunDirectory
from millstream.runs.fork.fork import fork_run
from millstream.runs.start import Options, start

HALF = 300
MODEL = {"type": "naive_bayes", "batch_size": 32}


def write_config(folder: Path, name: str, model: dict[str, Any], **changes: Any) -> Loaded:
    config = {
        "name": "small",
        "source": {"type": "journal", "path": "journal"},
        "pipeline": {"steps": [{"type": "hashed_text", "dimensions": 256}, {"type": "classify", "model": model}]},
        "engine": {"type": "local", "epoch": {"max_records": 100}},
    }
    (folder / name).write_text(yaml.safe_dump({**config, **changes}))
    return load_config(folder / name)


@pytest.fixture
def folder(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a journal, a run over its first records, and two configs: `plain.yaml` and `pipeline.yaml`."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.chdir(tmp_path)
    append(tmp_path / "journal", 0, HALF)
    start(write_config(tmp_path, "plain.yaml", MODEL), Options(tmp_path / "first", follow=False))
    return tmp_path


@pytest.fixture
def champion(folder: Path, store: str) -> str:
    """The name of a model that has learned the first records; its version 1 is the champion."""
    name = folder.name
    Run(folder / "first").export(name)
    MlflowClient(tracking_uri=store).set_registered_model_alias(name, "champion", "1")
    write_config(folder, "pipeline.yaml", {"from": f"models:/{name}@champion"})
    return name


def begin(folder: Path, run: str = "second", **options: Any) -> Any:
    return start(load_config(folder / "pipeline.yaml"), Options(folder / run, follow=False, **options))


def fingerprint(run: Path) -> str:
    return str(Run(run).model().classify.fingerprint())


def check_seam(folder: Path, run: Path) -> None:
    """Check that a run has every record after the hand-over once, and the model of a run over the whole log."""
    start(load_config(folder / "plain.yaml"), Options(folder / "whole", follow=False))
    offsets = Run(run).output("predictions")["_offset"].to_pylist()
    assert offsets == list(range(HALF, Run(folder / "whole").output("predictions").num_rows))
    assert fingerprint(run) == fingerprint(folder / "whole")
    events = [event for epoch in EpochReader(run / "epochs").epochs(0) for event in epoch.events]
    assert sum(isinstance(event, NewModel) for event in events) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "point", ["millstream.state.version_store:VersionStore:put", "millstream.runs.base:RunBase:write"]
)
def test_a_hand_over_that_is_killed_begins_again_while_records_flow(folder: Path, champion: str, point: str) -> None:
    commands = Commands(folder)
    with flow(folder / "journal", HALF):
        killed_after(point, *commands.arguments("run", "--follow"))
        process = commands.start("run", "--follow")
        wait_until(lambda: processed(folder / "run") > 1, "epochs", process)
        commands.stop(process)
    begin(folder, "run")
    check_seam(folder, folder / "run")


@pytest.mark.long
def test_a_version_whose_registration_is_killed_is_registered_once(folder: Path, store: str) -> None:
    name = folder.name
    write_config(folder, "pipeline.yaml", {"from": f"models:/{name}@champion"})
    with flow(folder / "journal", HALF):
        for point in ("log_model_artifacts", "create_model_version"):
            killed_after(f"mlflow:MlflowClient:{point}", "export", folder / "first", "--mlflow", name)
            with pytest.raises(ConfigError, match=r"the registry has no such version"):
                begin(folder)
        made = Run(folder / "first").export(name)
    client = MlflowClient(tracking_uri=store)
    assert len(client.search_model_versions(f"name = '{name}'")) == made.version == 1
    client.set_registered_model_alias(name, "champion", "1")
    begin(folder)
    check_seam(folder, folder / "second")


@pytest.mark.parametrize("store_is", ["a server", "a file"])
def test_a_new_run_needs_a_registry_that_answers(
    folder: Path, champion: str, store_is: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = "http://127.0.0.1:1" if store_is == "a server" else "sqlite:////dev/null/mlflow.db"
    with monkeypatch.context() as patched:
        patched.setenv("MLFLOW_TRACKING_URI", uri)
        with pytest.raises(Unavailable, match=rf"the registry at {uri} does not answer .*try again") as refused:
            begin(folder)
    assert refused.value.exit_code == 4
    begin(folder)


def test_an_alias_to_nothing_is_refused_with_those_that_exist(folder: Path, champion: str) -> None:
    write_config(folder, "pipeline.yaml", {"from": f"models:/{champion}@challenger"})
    with pytest.raises(ConfigError, match=r"@challenger: .*its aliases are: champion \(version 1\)") as refused:
        begin(folder)
    assert refused.value.exit_code == 2


def test_other_classes_are_refused(folder: Path, champion: str) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(path.read_text().replace("type: classify", "label: text\n    type: classify"))
    with pytest.raises(Contradiction, match=r"has learned the labels of the field 'label', .* `label: text`"):
        begin(folder)


def test_a_log_without_the_records_that_follow_is_refused(folder: Path, champion: str) -> None:
    for start_of in (HALF, HALF + 50):
        with Journal(folder / "journal") as journal:
            journal.roll()
        append(folder / "journal", start_of, 50)
    with Journal(folder / "journal") as journal:
        journal.drop_oldest()
        journal.drop_oldest()
    with pytest.raises(Truncated, match=r"was trained up to offset 300 of source/0, and what follows is gone.*350"):
        begin(folder)


def test_a_version_with_altered_arrays_is_refused_with_the_name_of_the_file(
    folder: Path, champion: str, store: str
) -> None:
    place = MlflowClient(tracking_uri=store).get_model_version_download_uri(champion, "1")
    arrays = Path(place.removeprefix("file://")) / "data/version/arrays.safetensors"
    data = arrays.read_bytes()
    arrays.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(AlteredCheckpoint, match=rf"version 1 at {place}: data/version/arrays.safetensors was altered"):
        begin(folder)
    assert not (folder / "second/epochs").exists() or not list((folder / "second/epochs").glob("*.journal"))


def test_two_trainers_at_once_make_two_whole_versions(folder: Path, store: str) -> None:
    append(folder / "journal", HALF, 100)
    start(load_config(folder / "plain.yaml"), Options(folder / "other", follow=False))
    register = (
        "import sys; from pathlib import Path; from mlflow import MlflowClient; from millstream.api.run import Run;"
        "made = Run(Path(sys.argv[1])).export('both');"
        "MlflowClient().set_registered_model_alias('both', 'champion', str(made.version))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", register, str(folder / run)], stderr=subprocess.PIPE, text=True)
        for run in ("first", "other")
    ]
    for process in processes:
        _, error = process.communicate()
        assert process.returncode == 0, error
    registry = Registry(store)
    digests = set()
    for number in (1, 2):
        (folder / str(number)).mkdir()
        digests.add(registry.fetch(f"models:/both/{number}", folder / str(number))[1].digest)
    (folder / "alias").mkdir()
    uri, version = registry.fetch("models:/both@champion", folder / "alias")
    assert len(digests) == 2 and version.digest in digests and uri in ("models:/both/1", "models:/both/2")


def test_a_fork_of_a_handed_over_run_begins_with_the_version(folder: Path, champion: str) -> None:
    append(folder / "journal", HALF, 300)
    begin(folder)
    loaded = load_config(folder / "pipeline.yaml")
    made = fork_run(RunDirectory(folder / "second"), loaded, folder / "forked", from_start=True)
    assert (made.epoch, made.records) == (-1, 300)
    start(loaded, Options(folder / "forked", follow=False))
    assert fingerprint(folder / "forked") == fingerprint(folder / "second") != fingerprint(folder / "first")


def test_no_model_is_trained_on_a_history_with_a_gap(folder: Path) -> None:
    """The run went on without records that retention had removed, so its cuts have a gap."""
    append(folder / "journal", HALF, 100)
    log = EpochLog(folder / "first/epochs")
    log.cut(Epoch(log.totals.next_epoch, {0: (HALF + 50, HALF + 100)}, (Skipped(0, HALF + 50),), log.totals.at))
    log.close()
    loaded = load_config(folder / "plain.yaml")
    with pytest.raises(Truncated, match=r"has a gap: source/0: offsets 300 to 349 were removed from the log"):
        train(loaded, folder / "model", replay=folder / "first", sessions=HereSession)
