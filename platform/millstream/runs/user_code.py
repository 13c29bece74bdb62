"""The file code.json of a run directory: digests of the modules with the user's functions and classes.

The steps and sources of a config may not change between two starts, and their code may not change either, but a run
cannot prevent this: a start warns of a change, and an audit names it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from millstream.config.models import Config
from millstream.log.epochs import Totals
from millstream.log.journal.durability import write_whole

__all__ = ["changed_code", "last_code", "record_code", "user_code"]

_LOGGER = logging.getLogger(__name__)
_OURS = ("millstream", "millstream_connectors", "millstream_models", "millstream_pipelines")


@dataclass(frozen=True)
class _Start:
    """The code of the first start, or of a start at which it had changed; `epoch` is the first epoch that it made."""

    epoch: int
    code: Mapping[str, str]


def user_code(config: Config) -> Mapping[str, str]:
    """The user's functions and classes in a config, each with a digest of the file of its module.

    The digest notices every change of this file. It does not notice a change of another module that the file imports.
    """
    parts = [*(step.config for step in config.steps), *(source.config for source in config.logs)]
    names = sorted({name for part in parts for name in _names(part)})
    return {name: digest for name in names if (digest := _digest(name.partition(":")[0]))}


def record_code(path: Path, now: Mapping[str, str], totals: Totals) -> None:
    """Add the present code to the file, if it changed; warn if the run has epochs that other code made."""
    starts = _read(path) if totals.next_epoch else []
    before = starts[-1].code if starts else {}
    if before == now:
        return
    first = totals.committed + 1
    if changed := _changed(before, now):
        message = "the code of %s changed since the last start: it makes the epochs from %d on; --fresh starts over"
        _LOGGER.warning(message, ", ".join(changed), first)
    starts.append(_Start(first, now))
    write_whole(path, json.dumps([{"epoch": start.epoch, "code": dict(start.code)} for start in starts], indent=1))


def changed_code(path: Path, now: Mapping[str, str]) -> Mapping[str, int | None]:
    """The functions and classes that changed during a run, each with the first epoch that its last code made.

    The epoch is None if the code `now` differs from that of the last start.
    """
    starts = _read(path)
    found: dict[str, int | None] = {}
    for before, after in itertools.pairwise(starts):
        found |= dict.fromkeys(_changed(before.code, after.code), after.epoch)
    return found | dict.fromkeys(_changed(starts[-1].code if starts else {}, now))


def last_code(path: Path) -> Mapping[str, str]:
    """The code of the last start."""
    starts = _read(path)
    return starts[-1].code if starts else {}


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> Sequence[str]:
    return [name for name in before if now.get(name, before[name]) != before[name]]


def _read(path: Path) -> list[_Start]:
    """The starts in the file; none if there is no file, or a damaged one."""
    try:
        return [_Start(int(start["epoch"]), dict(start["code"])) for start in json.loads(path.read_text())]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []


def _names(part: object) -> Iterator[str]:
    """The names of a part's class and function, and of those of the parts inside it, unless Millstream has them."""
    if not isinstance(part, BaseModel):
        return
    kind = type(part)
    if kind.__module__.partition(".")[0] not in _OURS:
        yield f"{kind.__module__}:{kind.__qualname__}"
    for field in kind.model_fields:
        value = getattr(part, field)
        if field == "function" and isinstance(value, str):
            yield value
        yield from _names(value)


def _digest(module: str) -> str | None:
    """A digest of a module's file; None if the module has none, as a notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else None
    except OSError:
        return None
