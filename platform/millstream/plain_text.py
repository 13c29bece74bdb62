"""Text of unknown origin, such as labels, file names and errors, made safe to print."""

from __future__ import annotations

import json
import re

__all__ = ["indented", "json_object", "json_text", "one_line", "printable", "short", "value_text"]

_SHORT = 40

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal may interpret, but for tab and newline: controls, ends of lines, changes of direction.

And halves of characters, which have no bytes.
"""


def printable(text: str) -> str:
    r"""The text with its control characters written out, so that a terminal does not interpret them.

    >>> printable("\x1b]0;title\x07 and \x9b31m")
    '\\x1b]0;title\\x07 and \\x9b31m'
    """
    return _CONTROLS.sub(lambda found: _written_out(found[0]), text)


def indented(text: str) -> str:
    r"""The text as printable lines, of which only the first begins at the margin, so that no line looks like a new one.

    >>> indented("no such label: sport\nmillstream: done")
    'no such label: sport\n  millstream: done'
    """
    return printable(text).replace("\n", "\n  ")


def one_line(text: str) -> str:
    r"""The text as one line of printable characters.

    >>> one_line("sport\n10 rejects")
    'sport\\n10 rejects'
    """
    return printable(text).replace("\n", "\\n")


def short(text: str) -> str:
    """The text, or the beginning of a text of more than 40 characters, which would not fit into a table or a list.

    >>> short("sport"), short("a" * 50)
    ('sport', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...')
    """
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."


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


def value_text(value: object) -> str:
    """A value of an option as in a config: a text without quotation marks, all else as JSON.

    >>> value_text("adaptive"), value_text([1, 2]), value_text(None)
    ('adaptive', '[1, 2]', 'null')
    """
    return value if isinstance(value, str) else json_object(value)


def _written_out(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
