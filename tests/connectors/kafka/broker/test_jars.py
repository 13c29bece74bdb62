"""Kafka's jars: downloaded from a Maven repository into the user's cache, and verified whenever a broker starts."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from millstream.errors import MillstreamError
from millstream_connectors.kafka.broker import jars
from millstream_connectors.kafka.broker.jars import VERSION, Jar, ensure, pinned
from millstream_connectors.kafka.broker.paths import jar_folder

CONTENTS = {name: name.encode() * 100_000 for name in ("clients", "metadata", "raft", "server", "storage", "tools")}
CLIENTS, METADATA, RAFT, *OTHERS = (
    Jar("org.example.kafka", name, "4.1", len(content), hashlib.sha256(content).hexdigest())
    for name, content in CONTENTS.items()
)
JARS = (CLIENTS, METADATA, RAFT, *OTHERS)


class FakeRepository(ThreadingHTTPServer):
    """A Maven repository on this machine; a proxy too, as it looks only at the end of an address."""

    daemon_threads = True

    def __init__(self) -> None:
        self.files = {address(jar): CONTENTS[jar.name] for jar in JARS}
        self.lengths: dict[str, int] = {}
        """Announced lengths that differ from the real ones."""
        self.status: int | None = None
        self.requests: list[str] = []
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: FakeRepository

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        path = "/maven2" + self.path.rpartition("/maven2")[2]
        content = self.server.files.get(path)
        if content is None or self.server.status is not None:
            self.send_error(self.server.status or 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.server.lengths.get(path, len(content))))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output clean."""


def address(jar: Jar) -> str:
    return f"/maven2/org/example/kafka/{jar.name}/4.1/{jar.file}"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRepository]:
    """The repository of the user, with all jars."""
    server = FakeRepository()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv("MILLSTREAM_MAVEN", f"http://{server.host}/maven2/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for a broker that needs few and small jars."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "pinned", lambda: JARS)
    return jar_folder(VERSION)


def silent(message: str) -> None:
    """Shows no progress."""


def is_complete(folder: Path) -> bool:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    return found == {jar.file: jar.sha256 for jar in JARS}


def test_the_pinned_jars_are_those_of_one_kafka() -> None:
    assert {jar.version for jar in pinned() if jar.group == "org.apache.kafka"} == {VERSION}


@pytest.mark.kafka
def test_the_users_cache_has_all_pinned_jars() -> None:
    folder = ensure(silent)
    assert {jar.file for jar in pinned()} <= {path.name for path in folder.iterdir()}


def test_an_empty_cache_is_filled_with_progress(repository: FakeRepository, cache: Path) -> None:
    messages: list[str] = []
    assert ensure(messages.append) == cache
    assert is_complete(cache)
    assert sorted(repository.requests) == sorted(map(address, JARS))
    assert messages[0] == f"fetching Apache Kafka {VERSION} into {cache}, once: 4 MB ..."
    assert messages[-1] == f"fetching Apache Kafka {VERSION} into {cache}, once: 4 of 4 MB ..."
    assert len(messages) <= 11


