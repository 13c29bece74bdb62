"""The command line as a user runs it: arguments in; exit code, standard output and standard error out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.command_result import CommandResult, Millstream

from millstream.cli import main
from millstream.config import plugins
from millstream.digests import digest_of
from millstream_models.hashed_text import HashedText

NEWS = """\
name: news
source: {type: files, path: news.jsonl, fields: {text: text, label: label, time: published_at}}
pipeline:
  use: text_topics
  features: {type: hashed_text, dimensions: 1024}
  model: {type: complement_nb, batch_size: 256}
  popularity: {window: {type: tumbling, size: 1h, lateness: 10m}, threshold: 0.10}
sinks: {predictions: {type: files}}
guarantee: {delivery: at_least_once, checkpoint_every: 4, commit_every: 2}
engine: {type: local, epoch: {max_records: 500, max_wait: 100ms}}
"""

DEMO = """\
name: demo
source: {type: generator, records: 5000}
pipeline:
  use: text_topics
  features: {type: hashed_text, dimensions: 4096}
  model: {type: complement_nb, batch_size: 64}
  popularity: {window: {type: tumbling, size: 10m}, threshold: 0.10}
engine: {type: local, epoch: {max_records: 500}}
"""


@pytest.fixture(scope="session", autouse=True)
def compiled_before() -> None:
    """Call the compiled functions of the pipelines: their first compilation prints a line to standard error."""
    records = pa.table({"text": ["a late goal"]})
    digest_of(HashedText().build(records.schema).process(records).records)


@pytest.fixture
def millstream(capsys: pytest.CaptureFixture[str]) -> Millstream:
    """Return a function that runs a command line."""

    def run(*arguments: object) -> CommandResult:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a valid config `news.yaml` and its data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "news.yaml").write_text(NEWS)
    (tmp_path / "news.jsonl").write_text('{"text": "a late goal", "label": "sport", "published_at": 1}\n')
    return tmp_path


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with `demo.yaml`: ten epochs of generated documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.yaml").write_text(DEMO)
    return tmp_path


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the package in `tests/plugin`, which registers a model, look installed."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "plugin"))
    plugins.registered.cache_clear()
    yield
    plugins.registered.cache_clear()
    plugins.load.cache_clear()
