"""A config file as a document: YAML with the place of every value, and the values of `--set`."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from millstream.redaction import Secrets

__all__ = ["Document", "FileLine", "KeyPath", "Place", "Problem", "Setting", "apply_sets", "parse"]

KeyPath = tuple[str | int, ...]

_MOST_VALUES = 100_000


@dataclass(frozen=True)
class FileLine:
    """A line of an overlay, or the whole overlay."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


Place = int | str | FileLine
"""The place of a value: a line of the config, `--set`, or a line of an overlay."""


@dataclass(frozen=True)
class Problem:
    """One problem of a config: its key path, and a message with the problem and the remedy.

    `where` is the place of a problem that the document has no line for, such as one in an overlay.
    """

    path: KeyPath
    message: str
    where: Place | None = None


@dataclass
class Document:
    """A parsed file and its changes. `lines` has the place of each key path."""

    data: Any = None
    lines: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    references: dict[KeyPath, str] = field(default_factory=dict)
    """The text, as written, of values that came from the environment or from a file."""
    values: dict[str, str] = field(default_factory=dict)
    """The environment variables that were used, and the files, as `file:PATH`."""
    unset: list[Problem] = field(default_factory=list)
    """The variables and files without a value, of a config that is only read."""

    def where(self, path: KeyPath) -> Place | None:
        """Return the place of a key path, or of the nearest mapping or list around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def at(self, path: KeyPath) -> Any:
        """Return the value at a key path; None if there is none."""
        data = self.data
        for part in path:
            try:
                data = data[part]
            except (KeyError, IndexError, TypeError):
                return None
        return data

    def forget(self, path: KeyPath) -> None:
        """Forget the places of a key path and of everything below it."""
        for known in [known for known in self.lines if known[: len(path)] == path]:
            del self.lines[known]

    @property
    def secrets(self) -> Secrets:
        """The values from outside, which no output shows."""
        return Secrets(self.values)


class _Loader(yaml.SafeLoader):
    """Loads the plain values of YAML 1.2: no dates, no `1:30` for 90, and `on` and `yes` are strings."""


_EXPONENT = "[eE][-+]?[0-9]+"
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    ("float", rf"^[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:{_EXPONENT})?|[0-9]+{_EXPONENT})$", "-+.0123456789"),
    ("merge", r"^<<$", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), [*_first.replace("\0", ""), ""])


class _TooLarge(Exception):
    pass


class _Reader:
    def __init__(self, loader: _Loader, document: Document) -> None:
        self._loader, self._document = loader, document
        self._seen = 0
        self._open: list[yaml.Node] = []

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        self._seen += 1
        if self._seen > _MOST_VALUES:
            raise _TooLarge
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if any(node is around for around in self._open):
            self._document.problems.append(Problem(path, "an alias refers to a mapping or list that contains it"))
            return None
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
                return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._loader.construct_object(node)
        except (yaml.constructor.ConstructorError, ValueError) as error:
            reason = getattr(error, "problem", None) or str(error)
            self._document.problems.append(Problem(path, f"not a plain value: {reason}"))
            return None
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        firsts: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._document.problems.append(Problem(path, "a key is a single value, not a list or a mapping"))
                return {}
            line = key.start_mark.line + 1
            if key.value in firsts and key.tag != "tag:yaml.org,2002:merge":
                here = (*path, key.value)
                self._document.lines[here] = line
                message = f"the key is given twice, first on line {firsts[key.value]}; keep one of them"
                self._document.problems.append(Problem(here, message))
            firsts.setdefault(key.value, line)
        self._loader.flatten_mapping(node)
        result = {}
        for key, value in node.value:
            here = (*path, key.value)
            self._document.lines.setdefault(here, key.start_mark.line + 1)
            result[key.value] = self.read(value, here)
        return result


def parse(text: str) -> Document:
    """Parse YAML as far as possible; the document has the problems.

    >>> document = parse("name: news\\nengine:\\n  type: local\\n")
    >>> document.data["engine"], document.lines["engine", "type"]
    ({'type': 'local'}, 3)
    >>> parse("name: a\\nname: b\\n").problems[0].message
    'the key is given twice, first on line 1; keep one of them'
    """
    document = Document()
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            document.data = _Reader(loader, document).read(node, ())
    except yaml.YAMLError as error:
        document.problems.append(_not_yaml(error, text, document))
    except _TooLarge:
        document.problems.append(Problem((), f"more than {_MOST_VALUES:,} values, which is too large for a config"))
    except RecursionError:
        document.problems.append(Problem((), "nested too deeply to be a config"))
    return document


def _not_yaml(error: yaml.YAMLError, text: str, document: Document) -> Problem:
    mark = getattr(error, "problem_mark", None)
    parts = [getattr(error, part, None) for part in ("context", "problem")]
    reason = ", ".join(filter(None, parts)) or str(error)
    if mark is None:
        return Problem((), f"not YAML: {reason}")
    document.lines[()] = mark.line + 1
    around = text.splitlines()[max(0, mark.line - 1) : mark.line + 1]
    hint = ""
    if any("${" in line for line in around):
        hint = "; within { } or [ ], put ${...} in quotes"
    elif any("\t" in line for line in around):
        hint = "; indent with spaces, not tabs"
    return Problem((), f"not YAML, at column {mark.column + 1}: {reason}{hint}")


Setting = str | tuple[str, Any]
"""A change of one value: the text of `--set`, whose value is YAML; or a key path with dots, and the value itself."""

_KEY = r'"[^"]+"|[^."]+'
_KEY_PATH = re.compile(rf"({_KEY})(\.({_KEY}))*")


def apply_sets(document: Document, sets: Sequence[Setting]) -> None:
    """Set values such as `engine.type=local` in the document; an item of a list is named by its index.

    A key that has a dot itself is in double quotes: `sinks."bayes.predictions".path=here`.

    >>> document = parse("engine: {type: spark}")
    >>> apply_sets(document, ["engine.type=local", ("guarantee.checkpoint_every", 4)])
    >>> document.data
    {'engine': {'type': 'local'}, 'guarantee': {'checkpoint_every': 4}}
    """
    for setting in sets:
        if isinstance(setting, tuple):
            dotted, value = setting
            if keys := _keys(dotted):
                _set_one(document, dotted, keys, value)
            else:
                _wrong_set(document, dotted, "a key path has a key between its dots, as in a.b")
            continue
        dotted, equals, value = setting.partition("=")
        keys = _keys(dotted.strip())
        parsed = parse(value)
        if not equals or not keys:
            _wrong_set(document, setting, "a value is set with `--set a.b=value`")
        elif parsed.problems:
            _wrong_set(document, dotted, f"{value}: {parsed.problems[0].message}")
        else:
            _set_one(document, dotted, keys, parsed.data)


def _keys(dotted: str) -> list[str]:
    """The keys of a key path; none if it is not one.

    >>> _keys('sinks."bayes.predictions".path'), _keys("a..b"), _keys('a."b.c')
    (['sinks', 'bayes.predictions', 'path'], [], [])
    """
    return [key.strip('"') for key in re.findall(_KEY, dotted)] if _KEY_PATH.fullmatch(dotted) else []


def _wrong_set(document: Document, dotted: str, message: str) -> None:
    document.lines[dotted,] = "--set"
    document.problems.append(Problem((dotted,), message))


def _set_one(document: Document, dotted: str, keys: Sequence[str], value: Any) -> None:
    holder: Any = document.data
    path: KeyPath = ()
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        shown = ".".join(map(str, path))
        if isinstance(holder, MutableSequence):
            if not key.isdecimal() or int(key) >= len(holder):
                indices = f"0 to {len(holder) - 1}" if holder else "none"
                _wrong_set(
                    document, dotted, f"{shown} is a list, and {key!r} is not an index of it; indices are {indices}"
                )
                return
            index: Any = int(key)
        elif isinstance(holder, MutableMapping):
            index = key
            if not last and holder.get(key) is None:
                holder[key] = {}
                document.lines[(*path, key)] = "--set"
        else:
            _wrong_set(document, dotted, f"{shown} is a single value, so it has no key {key!r}")
            return
        path = (*path, index)
        if not last:
            holder = holder[index]
            continue
        holder[index] = value
        document.forget(path)
        document.lines[path] = "--set"
