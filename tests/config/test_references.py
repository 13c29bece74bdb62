"""Values from files: `${file:PATH}` is the text of a file, and it never leaves the config."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from millstream.config.load import Loaded, load_config, read_back, read_config
from millstream.errors import ConfigError, MillstreamError

PLAIN = """\
name: plain
source: {type: files, path: news.jsonl}
pipeline: {use: text_topics}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN)
    return path


def with_value(config: Path, content: bytes) -> Loaded:
    """The config whose source has this content as its path."""
    (config.parent / "secret").write_bytes(content)
    return load_config(config, ["source.path=${file:secret}"])


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"hush\n", "hush"), (b"hush", "hush"), (b"hush\r\n", "hush"), (b"hush\n\n", "hush\n"), (b"a b \n", "a b ")],
)
def test_a_value_of_a_file_is_its_text_without_the_last_newline(config: Path, content: bytes, value: str) -> None:
    assert with_value(config, content).config.source.config.path == value


def test_a_file_is_relative_to_the_config_and_mixes_with_other_references(config: Path) -> None:
    (config.parent / "secrets").mkdir()
    (config.parent / "secrets/folder").write_text("/data\n")
    sets = ["source.path=${file:secrets/folder}/${NAME:-news}.jsonl", f"name=${{file:{config.parent}/name}}"]
    (config.parent / "name").write_text("quiet\n")
    loaded = load_config(config, sets, {})
    assert (loaded.config.source.config.path, loaded.config.name) == ("/data/news.jsonl", "quiet")


def test_a_resolved_config_keeps_the_reference_and_reads_back_the_same(config: Path) -> None:
    loaded = with_value(config, b"hush-hush\n")
    kept = yaml.safe_load(yaml.safe_dump(loaded.resolved()))
    assert kept["source"]["path"] == "${file:secret}"
    assert "hush" not in yaml.safe_dump(kept)
    assert read_config(kept, loaded.folder, "config.yaml").config == loaded.config


def test_a_value_of_a_file_is_redacted_in_every_spelling(config: Path) -> None:
    loaded = with_value(config, b'line "one"\nline$two\n')
    text = 'line "one"\nline$two'
    for spelling in (text, 'line \\"one\\"\\nline$two', text.replace("$", "$$")):
        assert loaded.redact(f"<{spelling}>") == "<${file:secret}>"


def test_a_value_of_a_file_is_not_in_a_message(config: Path) -> None:
    (config.parent / "secret").write_text("hush/hush")
    with pytest.raises(ConfigError) as refused:
        load_config(config, ["name=x${file:secret}", "keep=${file:secret}"])
    assert "hush" not in str(refused.value)
    assert "${file:secret}" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "secret is not UTF-8 at byte 0; a value is text"),
        (b"x" * ((1 << 20) + 1), "secret is longer than 1 MiB, which is too long for a value"),
    ],
)
def test_a_file_that_holds_no_value_is_refused(config: Path, content: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        with_value(config, content)
    assert str(refused.value) == (f"{config} (--set) source.path: ${{file:secret}}: {config.parent}/{message}")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${file:missing}", "there is no file .*missing; put the value there, or correct the path"),
        ("${file:.}", "is a folder, not a file with a value"),
        ("${file:}", "has no closing brace or no valid name"),
        ("${file:${NAME}}", "there is no file"),
    ],
)
def test_a_missing_file_is_named_with_the_key(config: Path, reference: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"plain\.yaml \(--set\) source\.path: .*{message}"):
        load_config(config, [f"source.path={reference}"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(config: Path) -> None:
    (config.parent / "secret").write_text("hush")
    (config.parent / "secret").chmod(0)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load_config(config, ["source.path=${file:secret}"])


def test_a_run_is_read_without_its_secrets_until_one_is_needed(config: Path) -> None:
    loaded = with_value(config, b"hush\n")
    kept = loaded.resolved()
    (config.parent / "secret").unlink()
    back = read_back(kept, loaded.folder, "config.yaml")
    assert back.config.source.config.path == "${file:secret}"
    assert back.unset("source") and not back.unset("pipeline")
    with pytest.raises(ConfigError, match="there is no file"):
        back.need("source")


def test_a_number_or_true_from_outside_does_not_damage_the_redacted_options(config: Path) -> None:
    loaded = load_config(config, ["source.path=${PLACE}"], {"PLACE": "true"})
    assert loaded.redacted({"shown": True, "at": ["true", 0.25]}) == {"shown": True, "at": ["${PLACE}", 0.25]}


def test_a_whole_value_from_outside_is_a_reference_whatever_its_type(config: Path) -> None:
    sets = ["pipeline.popularity={window: {type: tumbling, size: 1h}, threshold: '${THRESHOLD}'}"]
    loaded = load_config(config, sets, {"THRESHOLD": "0.25"})
    [step] = [step for step in loaded.config.steps if step.name == "popularity"]
    assert step.config.threshold == 0.25
    assert loaded.redacted({"threshold": 0.25}, ("pipeline", "popularity")) == {"threshold": "${THRESHOLD}"}
    assert loaded.redacted({"other": 0.25}, ("pipeline", "popularity")) == {"other": 0.25}


def test_errors_that_pass_lose_the_values_and_the_passwords(config: Path) -> None:
    loaded = with_value(config, b"hush-hush")
    with pytest.raises(MillstreamError, match=r"^no \$\{file:secret\} at http://ann:\*\*\*@host$"), loaded.redacting():
        raise MillstreamError("no hush-hush at http://ann:s3cret@host")
    with pytest.raises(FileNotFoundError) as missing, loaded.redacting():
        Path("/nowhere/hush-hush").read_text()
    assert "hush-hush" not in str(missing.value)


def test_a_resolved_config_keeps_the_password_that_its_file_has(config: Path) -> None:
    written = "http://ann:s3cret@host/$x"
    loaded = load_config(config, [f"mlflow={{experiment: news, tracking_uri: '{written.replace('$', '$$')}'}}"])
    kept = loaded.resolved()
    assert read_config(kept, loaded.folder, "config.yaml").config.mlflow == loaded.config.mlflow
    assert "s3cret" not in loaded.redact(str(kept))
