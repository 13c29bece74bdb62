"""TLS and passwords, with a broker that requires them; secrets never leave the environment."""

from __future__ import annotations

import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import UserScramCredentialUpsertion
from pydantic import ValidationError
from support.conditions import HANG_SECONDS, wait_until
from support.kafka.clients import connect_admin

from millstream.config.load import read_config
from millstream.errors import MillstreamError
from millstream.guarantees.validation import checked_graph
from millstream_connectors.kafka.broker import Broker, free_port
from millstream_connectors.kafka.broker.ports import HOST
from millstream_connectors.kafka.client.cluster import Cluster
from millstream_connectors.kafka.client.errors import InvalidSecurity, KafkaClientError, RequestRefused, RetryTimeout
from millstream_connectors.kafka.client.security import Security
from millstream_connectors.kafka.sink import KafkaSink

VARIABLE = "TEST_KAFKA_PASSWORD"
PASSWORD = "right horse"  # noqa: S105
BY_PASSWORD: dict[str, Any] = {"username": "me", "password_env": VARIABLE}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "SASL_SSL"}, "SASL_SSL needs mechanism, username, password_env"),
        ({"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "me"}, "SASL_SSL needs password_env"),
        ({"protocol": "SSL", "username": "me"}, "SSL has no password: leave out username, or choose SASL_SSL"),
        (
            {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", **BY_PASSWORD, "ca_file": "ca.pem"},
            "SASL_PLAINTEXT has no TLS: leave out ca_file, or choose SASL_SSL",
        ),
        ({"protocol": "SSL", "key_file": "key.pem"}, "a key needs its certificate: add cert_file"),
        ({"protocol": "SSL", "password": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Security.model_validate(options)


def test_unset_variables_and_missing_files_are_found_without_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    security = Security(protocol="SASL_SSL", mechanism="PLAIN", ca_file="ca.pem", **BY_PASSWORD)
    assert list(security.problems(tmp_path)) == [
        "password_env: the environment has no variable of this name; set it to the password",
        f"ca_file: there is no file {tmp_path / 'ca.pem'}",
    ]
    with pytest.raises(InvalidSecurity, match="password_env: the environment has no variable"):
        Cluster("127.0.0.1:1", security, timeout=HANG_SECONDS).topics()
    monkeypatch.setenv(VARIABLE, PASSWORD)
    (tmp_path / "ca.pem").write_text("no certificate")
    assert list(security.problems(tmp_path)) == []
    with pytest.raises(InvalidSecurity, match=r"security.ca_file: ca.pem has no certificates in PEM"):
        Cluster("127.0.0.1:1", security, timeout=HANG_SECONDS, folder=tmp_path).topics()


def test_the_password_is_in_no_representation_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", **BY_PASSWORD)
    assert PASSWORD not in f"{security!r} {security} {security.model_dump_json()} {vars(security)}"
    assert Security.model_validate(security.model_dump(mode="json")) == security


@pytest.mark.parametrize("secret", ["S3cret!pw", "hunter2", "{brace}", 31415926, ["31415926"]])
@pytest.mark.parametrize("key", ["password_env", "key_password_env", "password"])
@pytest.mark.parametrize("more", [{}, {"username": None}], ids=["alone", "with another mistake"])
def test_a_secret_in_place_of_its_variables_name_is_not_shown(
    tmp_path: Path, secret: object, key: str, more: dict[str, Any]
) -> None:
    options = {
        "protocol": "SASL_SSL",
        "mechanism": "PLAIN",
        "username": "me",
        "password_env": "A_VARIABLE",
        "cert_file": "cert.pem",
        key: secret,
        **more,
    }
    source = {"type": "kafka", "bootstrap": "here:1", "topic": "topic", "security": options}
    config = {"name": "secrets", "source": source, "pipeline": {"use": "text_topics"}}
    models = [error_of(lambda: Security.model_validate(options)), error_of(lambda: KafkaSink.model_validate(source))]
    config_file = error_of(lambda: checked_graph(read_config(config, tmp_path, "secrets.yaml")))
    connection = error_of(lambda: Cluster("here:1", Security.model_validate(options), timeout=HANG_SECONDS).topics())
    assert config_file and connection
    texts = "".join([*models, config_file, connection])
    assert "31415926" not in texts
    assert str(secret) not in texts


def error_of(attempt: Callable[[], object]) -> str:
    """The text of an error with all its causes; empty if there is none."""
    try:
        attempt()
    except (ValidationError, MillstreamError, KafkaClientError) as error:
        causes = traceback.TracebackException.from_exception(error)
        return "".join(causes.format()) + repr(error)
    return ""


# A broker that authenticates its clients


@dataclass(frozen=True)
class Guarded:
    """A broker with a listener for each protocol, and the folder with the certificates."""

    folder: Path
    password: str
    tls: str
    both: str


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    if shutil.which("openssl") is None:
        pytest.skip("the certificates need openssl, which is not installed")
    folder = tmp_path_factory.mktemp("guarded")
    certificates(folder)
    ports = [free_port() for _ in range(5)]
    names = ("PLAINTEXT", "CONTROLLER", "PASSWORD", "TLS", "BOTH")
    listeners = [f"{name}://{HOST}:{port}" for name, port in zip(names, ports, strict=True)]
    jaas = "org.apache.kafka.common.security"
    settings = {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(one for one in listeners if not one.startswith("CONTROLLER")),
        "controller.quorum.voters": f"1@{HOST}:{ports[1]}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORD:SASL_PLAINTEXT,TLS:SSL,BOTH:SASL_SSL"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.tls.ssl.client.auth": "required",
    }
    for name in ("password", "both"):
        settings |= {
            f"listener.name.{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"listener.name.{name}.plain.sasl.jaas.config": (
                f'{jaas}.plain.PlainLoginModule required user_me="{PASSWORD}";'
            ),
            f"listener.name.{name}.scram-sha-512.sasl.jaas.config": f"{jaas}.scram.ScramLoginModule required;",
        }
    broker = Broker(folder / "data", ports[0], settings)
    try:
        broker.up()
        admin = connect_admin(broker.bootstrap)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("me", "SCRAM-SHA-512", PASSWORD.encode())])
        admin.close()
        wait_until(lambda: has_credentials(f"{HOST}:{ports[2]}"), "the credentials")
        yield Guarded(folder, *(f"{HOST}:{port}" for port in ports[2:]))
    finally:
        broker.kill()


def has_credentials(address: str) -> bool:
    """True once the broker accepts the password: it stores new credentials before its listeners know them."""
    options = Security(protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512", **BY_PASSWORD)
    with pytest.MonkeyPatch.context() as patch, closing(Cluster(address, options, timeout=HANG_SECONDS)) as cluster:
        patch.setenv(VARIABLE, PASSWORD)
        try:
            return bool(cluster.id)
        except RequestRefused:
            return False


def certificates(folder: Path) -> None:
    """The certificates of an authority, of the broker, and of a client whose key has a password."""

    def openssl(command: str) -> None:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)

    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority")
    for name in ("broker", "client"):
        openssl(f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}")
        (folder / "names").write_text(f"subjectAltName=IP:{HOST}")
        openssl(f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -days 2 -out {name}.crt -extfile names")
    (folder / "broker.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())
    openssl(f"pkcs8 -topk8 -in client.key -out locked.key -v2 aes-256-cbc -passout pass:{PASSWORD.replace(' ', '_')}")


def cluster_id(address: str, folder: Path = Path(), **options: Any) -> str:
    security = Security.model_validate(options) if options else None
    with closing(Cluster(address, security, timeout=HANG_SECONDS, folder=folder)) as cluster:
        return cluster.id


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_right_password_is_accepted(guarded: Guarded, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    assert cluster_id(guarded.password, protocol="SASL_PLAINTEXT", mechanism=mechanism, **BY_PASSWORD)


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_at_once_and_not_shown(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    monkeypatch.setenv(VARIABLE, "wrong horse")
    with pytest.raises(RequestRefused) as refused:
        cluster_id(guarded.password, protocol="SASL_PLAINTEXT", mechanism=mechanism, **BY_PASSWORD)
    assert str(refused.value).startswith(
        f"Kafka at {guarded.password}: the brokers do not accept the user name and password of `security` ("
    )
    assert "wrong horse" not in f"{refused.value!r} {caplog.text}"


@pytest.mark.kafka
def test_a_mechanism_that_the_broker_does_not_support_is_refused_at_once(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    with pytest.raises(RequestRefused, match="the brokers do not support the mechanism of `security`"):
        cluster_id(guarded.password, protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", **BY_PASSWORD)


@pytest.mark.kafka
def test_tls_with_certificates_of_both_sides(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"ca_file": "ca.pem", "cert_file": "client.crt"}
    assert cluster_id(guarded.tls, guarded.folder, protocol="SSL", **ours, key_file="client.key")
    monkeypatch.setenv("TEST_KEY_PASSWORD", PASSWORD.replace(" ", "_"))
    locked = {"key_file": "locked.key", "key_password_env": "TEST_KEY_PASSWORD"}
    assert cluster_id(guarded.tls, guarded.folder, protocol="SSL", **ours, **locked)
    monkeypatch.setenv("TEST_KEY_PASSWORD", "wrong horse")
    with pytest.raises(InvalidSecurity, match=r"security.cert_file: client.crt and its key cannot be used") as refused:
        cluster_id(guarded.tls, guarded.folder, protocol="SSL", **ours, **locked)
    assert "wrong horse" not in str(refused.value)


@pytest.mark.kafka
def test_tls_and_a_password(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    options = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", **BY_PASSWORD}
    assert cluster_id(guarded.both, guarded.folder, **options, ca_file="ca.pem")
    with pytest.raises(RequestRefused, match=r"TLS failed: CERTIFICATE_VERIFY_FAILED; see `security`"):
        cluster_id(guarded.both, guarded.folder, **options)


@pytest.mark.kafka
@pytest.mark.usefixtures("every_answer")
def test_a_client_without_the_required_security_is_referred_to_its_options(guarded: Guarded) -> None:
    with pytest.raises(RequestRefused, match="no Kafka broker, or requires TLS; see `security`"):
        cluster_id(guarded.both)
    with (
        closing(Cluster(guarded.password, timeout=1)) as cluster,
        pytest.raises(RetryTimeout, match="as it does without the TLS or the password that it requires"),
    ):
        cluster.topics()
