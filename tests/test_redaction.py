"""The passwords of URLs are not shown, whatever characters they have."""

from __future__ import annotations

import pytest

from millstream.redaction import without_passwords


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
