"""Text of unknown origin, such as labels, file names and errors, made safe to print."""

from __future__ import annotations

import json
import re

__all__ = ["json_object", "json_text", "one_line", "printable", "without_passwords"]

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that a terminal may interpret, but for tab and newline; and halves of characters, which have no bytes."""
_USER = re.compile(r"://((?:(?!://)\S)*)@")
"""The text from the begin of a URL to its last `@`, which may be the user information, or a path with an `@` in it."""
_REFERENCES = re.compile(r"(?:\$\{[^}]*\}|[^:@/]*):\$\{[^}]*\}|\$\{[^}]*\}")


def printable(text: str) -> str:
    r"""The text with its control characters written out, so that a terminal does not interpret them.

    >>> printable("\x1b]0;title\x07 and \x9b31m")
    '\\x1b]0;title\\x07 and \\x9b31m'
    """
    return _CONTROLS.sub(lambda found: _written_out(found[0]), text)


def one_line(text: str) -> str:
    r"""The text as one line of printable characters.

    >>> one_line("sport\n10 rejects")
    'sport\\n10 rejects'
    """
    return printable(text).replace("\n", "\\n")


def json_text(text: str) -> str:
    r"""A JSON text in which control characters are written out; its values stay the same.

    >>> json_text('{"label": "\x9b31m"}')
    '{"label": "\\u009b31m"}'
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_object(value: object, *, indent: int | None = None) -> str:
    """A value as the JSON that a command prints; other scripts than Latin stay as they are.

    >>> json_object({"label": "née"})
    '{"label": "née"}'
    """
    return json_text(json.dumps(value, ensure_ascii=False, indent=indent))


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


def _written_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
