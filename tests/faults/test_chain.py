"""Two pipelines in a chain, from topic to topic, each killed on its own."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conformance.kafka_documents import seen
from faults.conftest import Commands, wait_until
from faults.kafka_kills import Flow, processed
from kafka_broker import SharedBroker

CHAIN = Path(__file__).parents[2] / "configs/chain"
RECORDS = 20_000


class Chain:
    """The pipelines of configs/chain/ over topics of their own."""

    def __init__(self, folder: Path, bootstrap: str, documents: str) -> None:
        self.folder, self.bootstrap, self.documents = folder, bootstrap, documents
        self.commands = {}
        for name in ("classify", "follow"):
            (folder / name).mkdir()
            shutil.copy(CHAIN / f"{name}.yaml", folder / name / "pipeline.yaml")
            self.commands[name] = Commands(folder / name)

    def options(self, name: str, run: str) -> list[str]:
        """Topics of this run's own."""
        predictions, popular = f"{self.documents}-{run}-predictions", f"{self.documents}-{run}-popular"
        between = {
            "classify": ("source.topic", self.documents, "sinks.predictions.topic", predictions),
            "follow": ("source.topic", predictions, "sinks.topics.topic", popular),
        }[name]
        sink = "predictions" if name == "classify" else "topics"
        set_to = [
            f"name={name}-{self.documents}-{run}",
            f"{between[0]}={between[1]}",
            f"{between[2]}={between[3]}",
            f"source.bootstrap={self.bootstrap}",
            f"sinks.{sink}.bootstrap={self.bootstrap}",
            "engine.epoch.max_records=1000",
        ]
        return [part for value in set_to for part in ("--set", value)]

    def finish(self, name: str, run: str, *options: str) -> dict[str, Any]:
        local = ("--set", "engine.type=local")
        return self.commands[name].finish(run, *self.options(name, run), *local, *options)

    def windows(self, run: str) -> list[tuple[Any, ...]]:
        rows = seen(self.bootstrap, f"{self.documents}-{run}-popular")
        return sorted((row["_window"], row["topic"], row["count"], row["share"]) for row in rows)


@pytest.mark.kafka
@pytest.mark.spark
def test_windows_at_the_end_of_a_chain_are_those_of_a_run_without_kills(tmp_path: Path, broker: SharedBroker) -> None:
    rng = random.Random(17)
    chain = Chain(tmp_path, broker.bootstrap, broker.topic("documents"))
    flow = Flow(broker.bootstrap, chain.documents, RECORDS, per_second=2_000)
    flow.goes_on()
    running = {
        name: chain.commands[name].start("killed", *chain.options(name, "killed"), "--follow")
        for name in ("classify", "follow")
    }
    for name in rng.sample(["classify", "follow"], 2):
        run = tmp_path / name / "killed"
        wait_until(lambda run=run: processed(run) >= 3, f"epochs of {name}", 180)  # type: ignore[misc]
        time.sleep(rng.random() * 0.5)  # anywhere in an epoch
        running[name].send_signal(signal.SIGKILL)
        running[name].communicate()
    flow.pauses()
    classified = chain.finish("classify", "killed", "--until-idle")
    chain.finish("follow", "killed", "--until-idle")
    assert classified["records"] == RECORDS

    chain.finish("classify", "golden", "--replay", str(tmp_path / "classify/killed"))
    chain.finish("follow", "golden", "--until-idle")
    assert len(chain.windows("golden")) > 20
    assert chain.windows("killed") == chain.windows("golden")
