"""A registered version enters a running pipeline as a shadow, and takes the place of its model."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from support.commands import processed
from support.conditions import wait_until
from support.versions import SOURCES, append, flowing, learned, run_config

from millstream.api.observers import make_observers
from millstream.api.run import Run
from millstream.digests import Digest
from millstream.log.epochs import Decided, EpochReader, Event, NewModel, Swap
from millstream.registry.champion import promote
from millstream.runs.start import Options, start
from millstream.state.digests import state_digest

RULE = {"better": 1, "over": 200}


@pytest.fixture(autouse=True)
def registry(store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    return store


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The name of the registered model of a test."""
    found: str = request.node.name.partition("[")[0]
    return found


def register(folder: Path, name: str, alias: str | None = None, **config: Any) -> str:
    """Register a version that has learned what the journals have; the address by number."""
    start(run_config(folder, **config), Options(folder / "trained", follow=False))
    uri = Run(folder / "trained").export(name).uri
    if alias is not None:
        MlflowClient().set_registered_model_alias(name, alias, uri.rpartition("/")[2])
    return uri


def events(run: Path, kind: type[Event]) -> list[Any]:
    found = (event for epoch in EpochReader(run / "epochs").epochs() for event in epoch.events)
    return [event for event in found if isinstance(event, kind)]


