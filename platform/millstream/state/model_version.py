"""Versions of models: the state of a step that classifies, with the positions up to which it was trained.

A version is a folder of two files: `arrays.safetensors` with the state, and `version.json`, which is written last and
makes the folder a version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from millstream.digests import Digest
from millstream.errors import AlteredCheckpoint, MillstreamError, UnknownFormat
from millstream.log.journal.durability import make_folder, write_whole
from millstream.state.digests import state_digest
from millstream.steps.contracts import State

__all__ = ["OPTIONS", "ModelVersion", "Trained"]

OPTIONS = "options"
"""The entry of a step's state with the type and the options of the model, if a version has entered the step."""
_FORMAT = 1
_ARRAYS, _FACTS = "arrays.safetensors", "version.json"
_BYTES = "bytes:"
"""The prefix of the names of entries that are bytes and no arrays."""


@dataclass(frozen=True)
class Trained:
    """The part of one partition that was trained: the records before `upto`, and the log's `identity` up to there."""

    upto: int
    identity: str


@dataclass(frozen=True)
class ModelVersion:
    """The state of the step `step`, and what a pipeline must know to continue from it.

    `steps` has the config of the steps through which a record comes to the model, and of the step itself. `trained` has
    the positions by source and partition. `cuts` is the id of the epoch log whose cuts were taken; empty for those of a
    bounded run. `latest` is the greatest event time of the records before the positions; None if none has a time.

    >>> version = ModelVersion("classify", {"model/counts": np.ones(2)}, ({"type": "classify"},), {}, "")
    >>> version.digest == ModelVersion("other", {"model/counts": np.ones(2)}, (), {}, "").digest
    True
    """

    step: str
    state: State
    steps: tuple[Mapping[str, Any], ...]
    trained: Mapping[str, Mapping[str, Trained]]
    cuts: str
    latest: int | None = None
    FILES: ClassVar = (_ARRAYS, _FACTS)
    """The files of a version, of which the last one makes the folder a version."""

    @cached_property
    def digest(self) -> str:
        """The digest of the state."""
        return str(state_digest(self.state))

    @property
    def entered(self) -> str:
        """The digest of the state and the options of the model, which names the version in a run directory."""
        return str(Digest.parse(self.digest) + state_digest({OPTIONS: self.options}))

    @property
    def model(self) -> Mapping[str, Any]:
        """The type and the options of the model."""
        model: Mapping[str, Any] = self.steps[-1]["model"]
        return model

    @property
    def labels(self) -> list[str]:
        """The labels that the model has learned."""
        found: list[str] = json.loads(bytes(self.state["classes"]))
        return found

    @property
    def options(self) -> bytes:
        """The type and the options of the model as JSON, as a step has them in its state if its own are others."""
        return json.dumps(self.model, sort_keys=True, ensure_ascii=False).encode()

    def save(self, folder: Path) -> None:
        """Write the version durably into a folder; an interrupted call leaves no version."""
        named = {f"{_BYTES}{n}" if isinstance(v, bytes) else n: v for n, v in self.state.items()}
        arrays = save(
            {
                name: np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.ascontiguousarray(value)
                for name, value in named.items()
            }
        )
        facts = {
            "format": _FORMAT,
            "step": self.step,
            "digest": self.digest,
            "sha256": hashlib.sha256(arrays).hexdigest(),
            "steps": list(self.steps),
            "trained": {
                source: {name: asdict(part) for name, part in parts.items()} for source, parts in self.trained.items()
            },
            "cuts": self.cuts,
            "latest": self.latest,
        }
        make_folder(folder)
        write_whole(folder / _ARRAYS, arrays)
        write_whole(folder / _FACTS, json.dumps(facts, indent=1, ensure_ascii=False))

    @staticmethod
    def load(folder: Path) -> ModelVersion:
        """Read a version; `AlteredCheckpoint` if its files are not those that were written."""
        facts, arrays = _read(folder)
        state: dict[str, Any] = {}
        for name, value in arrays.items():
            if name.startswith(_BYTES):
                state[name.removeprefix(_BYTES)] = value.tobytes()
            else:
                state[name] = value
        try:
            trained = {
                source: {name: Trained(**part) for name, part in parts.items()}
                for source, parts in facts["trained"].items()
            }
            steps, latest = tuple(facts["steps"]), facts["latest"]
            version = ModelVersion(facts["step"], state, steps, trained, facts["cuts"], latest)
            digest = facts["digest"]
        except (KeyError, TypeError, AttributeError) as error:
            raise _altered(folder / _FACTS, f"{type(error).__name__}: {error}") from None
        if version.digest != digest:
            raise _altered(folder / _FACTS, "the state has another digest")
        return version


def _read(folder: Path) -> tuple[dict[str, Any], Mapping[str, Any]]:
    try:
        facts = json.loads((folder / _FACTS).read_bytes())
        content = (folder / _ARRAYS).read_bytes()
    except FileNotFoundError as error:
        message = f"{folder} is not a version of a model: it has no {Path(error.filename).name}"
        raise MillstreamError(message) from None
    except ValueError as error:
        raise _altered(folder / _FACTS, str(error)) from None
    if not isinstance(facts, dict) or "format" not in facts:
        raise _altered(folder / _FACTS, "it has no format")
    if facts["format"] != _FORMAT:
        message = f"{folder} has format {facts['format']!r}, and this version of Millstream reads format {_FORMAT}"
        raise UnknownFormat(message)
    if hashlib.sha256(content).hexdigest() != facts.get("sha256"):
        raise _altered(folder / _ARRAYS, "its content does not match the sha256 in version.json")
    try:
        return facts, load(content)
    except SafetensorError as error:
        raise _altered(folder / _ARRAYS, str(error)) from None


def _altered(path: Path, why: str) -> AlteredCheckpoint:
    return AlteredCheckpoint(f"{path} was altered: {why}")
