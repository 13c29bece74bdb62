"""Work in the background whose result is not wanted."""

from __future__ import annotations

import pytest

from millstream.state.background import ThreadedBackground, Work


def test_an_error_of_work_that_is_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> Work[None]:
        yield
        raise OSError(28, "No space left on device")

    ThreadedBackground().start(work()).leave()
    assert [record.getMessage() for record in caplog.records] == [
        "work in the background failed: [Errno 28] No space left on device"
    ]


def test_an_error_that_the_result_has_raised_is_not_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> Work[None]:
        yield
        raise OSError(28, "No space left on device")

    task = ThreadedBackground().start(work())
    with pytest.raises(OSError, match="No space left"):
        task.result()
    task.leave()
    assert caplog.records == []
