"""Errors of the operating system are printed with a remedy; only unforeseen errors are called a defect."""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn

import pytest

from millstream import cli


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (errno.ENOSPC, 4, "No space left on device; make room, and run the same command again"),
        (errno.EDQUOT, 4, "Disk quota exceeded; make room, and run the same command again"),
        (
            errno.EROFS,
            1,
            "Read-only file system; choose a folder that you can write to, and run the same command again",
        ),
        (errno.EXDEV, 1, "Invalid cross-device link; this is a defect, and --debug shows where"),
    ],
)
def test_an_error_of_the_operating_system_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int, message: str
) -> None:
    def refuse(**_: Any) -> NoReturn:
        raise OSError(number, os.strerror(number), "runs/demo/checkpoints")

    monkeypatch.setattr(cli.millstream, "main", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "demo.yaml"])
    assert ended.value.code == code
    assert capsys.readouterr().err == f"millstream: runs/demo/checkpoints: {message}\n"
