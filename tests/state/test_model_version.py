"""Tests of versions of models: what is read is what was written, and a damaged file is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from millstream.errors import AlteredCheckpoint, MillstreamError, UnknownFormat
from millstream.state.model_version import ModelVersion, Trained

STATE: dict[str, np.ndarray | bytes] = {
    "model/counts": np.arange(6, dtype=np.float64).reshape(2, 3),
    "model/classes": np.array([3], np.uint64),
    "model/none": np.zeros((0, 4), np.float32),
    "waiting": b"\0\1\2",
    "classes": '["sport", "日本"]'.encode(),
}
VERSION = ModelVersion(
    "classify",
    STATE,
    ({"type": "classify", "model": {"type": "naive_bayes"}},),
    {"news": {"0": Trained(400, "log a")}},
    "epoch log a",
)


def test_a_version_is_read_as_it_was_written(tmp_path: Path) -> None:
    VERSION.save(tmp_path / "version")
    read = ModelVersion.load(tmp_path / "version")
    assert read.state.keys() == STATE.keys()
    for name, value in STATE.items():
        found = read.state[name]
        if isinstance(value, bytes):
            assert found == value
        else:
            assert isinstance(found, np.ndarray)
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            np.testing.assert_array_equal(found, value)
    assert (read.step, read.steps, read.trained, read.cuts) == (
        "classify",
        VERSION.steps,
        VERSION.trained,
        VERSION.cuts,
    )
    assert read.digest == VERSION.digest


def test_a_damaged_version_is_refused(tmp_path: Path) -> None:
    VERSION.save(tmp_path)
    arrays = (tmp_path / "arrays.safetensors").read_bytes()
    for place in range(0, len(arrays), 7):
        (tmp_path / "arrays.safetensors").write_bytes(arrays[:place] + bytes([arrays[place] ^ 1]) + arrays[place + 1 :])
        with pytest.raises(AlteredCheckpoint, match=r"arrays\.safetensors was altered"):
            ModelVersion.load(tmp_path)
    (tmp_path / "arrays.safetensors").write_bytes(arrays)
    assert ModelVersion.load(tmp_path).digest == VERSION.digest


@pytest.mark.parametrize("key", ["step", "digest", "sha256", "steps", "trained", "cuts"])
def test_a_version_without_one_of_its_facts_is_refused(tmp_path: Path, key: str) -> None:
    VERSION.save(tmp_path)
    facts = json.loads((tmp_path / "version.json").read_text())
    del facts[key]
    (tmp_path / "version.json").write_text(json.dumps(facts))
    with pytest.raises(AlteredCheckpoint, match="was altered"):
        ModelVersion.load(tmp_path)


def test_a_version_with_the_digest_of_another_state_is_refused(tmp_path: Path) -> None:
    VERSION.save(tmp_path)
    facts = json.loads((tmp_path / "version.json").read_text())
    facts["digest"] = ModelVersion("classify", {}, (), {}, "").digest
    (tmp_path / "version.json").write_text(json.dumps(facts))
    with pytest.raises(AlteredCheckpoint, match=r"version\.json was altered: the state has another digest"):
        ModelVersion.load(tmp_path)


def test_a_folder_that_is_no_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MillstreamError, match=r"is not a version of a model: it has no version\.json"):
        ModelVersion.load(tmp_path)
    for content in ("[", "[]", "{}"):
        (tmp_path / "version.json").write_text(content)
        (tmp_path / "arrays.safetensors").write_bytes(b"")
        with pytest.raises(AlteredCheckpoint, match=r"version\.json was altered"):
            ModelVersion.load(tmp_path)
    (tmp_path / "version.json").write_text('{"format": 0}')
    with pytest.raises(UnknownFormat, match="has format 0"):
        ModelVersion.load(tmp_path)
