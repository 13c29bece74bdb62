"""Every config of the repository runs from Python with the digests of the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.brokers import SharedBroker
from support.docs_pages import ROOT
from support.documents import write_documents
from support.forks import start_fork_server
from support.summaries import results, results_of_command
from support.topics import produce_documents

import millstream as ms

NEWS = [
    {"text": f"a late {('goal', 'train')[n % 2]} {n}", "label": ("sport", "travel")[n % 2], "published_at": 60 * n}
    for n in range(100)
]
STUDIES = ROOT / "configs/studies"
"""Studies have a format of their own; tests/study has their tests."""
CONFIGS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in sorted((ROOT / "configs").rglob("*.yaml"))
    if path.parent != STUDIES and "." not in path.stem  # demo.stream.yaml is an overlay of demo.yaml
}
WITHOUT_BROKER = [name for name, text in CONFIGS.items() if "type: kafka" not in text]
SMALLER = {"source.records": 5000, "engine.epoch.max_records": 500}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configs of the repository with data to read, in the current folder."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    texts = [{"id": f"{n}", "text": line["text"], "time": line["published_at"]} for n, line in enumerate(NEWS)]
    labels = [{"id": f"{n}", "label": line["label"], "time": line["published_at"]} for n, line in enumerate(NEWS)]
    notes = [
        {**text, "text": f"chain{n} chain{n + 1}"} | (label if n % 9 == 0 else {})
        for n, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    orders = [{**text, "currency": ("EUR", "GBP", "EUR")[n % 3], "sum": f"{n}"} for n, text in enumerate(texts)]
    rates = [{"currency": line["currency"], "rate": line["id"], "time": line["time"]} for line in orders[::9]]
    files = {"news": NEWS, "texts": texts, "labels": labels, "notes": notes, "orders": orders, "rates": rates}
    for file, lines in files.items():
        (tmp_path / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def by_command(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a config on the local engine, by the command line."""
    sets = [f"--set={key}={value}" for key, value in {**changes, "engine.type": "local"}.items()]
    return results_of_command(name, *sets, "--run", "runs/command", "--until-idle", "--fresh")


def by_python(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a config on the local engine, from Python."""
    run = ms.run(name, set={"engine.type": "local", **changes}, run="runs/python", follow=False, fresh=True)
    return results(run.summary)


def test_the_configs_are_these() -> None:
    names = (
        "converted",
        "demo",
        "documents",
        "joined",
        "label_propagation",
        "news",
        "search",
        "trending",
        "two_models",
    )
    assert [f"configs/{name}.yaml" for name in names] == WITHOUT_BROKER
    assert set(CONFIGS) - set(WITHOUT_BROKER) == {"configs/kafka.yaml", *CHAIN}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", WITHOUT_BROKER)
def test_a_config_has_the_digests_of_the_command(checkout: Path, name: str, workers: int) -> None:
    start_fork_server()
    smaller = SMALLER if name in ("configs/demo.yaml", "configs/trending.yaml") else {}
    assert by_python(name, {**smaller, "engine.workers": workers}) == by_command(name, smaller)


CHAIN = ("configs/chain/classify.yaml", "configs/chain/follow.yaml")
SINKS = {"configs/kafka.yaml": ["predictions", "topics", "rejects"], CHAIN[0]: ["predictions"], CHAIN[1]: ["topics"]}


@pytest.mark.kafka
def test_a_config_of_topics_has_the_digests_of_the_command(
    checkout: Path, broker: SharedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOTSTRAP", broker.bootstrap)
    documents = broker.topic("documents")
    write_documents(checkout / "documents")
    produce_documents(broker.bootstrap, documents, checkout / "documents")

    def both(name: str, source: str) -> str:
        """Run a config by the command line and from Python, each with its own sinks; return the first sink's topic."""
        source_of = {"source.topic": source, "engine.epoch.max_records": 50}
        topics = [{f"sinks.{sink}.topic": broker.topic(sink) for sink in SINKS[name]} for _ in range(2)]
        expected = by_command(name, {**source_of, **topics[0]})
        assert expected["records"] > 150 and set(expected["delivered"]) >= set(SINKS[name])
        assert by_python(name, {**source_of, **topics[1]}) == expected
        return next(iter(topics[0].values()))

    both("configs/kafka.yaml", documents)
    both(CHAIN[1], both(CHAIN[0], documents))


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_two_runs_on_spark_share_its_session_and_have_the_digests_of_the_command(checkout: Path) -> None:
    expected = by_command("configs/demo.yaml", SMALLER)
    both = [ms.start("configs/demo.yaml", set=SMALLER, run=f"runs/{number}") for number in range(2)]
    for running in both:
        summary = running.wait().summary
        assert summary is not None and summary.engine == "spark" and results(summary) == expected
