"""Text and errors without secrets: the values from outside of a config, and the passwords of URLs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath

from millstream.errors import MillstreamError

__all__ = ["Secrets", "without_passwords"]

_LEAST = 4
"""The length from which on a value from outside is hidden: a shorter one is no secret, and part of many words."""
_USER = re.compile(r"://((?:(?!://)\S)*)@")
"""The text from the begin of a URL to its last `@`, which may be the user information, or a path with an `@` in it."""
_REFERENCES = re.compile(r"(?:\$\{[^}]*\}|[^:@/]*):\$\{[^}]*\}|\$\{[^}]*\}")

_LINKS = ("__cause__", "__context__")
_PARTS = (str, bytes, PurePath, list, tuple, dict, set, BaseException)
"""The classes of arguments that can be printed without a side effect, and may hold a secret."""


@dataclass(frozen=True)
class Secrets:
    """The values that a config takes from the environment and from files, by the names of their references."""

    values: Mapping[str, str] = field(default_factory=dict)

    def redact(self, text: str) -> str:
        """Return the text with references in place of outside values, and without the passwords of URLs.

        >>> Secrets({"TOKEN": "s3cret"}).redact("s3cret is refused by http://ann:pw@host")
        '${TOKEN} is refused by http://ann:***@host'
        """
        return without_passwords(self.with_references(text))

    def with_references(self, text: str) -> str:
        """Return the text with a reference in place of each outside value that is long enough to be a secret.

        References in the text stay as they are, also if their names contain a value.

        >>> Secrets({"file:run/pass": "pass"}).with_references("pass is in ${file:run/pass}")
        '${file:run/pass} is in ${file:run/pass}'
        """
        references = {f"${{{name}}}": value for name, value in self.values.items() if len(value) >= _LEAST}
        spelled = {spelling: shown for shown, value in references.items() for spelling in _spellings(value)}
        found = [*references, *sorted(spelled, key=len, reverse=True)]
        return re.sub("|".join(map(re.escape, found)), lambda each: spelled.get(each[0], each[0]), text)

    @contextmanager
    def redacting(self) -> Iterator[None]:
        """Remove the secrets from the exceptions that pass, and from their causes, which a traceback shows too."""
        try:
            yield
        except Exception as error:
            if not _clean(error, self.redact):
                message = self.redact(f"{type(error).__name__}: {error}")
                raise MillstreamError(message) from None
            raise


def _spellings(value: str) -> set[str]:
    """Return a value as text, in Python, in JSON, and with the `$$` of a resolved config."""
    plain = [value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    return {*plain, *(text.replace("$", "$$") for text in plain)}


def _clean(error: BaseException, redact: Callable[[str], str]) -> bool:
    """Redact an exception and its causes; false if its text is not made of its arguments, and keeps a secret."""
    chain = [error]
    for each in chain:
        for link in _LINKS:
            cause = getattr(each, link)
            if cause is not None and cause not in chain:
                chain.append(cause)
    unclean = [each for each in chain if not _clean_one(each, redact)]
    for each in chain:
        for link in _LINKS:
            if getattr(each, link) in unclean:
                setattr(each, link, None)
    return error not in unclean


def _clean_one(error: BaseException, redact: Callable[[str], str]) -> bool:
    before = _text(error)
    error.args = tuple(_redacted(part, redact) for part in error.args)
    for name in ("filename", "filename2") if isinstance(error, OSError) else ():
        if getattr(error, name) is not None:
            setattr(error, name, _redacted(getattr(error, name), redact))
    if notes := getattr(error, "__notes__", None):
        notes[:] = map(redact, notes)
    return redact(before) == before or _text(error) != before


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an error of Spark has no text any more once Spark has ended, so it shows no secret
        return ""


def _redacted(part: object, redact: Callable[[str], str]) -> object:
    """Redact an argument of an exception; it becomes a text only if it has a secret."""
    if not isinstance(part, _PARTS):
        return part
    redacted = redact(str(part))
    return part if redacted == str(part) else redacted


def without_passwords(text: str) -> str:
    """The text with `***` in place of the passwords of its URLs, and of users without a password, which may be tokens.

    A password may have any character but white space, so text after it that ends with `@` is hidden too.

    >>> without_passwords("no answer from http://ann:s3c/r@t@127.0.0.1:5000/api, nor from https://token@127.0.0.1")
    'no answer from http://ann:***@127.0.0.1:5000/api, nor from https://***@127.0.0.1'
    """
    return _USER.sub(lambda found: f"://{_hidden(found[1])}@", text)


def _hidden(user: str) -> str:
    """User information without its secrets; references to values from outside stay.

    >>> [_hidden(user) for user in ("ann:s3cret", "token", "${USER}:${file:secrets/password}", "host/path")]
    ['ann:***', '***', '${USER}:${file:secrets/password}', 'host/path']
    """
    if _REFERENCES.fullmatch(user):
        return user
    first, slash, path = user.partition("/")
    name, colon, _ = first.partition(":")
    if colon:
        return "***" if "@" in name else f"{name}:***"
    if slash:  # the `@` is in the path
        _, at, host = first.rpartition("@")
        return f"***@{host}/{path}" if at else user
    return "***"
