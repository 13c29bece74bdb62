"""A reader of the documents who types every command and compares what is printed with what the text shows."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from support.docs_pages import blocks

__all__ = ["Reader"]

KILLED = 128 + 9
NOT_RUN = {
    r"git clone REPOSITORY millstream && cd millstream": "the folder is a copy of this checkout",
    r"make demo": "scripts/demo.py is run instead",
    r"\. \.venv/bin/activate": "PATH has the commands already",
    r"pip install -e \w+": "what it would register is on the path already",
    r"export PYTHONPATH=\S+": "the folder is on the path already",
}


class Reader:
    """Types the commands of a section in a folder; `instead` replaces parts of them."""

    def __init__(
        self, folder: Path, path: Path | None = None, instead: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.folder = folder
        self._instead = instead
        self._seen: set[str] = set()
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        if path is not None:
            inherited = os.environ.get("PYTHONPATH")
            self._environment["PYTHONPATH"] = str(path) + (f"{os.pathsep}{inherited}" if inherited else "")

    def plays(self, document: str, heading: str) -> str:
        """Play a section: every shell block prints what the text block after it shows. All that was printed."""
        shown = [block for block in blocks(document, heading=heading) if block.language in ("sh", "text")]
        assert any(block.language == "sh" for block in shown)
        everything = ""
        for block, following in itertools.zip_longest(shown, shown[1:]):
            if block.language == "sh":
                printed = "".join(self._types(command) for command in block.commands())
                if following is not None and following.language == "text":
                    self.expects(following.text, printed)
                everything += printed
        return everything

    def types(self, command: str) -> str:
        """Run one command; one with `--crash` dies the first time, every other one succeeds."""
        done = subprocess.run(
            ["bash", "-c", f"{command}\nexit $?"],  # not replaced by the command: a shell reports what killed it
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        plain = command.partition("#")[0].strip()
        dies = "--crash" in command and plain not in self._seen
        self._seen.add(plain)
        assert done.returncode == (KILLED if dies else 0), f"{command}\n{done.stdout}"
        return done.stdout

    def _types(self, command: str) -> str:
        for shown, meant in self._instead.items():
            command = command.replace(shown, meant)
        plain = command.partition("#")[0].strip() if not command.startswith("printf") else command
        if plain == "make demo":
            return self.types(f"{sys.executable} scripts/demo.py")
        if any(re.fullmatch(known, plain) for known in NOT_RUN):
            return ""
        return self.types(command)

    @staticmethod
    def expects(shown: str, printed: str) -> None:
        lines = iter(masked(line) for line in printed.splitlines())
        for line in shown.splitlines():
            if line.strip() != "...":
                assert masked(line) in lines, f"{line!r} was not printed, or not here, in\n{printed}"


def masked(line: str) -> str:
    """A line without what differs from run to run, or with the size of the data."""
    line = line.replace("${BOOTSTRAP}", "127.0.0.1:9092")  # a reader who sets the variable sees its name
    line = re.sub(r"(?<!\S)(sqlite:///)?/\S+", "#", line)  # the reader's own folder
    line = re.sub(r'": ("[^"]*"|[\w.]+)', '": #', line)
    line = re.sub(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d[\d.,]* (ms|s|min|h)\b", "#", line)
    line = re.sub(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{12}\b|\d[\d,.]*\b", "#", line)
    return " ".join(line.split())
