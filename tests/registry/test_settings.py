"""The settings for MLflow end with the last run, and only the messages of the recording thread are dropped."""

from __future__ import annotations

import io
import logging
import os
import threading
from typing import Any

import pytest

from millstream.registry.settings import THREAD, drop_own_messages, quiet_environment, quietly


def test_the_environment_is_restored_after_the_last_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    before = dict(os.environ)
    first, second = quiet_environment(), quiet_environment()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "2"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
    second.__exit__(None, None, None)
    assert dict(os.environ) == before


def test_mlflow_prints_no_addresses_of_runs_on_standard_output() -> None:
    def prints_nothing() -> bool:
        from mlflow import environment_variables

        setting: Any = environment_variables.MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
        return bool(setting.get())

    assert quietly(prints_nothing), "the output of `train --register --json` is one JSON object"


def test_only_the_messages_of_the_recording_thread_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    logger = logging.getLogger("mlflow")
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(shown)])
    monkeypatch.setattr(logger, "level", logging.INFO)
    child = logging.getLogger("mlflow.of_this_test")
    drop_own_messages()

    def record() -> None:
        child.info("dropped")
        child.error("our error")

    ours = threading.Thread(target=record, name=THREAD)
    ours.start()
    ours.join()
    child.info("the program's")
    assert shown.getvalue() == "our error\nthe program's\n"
    assert logger.level == logging.INFO
