"""The store of versions in a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millstream.errors import AlteredLog
from millstream.state.digests import state_digest
from millstream.state.model_version import OPTIONS, ModelVersion
from millstream.state.version_store import VersionStore


def version(alpha: float = 1.0, **changes: Any) -> ModelVersion:
    model = {"type": "multinomial_nb", "alpha": alpha}
    state = {"model/counts": np.arange(6.0).reshape(3, 2), "classes": b"[]", **changes}
    return ModelVersion("label", state, ({"type": "classify", "model": model},), {}, "")


def test_a_version_comes_back_under_its_digest_in_this_process_and_in_another_one(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "models")
    digest = store.put(version())
    assert digest == str(state_digest({**version().state, OPTIONS: version().options}))
    for found in (store.load(digest), store.load(digest), VersionStore(tmp_path / "models").load(digest)):
        assert found.entered == digest and found.model == version().model


def test_versions_with_one_state_and_other_options_are_two(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "models")
    assert version().digest == version(0.5).digest
    assert store.put(version()) != (other := store.put(version(0.5)))
    assert VersionStore(tmp_path / "models").load(other).model["alpha"] == 0.5


def test_an_interrupted_put_is_repeated(tmp_path: Path) -> None:
    digest = VersionStore(tmp_path / "models").put(version())
    (tmp_path / "models" / digest / "version.json").unlink()
    with pytest.raises(AlteredLog, match=str(tmp_path / "models" / digest)):
        VersionStore(tmp_path / "models").load(digest)
    VersionStore(tmp_path / "models").put(version())
    assert VersionStore(tmp_path / "models").load(digest).entered == digest


def test_a_folder_with_another_version_is_refused(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "models")
    one, other = store.put(version()), store.put(version(0.5))
    (tmp_path / "models" / one / "version.json").write_bytes(
        (tmp_path / "models" / other / "version.json").read_bytes()
    )
    with pytest.raises(AlteredLog, match=f"it is the version {other}"):
        VersionStore(tmp_path / "models").load(one)


def test_a_version_is_brought_from_another_run_without_a_second_copy_of_its_arrays(tmp_path: Path) -> None:
    digest = VersionStore(tmp_path / "one").put(version())
    VersionStore(tmp_path / "two").bring(digest, VersionStore(tmp_path / "one"))
    arrays = [tmp_path / run / digest / "arrays.safetensors" for run in ("one", "two")]
    assert arrays[0].samefile(arrays[1])
    assert VersionStore(tmp_path / "two").load(digest).entered == digest
    with pytest.raises(AlteredLog, match="which is gone"):
        VersionStore(tmp_path / "two").bring("1-ab", VersionStore(tmp_path / "one"))


def test_versions_that_no_epoch_names_are_removed_but_not_those_of_this_start(tmp_path: Path) -> None:
    before = VersionStore(tmp_path / "models")
    named, unnamed = before.put(version()), before.put(version(0.5))
    store = VersionStore(tmp_path / "models")
    new = store.put(version(0.25))
    store.clean({named})
    assert {path.name for path in (tmp_path / "models").iterdir()} == {named, new} and unnamed != new
