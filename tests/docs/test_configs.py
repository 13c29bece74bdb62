"""The configs in the documents are valid, and the reference shows every key with its default."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.docs_pages import ROOT, TEXTS, Block, blocks

from millstream.cli import main
from millstream.config.models import Config, EngineConfig, Guarantee

FOR_EXCERPTS = {"name": "excerpt", "source": {"type": "generator"}, "pipeline": {"use": "text_topics"}}
NO_CONFIGS = ("# configs/", "scrape_configs:")
REGISTERED = "models:/"
"""A config that takes its model from a registry is run by a test of the commands around it."""
CONFIGS = [
    block
    for name in TEXTS
    for block in blocks(name, "yaml")
    if not block.text.startswith(NO_CONFIGS) and REGISTERED not in block.text
]


@pytest.mark.parametrize("block", CONFIGS, ids=lambda block: f"{block.document}-{block.heading}")
def test_configs_in_the_text_are_valid(folder: Path, block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    for file in ("news", "notes", "old"):
        (folder / f"{file}.jsonl").touch()
    config = folder / "configs" / "shown.yaml"
    config.write_text(yaml.safe_dump(FOR_EXCERPTS | yaml.safe_load(block.text)))
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(config)])
    assert ended.value.code == 0, capsys.readouterr().err


def test_the_config_of_the_reference_has_all_keys_and_their_defaults() -> None:
    shown = yaml.safe_load(blocks("docs/reference.md", "yaml", "Config")[0].text)
    assert {*shown, "sources"} == {*Config.model_fields}
    assert shown["guarantee"] == Guarantee().model_dump()
    assert set(shown["engine"]) == set(EngineConfig.model_fields)
    assert EngineConfig.model_validate({**shown["engine"], "placement": {}}).model_dump() == EngineConfig().model_dump()
    least = Config.model_validate({"name": "a", "source": {"type": "generator"}, "pipeline": {"use": "text_topics"}})
    for key in ("keep", "mlflow"):
        assert getattr(least, key) == getattr(Config.model_validate({**shown, "sinks": {}}), key)
    assert least.pipeline.model_dump() == type(least.pipeline).model_validate(shown["pipeline"]).model_dump()


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_editors_know_what_a_shipped_config_may_say(path: Path) -> None:
    assert path.read_text().startswith("# yaml-language-server: $schema=./millstream.schema.json\n")
