"""Passwords of URLs and values from outside are not shown, neither in texts nor in errors and their causes."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from millstream.errors import MillstreamError
from millstream.redaction import Secrets, without_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://ann:p@ss@host/x", "at http://ann:***@host/x"),
        ("at http://ann:p/w@host/x", "at http://ann:***@host/x"),
        ("at https://TOKEN@host/x", "at https://***@host/x"),
        ("at https://TOKEN@host:80/x", "at https://***@host:80/x"),
        ("at https://TOKEN@host/a@1", "at https://***@host/a@1"),
        ("http://ann@example.org:pw@host", "http://***@host"),
        ("http://:pw@host", "http://:***@host"),
        ("http://a:b@h1,http://c:d@h2", "http://a:***@h1,http://c:***@h2"),
        ("http://a:b@h and c@d", "http://a:***@h and c@d"),
        ("https://${USER}:${file:a/b}@host", "https://${USER}:${file:a/b}@host"),
    ],
)
def test_no_part_of_a_password_is_shown(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
    assert without_passwords(shown) == shown


@pytest.mark.parametrize("text", ["https://host/package@1.0", "sqlite:////data/a@b.db", "a@b", "http://host:80/x"])
def test_an_address_without_a_user_stays(text: str) -> None:
    assert without_passwords(text) == text


SECRETS = Secrets({"TOKEN": "s3cr3t's", "file:run/pass": "pass"})


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + str(error)


@pytest.mark.parametrize("value", ["s3cr3t's", {"token": "s3cr3t's"}, b"s3cr3t's", Path("s3cr3t's")])
def test_an_error_is_redacted_whatever_its_arguments_are(value: object) -> None:
    for kind in (ValueError, KeyError):
        with pytest.raises(kind) as raised, SECRETS.redacting():
            raise kind(value)
        assert "${TOKEN}" in shown(raised.value) and "s3cr3t" not in shown(raised.value)


def test_the_causes_and_the_notes_of_an_error_are_redacted() -> None:
    with pytest.raises(MillstreamError) as raised, SECRETS.redacting():
        try:
            try:
                raise KeyError("s3cr3t's")
            except KeyError:
                raise ValueError("not s3cr3t's")  # noqa: B904
        except ValueError as cause:
            error = MillstreamError("refused")
            error.add_note("tried s3cr3t's")
            raise error from cause
    assert "not ${TOKEN}" in shown(raised.value) and "tried ${TOKEN}" in shown(raised.value)
    assert "s3cr3t" not in shown(raised.value)


def test_an_error_with_a_text_of_its_own_is_replaced_or_no_longer_a_cause() -> None:
    def fail() -> None:
        TypeAdapter(int).validate_python("s3cr3t's")

    with pytest.raises(MillstreamError, match=r"ValidationError: .*\$\{TOKEN\}") as replaced, SECRETS.redacting():
        fail()
    with pytest.raises(RuntimeError) as raised, SECRETS.redacting():
        try:
            fail()
        except ValueError as error:
            raise RuntimeError("refused") from error
    for error in (replaced.value, raised.value):
        assert "s3cr3t" not in shown(error)


def test_an_error_without_secrets_stays_as_it_is() -> None:
    given = (FileNotFoundError(2, "there is no file"), ValueError(1.5, [2]), FileNotFoundError(2, "gone", "a"))
    for error in given:
        before, arguments = str(error), error.args
        with pytest.raises(type(error)), SECRETS.redacting():
            raise error
        assert (str(error), error.args) == (before, arguments)


def test_a_redacted_text_stays_as_it_is() -> None:
    redacted = SECRETS.redact("pass s3cr3t's")
    assert redacted == SECRETS.redact(redacted) == "${file:run/pass} ${TOKEN}"
