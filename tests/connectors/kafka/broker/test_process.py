"""A process is identified by its number and start time, also on systems without /proc."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from millstream_connectors.kafka.broker import process


@pytest.fixture(params=[process._born, process._born_by_ps], ids=["proc", "ps"], autouse=True)
def born(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the start time in both ways."""
    if request.param is process._born_by_ps and shutil.which("ps") is None:
        pytest.skip("ps is not installed")
    monkeypatch.setattr(process, "_born", request.param)


def test_a_process_is_alive_until_it_has_ended() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:  # it runs until its input ends
        running = process.BrokerProcess(child.pid, 1, process._born(child.pid))
        assert process.alive(running)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
        assert not process.alive(running)
    assert not process.alive(running)


def test_another_process_of_the_same_number_is_another_process() -> None:
    assert process.alive(process.BrokerProcess(os.getpid(), 1, process._born(os.getpid())))
    assert not process.alive(process.BrokerProcess(os.getpid(), 1, "long ago"))
    assert not process.alive(process.BrokerProcess(os.getpid(), 1, ""))
