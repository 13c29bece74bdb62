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


VALUE = "s3cr3t's"
SECRETS = Secrets({"TOKEN": VALUE, "file:run/pass": "pass"})


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + str(error)


@pytest.mark.parametrize("value", [VALUE, {"token": VALUE}, VALUE.encode(), Path(VALUE)])
def test_an_error_is_redacted_whatever_its_arguments_are(value: object) -> None:
    for kind in (ValueError, KeyError):
        with pytest.raises(kind) as raised, SECRETS.redacting():
            raise kind(value)
        assert "${TOKEN}" in shown(raised.value) and VALUE not in shown(raised.value)


def refuse(secret: str) -> None:
    """Raise an error with a note, whose cause has another one as its context."""
    try:
        try:
            raise KeyError(secret)
        finally:
            raise ValueError(f"not {secret}")
    except ValueError as cause:
        error = MillstreamError("refused")
        error.add_note(f"tried {secret}")
        raise error from cause


def refuse_number(secret: str) -> None:
    """Raise an error whose cause does not make its text of its arguments."""
    try:
        TypeAdapter(int).validate_python(secret)
    except ValueError as error:
        message = "refused"
        raise MillstreamError(message) from error


def test_the_causes_and_the_notes_of_an_error_are_redacted() -> None:
    with pytest.raises(MillstreamError) as raised, SECRETS.redacting():
        refuse(VALUE)
    for part in ("KeyError: '${TOKEN}'", "not ${TOKEN}", "refused", "tried ${TOKEN}"):
        assert part in shown(raised.value)
    assert VALUE not in shown(raised.value)


def test_an_error_with_a_text_of_its_own_is_replaced_or_no_longer_a_cause() -> None:
    with pytest.raises(MillstreamError, match=r"(?s)ValidationError: .*\$\{TOKEN\}") as replaced, SECRETS.redacting():
        TypeAdapter(int).validate_python(VALUE)
    with pytest.raises(MillstreamError, match="refused") as raised, SECRETS.redacting():
        refuse_number(VALUE)
    assert VALUE not in shown(replaced.value) + shown(raised.value)


def test_an_error_without_secrets_stays_as_it_is() -> None:
    given = (FileNotFoundError(2, "there is no file"), ValueError(1.5, [2]), FileNotFoundError(2, "gone", "a"))
    for error in given:
        before, arguments = str(error), error.args
        with pytest.raises(type(error)), SECRETS.redacting():
            raise error
        assert (str(error), error.args) == (before, arguments)


def test_a_redacted_text_stays_as_it_is() -> None:
    redacted = SECRETS.redact(f"pass {VALUE}")
    assert redacted == SECRETS.redact(redacted) == "${file:run/pass} ${TOKEN}"