def test_a_complete_cache_needs_no_repository(
    repository: FakeRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(silent)
    monkeypatch.setenv("MILLSTREAM_MAVEN", "no address")
    messages: list[str] = []
    assert ensure(messages.append) == cache
    assert messages == []


def test_only_missing_and_damaged_jars_are_downloaded_again(repository: FakeRepository, cache: Path) -> None:
    ensure(silent)
    (cache / CLIENTS.file).unlink()
    (cache / RAFT.file).write_bytes(CONTENTS[RAFT.name][:-1] + b"?")
    repository.requests.clear()
    messages: list[str] = []
    ensure(messages.append)
    assert is_complete(cache)
    assert sorted(repository.requests) == sorted(map(address, (CLIENTS, RAFT)))
    assert messages[0] == f"{RAFT.file} is damaged in {cache}"


def test_an_interrupted_download_continues_with_the_missing_jars(repository: FakeRepository, cache: Path) -> None:
    absent = min(JARS, key=lambda jar: jar.size)  # the last one to be asked for
    content = repository.files.pop(address(absent))
    with pytest.raises(MillstreamError):
        ensure(silent)
    assert not (cache / absent.file).exists()
    present = {path.name for path in cache.iterdir()}
    assert present < {jar.file for jar in JARS} and present

    (cache / f"{absent.file}.part").write_bytes(b"of a process that was killed")
    repository.files[address(absent)] = content
    repository.requests.clear()
    ensure(silent)
    assert is_complete(cache)
    assert sorted(repository.requests) == sorted(address(jar) for jar in JARS if jar.file not in present)


def test_a_jar_of_another_content_is_refused(repository: FakeRepository, cache: Path) -> None:
    repository.files[address(METADATA)] = b"<html>Please log in.</html>" + CONTENTS[METADATA.name]
    refused = (
        rf"{METADATA.file} from http://{repository.host}/maven2 \(from MILLSTREAM_MAVEN\) is not the pinned file, "
        rf"and is not used: its sha256 is \w{{64}} instead of {METADATA.sha256}; try again, or set MILLSTREAM_MAVEN"
    )
    with pytest.raises(MillstreamError, match=refused):
        ensure(silent)
    assert METADATA.file not in {path.name.removesuffix(".part") for path in cache.iterdir()}


def test_a_broken_connection_is_reported_as_such(repository: FakeRepository, cache: Path) -> None:
    repository.files[address(RAFT)] = CONTENTS[RAFT.name][:1000]
    repository.lengths[address(RAFT)] = RAFT.size
    with pytest.raises(MillstreamError, match=f"ended after 1,000 of the 400,000 bytes of {RAFT.file}; try again"):
        ensure(silent)


def test_a_jar_that_the_repository_does_not_have_is_named(repository: FakeRepository, cache: Path) -> None:
    del repository.files[address(RAFT)]
    absent = (
        rf"^Apache Kafka {VERSION} could not be fetched: {RAFT.file} is not in http://\S+ \(.*\); set MILLSTREAM_MAVEN"
    )
    with pytest.raises(MillstreamError, match=absent):
        ensure(silent)


def test_a_folder_can_be_the_repository(
    tmp_path: Path, repository: FakeRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for jar in JARS:
        path = tmp_path / address(jar).lstrip("/")
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENTS[jar.name])
    monkeypatch.setenv("MILLSTREAM_MAVEN", (tmp_path / "maven2").as_uri())
    ensure(silent)
    assert is_complete(cache) and repository.requests == []

    (cache / RAFT.file).unlink()
    (tmp_path / address(RAFT).lstrip("/")).unlink()
    with pytest.raises(MillstreamError, match=rf"{RAFT.file} is not in file://"):
        ensure(silent)


def test_another_answer_of_the_repository_is_shown(repository: FakeRepository, cache: Path) -> None:
    repository.status = 503
    with pytest.raises(MillstreamError, match=r"maven2 \(from .*\) answers 503 Service Unavailable for .*; try again"):
        ensure(silent)


def test_an_unreachable_repository_is_an_error_with_the_fix(
    repository: FakeRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_MAVEN", "http://127.0.0.1:1/maven2")
    offline = r"http://127.0.0.1:1/maven2 \(.*\) cannot be reached: .*refused; try again when online, name a proxy"
    with pytest.raises(MillstreamError, match=offline):
        ensure(silent)


def test_the_proxy_of_the_environment_is_used(
    repository: FakeRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_MAVEN", "http://localhost:1/maven2")
    monkeypatch.setenv("http_proxy", f"http://{repository.host}")
    ensure(silent)
    assert is_complete(cache)
    assert {request.removesuffix(".jar") for request in repository.requests} == {
        f"http://localhost:1{address(jar)}".removesuffix(".jar") for jar in JARS
    }


def test_an_unreachable_proxy_is_named_without_its_password(
    repository: FakeRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_MAVEN", "http://localhost:1/maven2")
    monkeypatch.setenv("http_proxy", "http://user:secret@127.0.0.1:9")
    with pytest.raises(MillstreamError, match=r"through the proxy 127.0.0.1:9: .*refused; .*https_proxy") as refused:
        ensure(silent)
    assert "secret" not in str(refused.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is not there")
def test_certificates_are_verified(
    tmp_path: Path, repository: FakeRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=maven -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    repository.handle_error = lambda *_: None  # type: ignore[method-assign]
    repository.socket = context.wrap_socket(repository.socket, server_side=True)
    monkeypatch.setenv("MILLSTREAM_MAVEN", f"https://{repository.host}/maven2")
    with pytest.raises(MillstreamError, match=r"the certificate of .* cannot be verified: .*; set SSL_CERT_FILE"):
        ensure(silent)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    ensure(silent)
    assert is_complete(cache)


def test_a_cache_that_cannot_be_written_is_an_error_with_the_fix(repository: FakeRepository, cache: Path) -> None:
    (cache / f"{RAFT.file}.part").mkdir(parents=True)
    with pytest.raises(MillstreamError, match=rf"{RAFT.file}.part cannot be written: Is a directory; .*XDG_CACHE_HOME"):
        ensure(silent)
