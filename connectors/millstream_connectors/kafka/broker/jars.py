"""Apache Kafka's jars: the list in `jars.txt`, downloaded once into the user's cache and verified at every start.

Each jar gets its name in the cache only after its checksum is right, so a download that was interrupted continues with
the jars that are missing. A proxy is named by the environment, as for any program: `https_proxy`, `no_proxy`.
"""

from __future__ import annotations

import hashlib
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker.folder_lock import locked
from millstream_connectors.kafka.broker.paths import jar_folder
from millstream_connectors.kafka.broker.repository import VARIABLE, Repository, find_repository

__all__ = ["VERSION", "Jar", "ensure", "pinned"]

VERSION = "4.1.1"

_THREADS = 4
_TIMEOUT_SECONDS = 60.0
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Jar:
    """One jar, as pinned."""

    group: str
    name: str
    version: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def pinned() -> tuple[Jar, ...]:
    """All jars that a broker needs."""
    lines = resources.files(__package__).joinpath("jars.txt").read_text(encoding="ascii").splitlines()
    return tuple(map(_pin, lines))


def _pin(line: str) -> Jar:
    coordinates, size, sha256 = line.split()
    group, name, version = coordinates.split(":")
    return Jar(group, name, version, int(size), sha256)


def ensure(report: Callable[[str], None]) -> Path:
    """The folder with all jars; missing and damaged jars are downloaded first, and `report` gets the progress."""
    folder = jar_folder(VERSION)
    with locked(folder):
        jars = pinned()
        missing = [jar for jar in jars if not (folder / jar.file).is_file()]
        damaged = [jar for jar in jars if jar not in missing and _sha256(folder / jar.file) != jar.sha256]
        if damaged:
            report(f"{_named(damaged)} damaged in {folder}")
        if missing or damaged:
            _download_all(find_repository(), missing + damaged, folder, report)
    return folder


def _named(jars: Sequence[Jar]) -> str:
    return f"{jars[0].file} is" if len(jars) == 1 else f"{jars[0].file} and {len(jars) - 1} more are"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download_all(repository: Repository, jars: Sequence[Jar], folder: Path, report: Callable[[str], None]) -> None:
    total, downloaded, tenths = sum(jar.size for jar in jars), 0, 0
    task = f"fetching Apache Kafka {VERSION} into {folder}, once"
    report(f"{task}: {_megabytes(total)} MB ...")
    largest_first = sorted(jars, key=lambda jar: -jar.size)
    into_cache = _Download(repository, folder)
    with ThreadPoolExecutor(_THREADS, "millstream-jars") as pool:
        try:
            downloads = {pool.submit(into_cache, jar): jar for jar in largest_first}
            for download in as_completed(downloads):
                download.result()
                downloaded += downloads[download].size
                if downloaded * 10 // total > tenths:
                    tenths = downloaded * 10 // total
                    report(f"{task}: {_megabytes(downloaded)} of {_megabytes(total)} MB ...")
        finally:
            into_cache.stop.set()  # after an error, or Ctrl-C, the other threads end at once


def _megabytes(size: int) -> int:
    return -(-size // 1_000_000)


@dataclass(frozen=True)
class _Download:
    """Downloads jars into the folder, from several threads; once `stop` is set, downloads end and leave nothing."""

    repository: Repository
    folder: Path
    opener: urllib.request.OpenerDirector = field(default_factory=urllib.request.build_opener)
    stop: threading.Event = field(default_factory=threading.Event)

    def __call__(self, jar: Jar) -> None:
        part = self.folder / f"{jar.file}.part"
        try:
            if not self.stop.is_set() and self._receive(jar, part):
                part.replace(self.folder / jar.file)
        except OSError as error:
            raise _failed(f"{part} cannot be written: {error.strerror}; make room, or set XDG_CACHE_HOME") from error
        finally:
            with suppress(OSError):  # no such file, or the error above
                part.unlink()

    def _receive(self, jar: Jar, path: Path) -> bool:
        """Write the pinned content to a file; False if `stop` was set, an error if the content is another."""
        size, digest = 0, hashlib.sha256()
        with path.open("wb") as file:
            for chunk in self._chunks(jar):
                if self.stop.is_set():
                    return False
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        if size < jar.size:
            raise _failed(f"the connection ended after {size:,} of the {jar.size:,} bytes of {jar.file}; try again")
        if (found := digest.hexdigest()) != jar.sha256:
            message = (
                f"{jar.file} from {self.repository} is not the pinned file, and is not used: its sha256 is {found} "
                f"instead of {jar.sha256}; try again, or set {VARIABLE} to the address of another Maven repository"
            )
            raise _failed(message)
        return True

    def _chunks(self, jar: Jar) -> Iterator[bytes]:
        address = self.repository.file(jar.group, jar.name, jar.version)
        request = urllib.request.Request(address, headers={"User-Agent": "millstream"})  # noqa: S310 - checked before
        try:
            with self.opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                while chunk := response.read(_CHUNK_BYTES):
                    yield chunk
        except HTTPError as error:
            with error:
                raise _failed(_refusal(self.repository, jar, error)) from error
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise _failed(_interruption(self.repository, jar, reason)) from error


def _failed(reason: str) -> MillstreamError:
    return MillstreamError(f"Apache Kafka {VERSION} could not be fetched: {reason}")


def _refusal(repository: Repository, jar: Jar, error: HTTPError) -> str:
    if error.code == HTTPStatus.NOT_FOUND:
        return _absence(repository, jar)
    return (
        f"{repository} answers {error.code} {error.reason} for {jar.file}; "
        f"try again later, or set {VARIABLE} to the address of another Maven repository"
    )


def _absence(repository: Repository, jar: Jar) -> str:
    return f"{jar.file} is not in {repository}; set {VARIABLE} to the address of a Maven repository that has it"


def _interruption(repository: Repository, jar: Jar, reason: object) -> str:
    if isinstance(reason, FileNotFoundError):
        return _absence(repository, jar)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {repository} cannot be verified: {reason.verify_message}; set SSL_CERT_FILE to the "
            "file with the certificates that your network uses"
        )
    proxy = _proxy(repository.address)
    if proxy is not None:
        fix = "check the proxy settings of the environment (https_proxy, no_proxy)"
        return f"{repository} cannot be reached through the proxy {proxy}: {reason}; try again when online, or {fix}"
    fix = f"name a proxy in https_proxy, or set {VARIABLE} to the address of a Maven repository that can be reached"
    return f"{repository} cannot be reached: {reason}; try again when online, {fix}"


def _proxy(address: str) -> str | None:
    """Host and port of the proxy for this address, without its password."""
    parts = urlsplit(address)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return proxy.rpartition("@")[2].rpartition("//")[2]
