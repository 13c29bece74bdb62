"""Two pipelines in a chain, from topic to topic, each killed on its own."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from support.brokers import SharedBroker
from support.commands import Commands, processed
from support.conditions import wait_until
from support.feeds import TopicFeed
from support.topics import seen

CHAIN = Path(__file__).parents[2] / "configs/chain"
RECORDS = 10_000


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
        return self.commands[name].finish(run, *self.options(name, run), *options)

    def windows(self, run: str) -> list[tuple[Any, ...]]:
        rows = seen(self.bootstrap, f"{self.documents}-{run}-popular")
        return sorted((row["_window"], row["topic"], row["count"], row["share"]) for row in rows)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("second", ["local", pytest.param("spark", marks=pytest.mark.matrix)])
def test_windows_at_the_end_of_a_chain_are_those_of_a_run_without_kills(
    tmp_path: Path, broker: SharedBroker, second: str
) -> None:
    """The first pipeline runs on Spark."""
    rng = random.Random(17)
    chain = Chain(tmp_path, broker.bootstrap, broker.topic("documents"))
    feed = TopicFeed(broker.bootstrap, chain.documents, RECORDS, per_second=2_000)
    feed.start()
    running = {
        name: chain.commands[name].start(
            "killed", *chain.options(name, "killed"), "--follow", "--set", f"engine.type={engine}"
        )
        for name, engine in (("classify", "spark"), ("follow", second))
    }
    for name, process in running.items():
        run = tmp_path / name / "killed"
        wait_until(lambda run=run: processed(run) >= 3, f"epochs of {name}", process)  # type: ignore[misc]
    for name in rng.sample(list(running), 2):
        time.sleep(rng.random() * 0.5)  # anywhere in an epoch
        assert running[name].poll() is None, running[name].communicate()
        running[name].kill()
        running[name].communicate()
    feed.join()
    classified = chain.finish("classify", "killed", "--until-idle")
    chain.finish("follow", "killed", "--until-idle")
    assert classified["records"] == RECORDS

    chain.finish("classify", "golden", "--replay", str(tmp_path / "classify/killed"))
    chain.finish("follow", "golden", "--until-idle")
    assert len(chain.windows("golden")) > 10
    assert chain.windows("killed") == chain.windows("golden")
