"""The code and the packages with which an artefact predicts where Millstream is not installed."""

from __future__ import annotations

import functools
import importlib.metadata
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from millstream.errors import MillstreamError
from millstream.extras import EXTRAS

__all__ = ["copy_code", "requirements"]

_OURS = "millstream"
_PACKAGES = ("millstream", "millstream_models")
_METADATA = ("METADATA", "entry_points.txt")
"""The files of the installed package by which the names of steps and models in a config are found."""


def requirements(extras: Iterable[str], modules: Iterable[str]) -> list[str]:
    """The packages that an artefact needs, each with its version here.

    These are the packages that Millstream always needs, those of the `extras`, and those that have the `modules`.
    """
    names = [*_direct_requirements()]
    names += [package for extra in extras for package in EXTRAS[extra].modules.values()]
    names += [package for module in modules if (package := _package_of(module)) is not None]
    return [f"{name}=={importlib.metadata.version(name)}" for name in sorted(dict.fromkeys(names))]


def copy_code(folder: Path, modules: Iterable[str]) -> None:
    """Copy Millstream's code, and the user's modules that belong to no installed package, into a folder.

    Of a package the whole package is copied, and of a module outside a package its file.
    """
    folder.mkdir(parents=True)
    for package in _PACKAGES:
        _copy(package, folder)
    for module in dict.fromkeys(name.partition(".")[0] for name in modules):
        if module not in _PACKAGES and _package_of(module) is None:
            _copy(module, folder)
    metadata = importlib.metadata.distribution(_OURS)
    described = folder / f"{_OURS}-{metadata.version}.dist-info"
    described.mkdir()
    for name in _METADATA:
        (described / name).write_text(metadata.read_text(name) or "")


def _copy(module: str, folder: Path) -> None:
    """Copy a top-level module: its file, or its folders if it is a package, with `__init__.py` or without."""
    found = sys.modules.get(module)
    packages = list(getattr(found, "__path__", ()))
    for package in packages:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(package, folder / module, ignore=ignored, dirs_exist_ok=True)
    if packages:
        return
    file = getattr(found, "__file__", None)
    if file is None:
        message = f"the module {module!r} has no file, so a model that uses it cannot be exported: move it into a file"
        raise MillstreamError(message)
    shutil.copy(file, folder / Path(file).name)


def _direct_requirements() -> Iterator[str]:
    """The names of the packages that Millstream needs without any extra."""
    for line in importlib.metadata.requires(_OURS) or ():
        if "extra ==" not in line:
            yield _name(line)


def _name(requirement: str) -> str:
    """The name of the package in a requirement.

    >>> _name("numpy<3,>=2.2"), _name("prometheus-client; python_version > '3'")
    ('numpy', 'prometheus-client')
    """
    end = next((at for at, sign in enumerate(requirement) if sign in "<>=!~;[ ("), len(requirement))
    return requirement[:end]


def _package_of(module: str) -> str | None:
    """The installed package that has this module; None for a module of Millstream, and for one of a plain folder."""
    packages = _packages().get(module.partition(".")[0], [])
    return next((name for name in packages if name != _OURS), None)


@functools.cache
def _packages() -> Mapping[str, list[str]]:
    """The packages by module; finding them reads a file of every installed package."""
    return importlib.metadata.packages_distributions()
