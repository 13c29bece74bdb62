"""A folder with nothing but the packages of a requirements file and what they need themselves."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

__all__ = ["link_packages"]


def link_packages(requirements: Path, folder: Path) -> None:
    """Link the installed packages of a requirements file into a folder, in exactly the versions that it names."""
    folder.mkdir()
    names = []
    for line in requirements.read_text().splitlines():
        name, _, version = line.partition("==")
        assert importlib.metadata.version(name) == version
        names.append(name)
    seen: set[str] = set()
    while names:
        name = re.split(r"[^A-Za-z0-9._-]", names.pop(), maxsplit=1)[0]
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # a requirement of another system or Python
            continue
        names += [each for each in found.requires or () if "extra ==" not in each]
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