@contextmanager
def running(folder: Path, run: str = "run", **config: Any) -> Iterator[Path]:
    """A run that follows the journals; it ends at the end of the context."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            start(run_config(folder, **config), Options(folder / run, follow=True), stop=stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield folder / run
    finally:
        stop.set()
        thread.join()
        if failed:
            raise failed[0]


def has(run: Path, kind: type[Event]) -> Callable[[], bool]:
    return lambda: (run / "epochs").is_dir() and any((run / "epochs").glob("*.journal")) and bool(events(run, kind))


def alias_of(name: str, alias: str = "champion") -> str | None:
    try:
        return f"models:/{name}/{MlflowClient().get_model_version_by_alias(name, alias).version}"
    except MlflowException:
        return None


def challenged(name: str, **promote: Any) -> dict[str, Any]:
    return {"from": f"models:/{name}@challenger", **({"promote": promote} if promote else {})}


def model(run: Path, step: str = "classify") -> Digest:
    """The digest of what the model of a run has learned; it does not depend on the order of the partitions."""
    return state_digest(learned(Run(run).model(step=step).classify.version_state()))


def handed_over(folder: Path, uri: str) -> Digest:
    """The digest of a run that began with a version, and had all records."""
    start(run_config(folder, model={"from": uri}), Options(folder / "handed-over", follow=False))
    return model(folder / "handed-over")


ENGINES = [
    pytest.param({"type": "local"}, id="local"),
    pytest.param({"type": "spark"}, id="spark", marks=[pytest.mark.spark, pytest.mark.xdist_group("spark")]),
]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_version_catches_up_while_records_flow_and_replaces_the_model_by_its_rule(
    engine: dict[str, Any], tmp_path: Path, name: str
) -> None:
    append(tmp_path, 300)
    uri = register(tmp_path, name, "challenger")
    append(tmp_path, 200)
    config: dict[str, Any] = {
        "model": {"type": "majority"},
        "shadow": challenged(name, **RULE),
        "engine": {**engine, "epoch": {"max_records": 90}},
    }
    with flowing(tmp_path), running(tmp_path, **config) as run:
        wait_until(has(run, Swap), "the swap")
        wait_until(lambda: alias_of(name) == uri, "the alias")
    config["engine"] = {"type": "local", "epoch": {"max_records": 90}}
    start(run_config(tmp_path, **config), Options(run, follow=False))
    [entered], [decided], [swap] = (events(run, kind) for kind in (NewModel, Decided, Swap))
    assert (entered.step, entered.version, swap.version) == ("classify_shadow", uri, uri)
    assert entered.trained["a"]["0"] > 300
    assert decided.rule == RULE and decided.counts["labelled"] >= RULE["over"]
    assert model(run) == handed_over(tmp_path, uri), "every record is learned once, from the version on"
    start(run_config(tmp_path, **config), Options(tmp_path / "again", replay=run))
    assert model(tmp_path / "again") == model(run), "a replay needs no registry"
    found = Run(run).status().shadows["classify"]
    assert (found.champion, found.shadow) == (uri, None)


def test_a_promoted_version_enters_catches_up_and_replaces_the_model_once(tmp_path: Path, name: str) -> None:
    append(tmp_path, 100)
    first = register(tmp_path, name, "champion")
    append(tmp_path, 100)
    second = register(tmp_path, name)
    append(tmp_path, 200)
    config: dict[str, Any] = {"model": {"from": f"models:/{name}@champion"}, "shadow": challenged(name)}
    with flowing(tmp_path), running(tmp_path, **config) as run:
        wait_until(lambda: has(run, NewModel)() and processed(run) > 3, "epochs")
        promote(name, 2)
        wait_until(has(run, Swap), "the swap")
    assert alias_of(name) == second
    assert [each.version for each in events(run, NewModel)] == [first, second]
    start(run_config(tmp_path, **config), Options(run, follow=False))
    assert model(run) == handed_over(tmp_path, second)
    with running(tmp_path, **config):
        promote(name, 1)
        wait_until(lambda: len(events(run, Swap)) == 2, "the swap back")
    assert [each.version for each in events(run, Swap)] == [second, first], "the first promotion is not followed again"
    promote(name, 2)
    with running(tmp_path, **config):
        wait_until(lambda: len(events(run, Swap)) == 3, "the promotion that was made while the run was stopped")
    assert [each.version for each in events(run, Swap)] == [second, first, second]


def test_a_version_promoted_as_it_is_skips_the_records_that_it_has_not_learned(tmp_path: Path, name: str) -> None:
    append(tmp_path, 100)
    uri = register(tmp_path, name)
    append(tmp_path, 60)
    config: dict[str, Any] = {"model": {"type": "majority"}, "shadow": challenged(name)}
    with flowing(tmp_path), running(tmp_path, **config) as run:
        wait_until(lambda: processed(run) > 3, "epochs")
        promote(name, 1, as_is=True)
        wait_until(has(run, NewModel), "the version")
    start(
        run_config(tmp_path, **config, mlflow={"experiment": name}),
        Options(run, follow=False),
        observers=lambda watched: make_observers(watched, lambda *_: []),
    )
    [entered] = events(run, NewModel)
    assert (entered.step, entered.version, entered.repeated) == ("classify", uri, 0)
    assert entered.trained == {source: {"0": 100} for source in SOURCES}
    [first] = [epoch for epoch in EpochReader(run / "epochs").epochs() if entered in epoch.events]
    before = EpochReader(run / "epochs").totals_upto(first.number - 1).positions.values()
    assert entered.skipped == sum(before) - 4 * 100
    seen = Run(run).model().classify.version_state()
    learned_records = int(np.asarray(seen["mini_batches"])[0])
    assert learned_records == EpochReader(run / "epochs").totals().records - entered.skipped
    recorded = MlflowClient().get_run(json.loads((run / "mlflow.json").read_text())["run"])
    assert recorded.data.tags["millstream.model.classify"] == uri


def artefact(name: str, version: int) -> Path:
    """The folder of a version in the store."""
    return Path(str(MlflowClient().get_model_version_download_uri(name, str(version))).removeprefix("file://"))


def upcoming(run: Path) -> str | None:
    """The state of the version that is to enter a run."""
    found = Run(run).status().shadows["classify"].next
    return None if found is None else found.state


def test_what_cannot_enter_is_refused_with_the_reason_and_the_stream_goes_on(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "millstream.runs.shadow")
    append(tmp_path, 50)
    register(tmp_path, name, dimensions=1 << 10)
    shutil.rmtree(tmp_path / "trained")
    good = register(tmp_path, name)
    shutil.copytree(tmp_path / "trained", tmp_path / "other")
    append(tmp_path, 50)
    corrupt = register(tmp_path, name)
    for file in artefact(name, 3).rglob("arrays.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    with running(tmp_path, model={"type": "majority"}, shadow=challenged(name)) as run:
        wait_until(lambda: "names no version; the shadow waits" in caplog.text, "an alias to nothing")
        for number, reason in ((1, "its features mean something else here"), (3, "was altered")):
            MlflowClient().set_registered_model_alias(name, "challenger", str(number))
            wait_until(lambda reason=reason: reason in caplog.text, reason)  # type: ignore[misc]
            assert "is refused, and the run goes on without it" in caplog.text
            wait_until(lambda: upcoming(run) == "refused", "the status")
        MlflowClient().set_registered_model_alias(name, "challenger", "2")
        wait_until(has(run, NewModel), "the good version")
    assert [each.version for each in events(run, NewModel)] == [good] != [corrupt]
    assert caplog.text.count("its features mean something else here") == 1


def test_two_pipelines_follow_one_promotion_and_say_who_moved_the_alias(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "millstream.runs.shadow")
    append(tmp_path, 300)
    first = register(tmp_path, name, "challenger")
    config: dict[str, Any] = {"model": {"type": "majority"}, "shadow": challenged(name, **RULE)}
    with flowing(tmp_path), running(tmp_path, **config) as one, running(tmp_path, "second", **config) as two:
        for run in (one, two):
            wait_until(has(run, Swap), "the swap by the rule")
        wait_until(lambda: alias_of(name) == first, "the alias")
        second = register(tmp_path, name)
        promote(name, 2)
        for run in (one, two):
            wait_until(lambda run=run: len(events(run, Swap)) == 2, "the promoted version")  # type: ignore[misc]
    for run in (one, two):
        assert [each.version for each in events(run, Swap)] == [first, second]
    assert alias_of(name) == second
