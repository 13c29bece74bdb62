"""An exported model predicts raw text with MLflow's loader, where only its own requirements are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from registry.packages import link_packages

from millstream.api.run import Run, open_run
from millstream.config.load import read_config
from millstream.errors import ConfigError, MillstreamError
from millstream.registry.client import Registry
from millstream.registry.code_parts import copy_code
from millstream.runs.start import Options, start

TEXTS = ["goal penalty striker", "budget minister vote", "film actor scene"]

PREDICT = """
import json, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
sys.path.insert(0, sys.argv[1])
import pandas as pd
from mlflow.pyfunc import load_model
found = load_model(sys.argv[2]).predict(pd.DataFrame({"text": json.loads(sys.argv[3])}))
import millstream, shouting
print(json.dumps([found.to_dict("list"), millstream.__file__, shouting.__file__]))
"""


def test_a_version_predicts_where_only_its_requirements_are(run: Run, store: str, tmp_path: Path) -> None:
    made = run.export("alone")
    artefact = Path(download_artifacts(artifact_uri=made.uri, dst_path=str(tmp_path / "model"), tracking_uri=store))
    packages = tmp_path / "packages"
    link_packages(artefact / "requirements.txt", packages)
    assert not (packages / "millstream").exists()
    command = [sys.executable, "-I", "-S", "-c", PREDICT, str(packages), str(artefact), json.dumps(TEXTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found, *files = json.loads(done.stdout)
    expected = run.predict(TEXTS)
    assert found["predicted"] == [each.predicted for each in expected]
    assert found["probability"] == [each.probability for each in expected]
    assert all(file.startswith(str(artefact / "code")) for file in files)


def test_a_package_without_an_init_file_is_copied(tmp_path: Path) -> None:
    import support.user_functions

    copy_code(tmp_path / "code", [support.user_functions.__name__])
    assert (tmp_path / "code/support/user_functions.py").is_file()


def test_the_registry_shows_the_digest_the_positions_and_the_cuts(run: Run, store: str) -> None:
    made = run.export("described")
    version = MlflowClient(tracking_uri=store).get_model_version("described", "1")
    assert version.tags["millstream.digest"] == made.digest
    assert json.loads(version.tags["millstream.trained"]) == {"source": {"0": 1500}}
    assert made.records == 1500


def test_a_model_that_is_the_newest_version_gets_no_second_one(run: Run) -> None:
    assert [run.export("once").version, run.export("once").version] == [1, 1]


def test_a_fetched_version_has_the_state_of_the_checkpoint(run: Run, store: str, tmp_path: Path) -> None:
    made = run.export("fetched")
    MlflowClient(tracking_uri=store).set_registered_model_alias("fetched", "champion", "1")
    uri, version = Registry(store).fetch("models:/fetched@champion", tmp_path)
    assert uri == "models:/fetched/1"
    state = run.model().classify.save()
    assert version.digest == made.digest
    assert version.state.keys() == state.keys()
    for name, value in state.items():
        assert np.array_equal(np.asarray(version.state[name]), np.asarray(value))


def test_an_altered_artefact_is_refused(run: Run, store: str, tmp_path: Path) -> None:
    run.export("altered")
    place = MlflowClient(tracking_uri=store).get_model_version_download_uri("altered", "1")
    arrays = Path(place.removeprefix("file://")) / "data/version/arrays.safetensors"
    data = bytearray(arrays.read_bytes())
    data[-1] ^= 1
    arrays.write_bytes(bytes(data))
    with pytest.raises(MillstreamError, match="altered"):
        Registry(store).fetch("models:/altered/1", tmp_path)


@pytest.mark.parametrize("uri", ["models:/none@champion", "models:/none/1"])
def test_an_alias_to_nothing_is_refused(uri: str, store: str, tmp_path: Path) -> None:
    with pytest.raises(MillstreamError, match="the registry has no such version"):
        Registry(store).fetch(uri, tmp_path)


def test_a_uri_of_another_form_is_refused(store: str, tmp_path: Path) -> None:
    with pytest.raises(MillstreamError, match="write models:/NAME/VERSION or models:/NAME@ALIAS"):
        Registry(store).fetch("runs:/none", tmp_path)


def test_a_name_that_could_be_a_query_is_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match="a model has a name of letters"):
        run.export("x' OR '1")


def test_a_model_behind_a_step_with_state_is_refused(config: dict[str, Any], tmp_path: Path, store: str) -> None:
    features, model = config["pipeline"]["steps"][1:]
    config["pipeline"] = {"steps": [{"type": "dedupe", "by": "text", "within": "1h"}, features, model]}
    start(read_config(config, tmp_path, "small.yaml"), Options(tmp_path / "keyed"))
    with pytest.raises(MillstreamError, match="has state, which a version of the model does not have"):
        open_run(tmp_path / "keyed").export("keyed")


def test_options_from_the_environment_do_not_leave(config: dict[str, Any], tmp_path: Path) -> None:
    config["pipeline"] = {"steps": [{**config["pipeline"]["steps"][0]}, *config["pipeline"]["steps"][1:]]}
    config["pipeline"]["steps"][0]["function"] = "${FUNCTION}"
    loaded = read_config(config, tmp_path, "small.yaml", {"FUNCTION": "shouting:louder"})
    start(loaded, Options(tmp_path / "secret"))
    with pytest.raises(MillstreamError, match="has values from the environment"):
        Run(tmp_path / "secret", loaded).export("secret")
