"""The address of the Maven repository that jars are downloaded from.

The first of these that names one is used:

1. the environment variable `MILLSTREAM_MAVEN`;
2. the mirror of Maven Central in Maven's settings: those of the user, then those of the installation;
3. the default of an installed build tool: Maven, or the Ivy that PySpark includes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from millstream.errors import MillstreamError

__all__ = ["VARIABLE", "Repository", "find_repository"]

VARIABLE = "MILLSTREAM_MAVEN"

_CENTRAL = "central"
_SUPER_POM = "org/apache/maven/model/pom-4.0.0.xml"
_IVY_CLASS = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"


@dataclass(frozen=True)
class Repository:
    """A Maven repository: its address, and the setting that names it.

    >>> Repository("https://maven.example.org/public", "MILLSTREAM_MAVEN").file("org.slf4j", "slf4j-api", "1.7.36")
    'https://maven.example.org/public/org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar'
    """

    address: str
    origin: str

    def file(self, group: str, name: str, version: str) -> str:
        """The address of a jar."""
        return "/".join([self.address, *group.split("."), name, version, f"{name}-{version}.jar"])

    def __str__(self) -> str:
        return f"{self.address} (from {self.origin})"


def find_repository(environment: Mapping[str, str] = os.environ) -> Repository:
    """The repository to use; an error if its address is not allowed, or none is configured."""
    found = next(_candidates(environment), None)
    if found is None:
        message = (
            "no Maven repository is configured, and neither Maven nor pyspark is installed to give the default: "
            f"set {VARIABLE} to the address of one, such as https://HOST/maven2"
        )
        raise MillstreamError(message)
    return _checked(found)


def _candidates(environment: Mapping[str, str]) -> Iterator[Repository]:
    if address := environment.get(VARIABLE):
        yield Repository(address.rstrip("/"), VARIABLE)
    maven = _maven_home(environment)
    user = Path(environment["HOME"]) if "HOME" in environment else Path.home()
    for settings in (user / ".m2" / "settings.xml", *([maven / "conf" / "settings.xml"] if maven else [])):
        if settings.is_file() and (address := _mirror(settings)):
            yield Repository(address.rstrip("/"), f"the mirror in {settings}")
    if maven and (address := _maven_default(maven)):
        yield Repository(address.rstrip("/"), f"the default of Maven in {maven}")
    if address := _ivy_default():
        yield Repository(address.rstrip("/"), "the default of Ivy in pyspark")


def _checked(repository: Repository) -> Repository:
    parts = urlsplit(repository.address)
    if parts.username or parts.password:
        raise MillstreamError(
            f"{repository.origin} has a user or password in its address, which is not supported: "
            f"set {VARIABLE} to the address of a repository that needs none"
        )
    loopback = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")
    if not (loopback or parts.scheme == "file" or (parts.scheme == "https" and parts.hostname)):
        raise MillstreamError(
            f"{repository.origin} is {repository.address}, which is no https address: "
            f"set {VARIABLE} to one, such as https://HOST/maven2"
        )
    return repository


def _mirror(settings: Path) -> str | None:
    """The address of the mirror of Maven Central, chosen as Maven does: one of it alone, else the first that has it."""
    try:
        root = ElementTree.parse(settings).getroot()  # noqa: S314 - the user's own file
    except (OSError, ElementTree.ParseError) as error:
        message = f"{settings} cannot be read: {error}; correct it, or set {VARIABLE} to the address of a repository"
        raise MillstreamError(message) from error
    mirrors = [
        ((mirror.findtext("{*}mirrorOf") or "").replace(" ", "").split(","), (mirror.findtext("{*}url") or "").strip())
        for mirror in root.iterfind("{*}mirrors/{*}mirror")
    ]
    mirrors.sort(key=lambda mirror: mirror[0] != [_CENTRAL])
    return next((address for of, address in mirrors if address and _covers_central(of)), None)


def _covers_central(patterns: list[str]) -> bool:
    """True if a mirror's patterns cover Maven Central.

    >>> _covers_central(["*", "!internal"]), _covers_central(["*", "!central"]), _covers_central(["external:http:*"])
    (True, False, False)
    """
    return f"!{_CENTRAL}" not in patterns and not {"*", "external:*", _CENTRAL}.isdisjoint(patterns)


def _maven_home(environment: Mapping[str, str]) -> Path | None:
    """The installation of the `mvn` on PATH."""
    command = shutil.which("mvn", path=environment.get("PATH", ""))
    if command is None:
        return None
    home = Path(os.path.realpath(command)).parent.parent
    return next((found for found in (home, home / "libexec") if (found / "lib").is_dir()), None)


def _maven_default(maven: Path) -> str | None:
    """The address of Maven Central in the super POM, which all others inherit from."""
    for archive in sorted(maven.glob("lib/maven-model-builder-*.jar")):
        pom = _member(archive, _SUPER_POM)
        for repository in ElementTree.fromstring(pom).iterfind("{*}repositories/{*}repository") if pom else ():  # noqa: S314
            if repository.findtext("{*}id") == _CENTRAL:
                return repository.findtext("{*}url")
    return None


def _ivy_default() -> str | None:
    """The address of Maven Central among the constants of Ivy's class for Maven repositories."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        return None
    for archive in Path(package.origin).parent.glob("jars/ivy-*.jar"):
        if found := re.search(rb"https://[\w./-]+/maven2", _member(archive, _IVY_CLASS) or b""):
            return found[0].decode()
    return None


def _member(archive: Path, name: str) -> bytes | None:
    try:
        with zipfile.ZipFile(archive) as file:
            return file.read(name)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
