"""Apache Kafka's jars: those that `jars.txt` pins, fetched once into the user's cache, checked at every start.

Ivy fetches them, which is inside PySpark; a proxy is named in JAVA_TOOL_OPTIONS, as for any Java program.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker.folder_lock import locked
from millstream_connectors.kafka.broker.paths import jar_folder

__all__ = ["VERSION", "Jar", "ensure", "pinned"]

VERSION = "4.1.1"

# Without the descriptions of the packages, which say what they need: we know it, and they take three times as long.
# Without the registry's own checksums: ours are better.
_SETTINGS = """\
<ivysettings>
    <settings defaultResolver="registry"/>
    <timeout-constraints>
        <timeout-constraint name="patience" connectionTimeout="20000" readTimeout="60000"/>
    </timeout-constraints>
    <resolvers>
        <ibiblio name="registry" m2compatible="true" usepoms="false" checksums="" timeoutConstraint="patience"/>
    </resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One of the jars, as pinned."""

    group: str
    name: str
    version: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def pinned() -> tuple[Jar, ...]:
    """All that a broker needs."""
    lines = resources.files(__package__).joinpath("jars.txt").read_text(encoding="ascii").splitlines()
    return tuple(map(_pin, lines))


def _pin(line: str) -> Jar:
    coordinates, size, sha256 = line.split()
    group, name, version = coordinates.split(":")
    return Jar(group, name, version, int(size), sha256)


def ensure(java: Path, tell: Callable[[str], None]) -> Path:
    """The folder with all the jars, whole; what is missing there or damaged is fetched."""
    folder = jar_folder(VERSION)
    with locked(folder):
        jars = pinned()
        missing = [jar for jar in jars if not (folder / jar.file).is_file()]
        damaged = [jar for jar in jars if jar not in missing and _sha256(folder / jar.file) != jar.sha256]
        if damaged:
            tell(f"{_named(damaged)} damaged in {folder}")
        if missing or damaged:
            _fetch(java, folder, missing + damaged, tell)
    return folder


def _named(jars: Sequence[Jar]) -> str:
    return f"{jars[0].file} is" if len(jars) == 1 else f"{jars[0].file} and {len(jars) - 1} more are"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(java: Path, folder: Path, jars: Sequence[Jar], tell: Callable[[str], None]) -> None:
    work = folder / "fetching"
    shutil.rmtree(work, ignore_errors=True)  # of one who was killed at it
    work.mkdir()
    try:
        total, fetched, told = sum(jar.size for jar in jars), 0, 0
        what = f"fetching Apache Kafka {VERSION} into {folder}, once"
        tell(f"{what}: {_megabytes(total)} MB ...")
        for jar in _arriving(java, work, jars):
            fetched += jar.size
            if fetched * 10 // total > told:
                told = fetched * 10 // total
                tell(f"{what}: {_megabytes(fetched)} of {_megabytes(total)} MB ...")
        for jar in jars:
            if (found := _sha256(work / jar.file)) != jar.sha256:
                message = (
                    f"{jar.file} as fetched is not the one that is pinned, and is not used: its sha256 is {found} "
                    f"instead of {jar.sha256}; try again, or look what stands between here and the registry"
                )
                raise MillstreamError(message)
        for jar in jars:
            (work / jar.file).replace(folder / jar.file)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _megabytes(size: int) -> int:
    return -(-size // 1_000_000)


def _arriving(java: Path, work: Path, jars: Sequence[Jar]) -> Iterator[Jar]:
    """The jars, one by one, as Ivy has brought them; at the end they are in `work`."""
    (work / "settings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_wanted(jars))
    command: list[str | Path] = [java, "-jar", _ivy(), "-settings", work / "settings.xml", "-ivy", work / "ivy.xml"]
    command += ["-cache", work / "ivy", "-confs", "default", "-retrieve", f"{work}/[artifact]-[revision].[ext]"]
    by_name = {f"{jar.group}#{jar.name};{jar.version}": jar for jar in jars}
    lines = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        assert ivy.stdout is not None  # noqa: S101 - for mypy
        for line in ivy.stdout:
            lines.append(line.strip())
            if arrived := re.search(r"\[SUCCESSFUL \] (\S+)!", line):
                yield by_name[arrived[1]]
    absent = [jar.file for jar in jars if not (work / jar.file).is_file()]
    if ivy.returncode or absent:
        raise MillstreamError(f"Apache Kafka {VERSION} could not be fetched: {_reason(lines)}; try again when online")


def _wanted(jars: Sequence[Jar]) -> str:
    rows = "\n".join(
        f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}" transitive="false" conf="default"/>'
        for jar in jars
    )
    about = '<info organisation="millstream" module="broker"/>'
    return f'<ivy-module version="2.0">\n{about}\n<dependencies>\n{rows}\n</dependencies>\n</ivy-module>\n'


def _ivy() -> Path:
    package = importlib.util.find_spec("pyspark")
    found = sorted(Path(package.origin).parent.glob("jars/ivy-*.jar")) if package and package.origin else []
    if not found:
        raise MillstreamError(
            "Kafka is fetched with Ivy, which is inside pyspark, and is not there: install pyspark anew"
        )
    return found[-1]


def _reason(lines: Sequence[str]) -> str:
    """What of all that Ivy says tells why it failed."""
    for sign in (r"Server access error", r"java\.\S*(Exception|Error)", r"not found", r"\S"):
        for line in lines:
            if re.search(sign, line):
                return line
    return "Ivy says nothing"
