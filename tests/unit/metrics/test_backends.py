"""Whom the operator may ask, with which credential, and that no credential is ever seen."""

from __future__ import annotations

import base64
import json
import logging
import ssl
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from scraped import PATIENT, QUESTION, Standin, pod

from specdecode_operator import __main__ as program
from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.metrics.backends import Backend, choose, read_backends
from specdecode_operator.metrics.errors import BackendDown
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.prometheus import Limits, Prometheus
from specdecode_operator.settings import BadSetting, Settings

SECRET = "s3cr3t-that-nobody-sees"
GOOD: dict[str, Any] = {"name": "main", "url": "https://prometheus.example.com:9090/base"}
VARIABLE = "SPECDECODE_METRICS_BACKENDS"


def read(*backends: dict[str, Any]) -> tuple[Backend, ...]:
    return read_backends(json.dumps(backends))


# --- The configuration ------------------------------------------------------------------------------------------------


def test_all_that_can_be_said_of_a_backend_is_read() -> None:
    (found,) = read({
        **GOOD, "caFile": "/etc/ca.crt", "bearerFile": "/etc/token", "tenant": "team-a",
        "tenantHeader": "THANOS-TENANT", "labels": {"cluster": "east"}, "namespaces": ["team"],
    })  # fmt: skip
    assert found == Backend(
        name="main",
        url="https://prometheus.example.com:9090/base",
        ca_file=Path("/etc/ca.crt"),
        bearer_file=Path("/etc/token"),
        tenant="team-a",
        tenant_header="THANOS-TENANT",
        labels={"cluster": "east"},
        namespaces=("team",),
    )


REFUSED: list[tuple[str, Any, str, str]] = [
    ("a name that can't be one", {**GOOD, "name": "Main_1"}, "[0].name", "'Main_1'"),
    ("no address", {"name": "main"}, "[0].url", "Field required"),
    ("an address without scheme", {**GOOD, "url": "prometheus:9090"}, "[0].url", "http:// or https://"),
    ("another scheme", {**GOOD, "url": "file:///etc/passwd"}, "[0].url", "http:// or https://"),
    ("an address without host", {**GOOD, "url": "https://"}, "[0].url", "http:// or https://"),
    ("a port that is none", {**GOOD, "url": "https://a:99999999"}, "[0].url", "Port out of range"),
    ("a password in the address", {**GOOD, "url": f"https://me:{SECRET}@a"}, "[0].url", "those belong in a Secret"),
    ("a token in the address", {**GOOD, "url": f"https://a/?token={SECRET}"}, "[0].url", "without query"),
    ("a token in a field", {**GOOD, "bearerToken": SECRET}, "[0].bearerToken", "Extra inputs"),
    ("a token for a file's name", {**GOOD, "bearerFile": SECRET}, "[0].bearerFile", "an absolute path"),
    ("a user without password", {**GOOD, "usernameFile": "/u"}, "[0]", "both or neither"),
    ("two credentials", {**GOOD, "bearerFile": "/t", "usernameFile": "/u", "passwordFile": "/p"}, "[0]", "one of"),
    ("a tenant of two lines", {**GOOD, "tenant": "a\r\nAuthorization: b"}, "[0].tenant", "one line"),
    ("a header that is none", {**GOOD, "tenantHeader": "X Y"}, "[0].tenantHeader", "'X Y'"),
    ("a header of another meaning", {**GOOD, "tenantHeader": "Authorization"}, "[0]", "no other meaning"),
    ("a label that queries have", {**GOOD, "labels": {"namespace": "x"}}, "[0]", "without namespace"),
    ("a label that is none", {**GOOD, "labels": {"a-b": "x"}}, "[0].labels.a-b", "pattern"),
    ("a namespace that can't be", {**GOOD, "namespaces": ["Team A"]}, "[0].namespaces[0]", "'Team A'"),
    ("text for a list", {**GOOD, "namespaces": "team"}, "[0].namespaces", "tuple"),
    ("one backend and no list", None, "", "tuple"),
]


@pytest.mark.parametrize(("backend", "path", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_bad_value_is_named_and_never_shown_where_it_may_be_a_secret(backend: Any, path: str, words: str) -> None:
    with pytest.raises(BadSetting) as raised:
        Settings.from_env({VARIABLE: json.dumps([backend] if backend is not None else GOOD)})
    said = str(raised.value)
    assert said.startswith(f"{VARIABLE}{path}: found "), said
    assert words in said
    assert SECRET not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[{]"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=f"{VARIABLE}: found text that is no JSON"):
        Settings.from_env({VARIABLE: text})


def test_two_backends_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidObject, match="several named main"):
        read(GOOD, GOOD)


def test_no_backend_is_the_default() -> None:
    assert Settings.from_env({VARIABLE: ""}).metrics_backends == ()


def test_the_operator_says_at_its_start_which_file_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps([{**GOOD, "bearerFile": "/nowhere/token"}]))
    assert program.main(["run"]) == 64
    assert "backend main: credential /nowhere/token: No such file" in capsys.readouterr().err


# --- Who may choose it ------------------------------------------------------------------------------------------------


def test_a_backend_is_chosen_by_name_where_its_namespaces_allow() -> None:
    backends = read({**GOOD, "name": "all"}, {**GOOD, "name": "one", "namespaces": ["team"]})
    assert choose(backends, "all", namespace="other", path="f").name == "all"
    assert choose(backends, "one", namespace="team", path="f").name == "one"


@pytest.mark.parametrize(
    ("name", "namespace", "allowed"),
    [("one", "other", "allowed: all;"), ("none", "team", "allowed: all, one;")],
)
def test_a_backend_that_is_not_open_to_a_namespace_is_as_good_as_none(name: str, namespace: str, allowed: str) -> None:
    backends = read({**GOOD, "name": "all"}, {**GOOD, "name": "one", "namespaces": ["team"]})
    with pytest.raises(InvalidObject, match=allowed):
        choose(backends, name, namespace=namespace, path="spec.metrics.backend")


# --- Credentials ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """What would be mounted."""

    folder: Path

    def holding(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_a_bearer_token_is_sent_and_read_anew_for_each_fetch(standin: Standin, files: Files) -> None:
    backend = Backend(name="main", url=standin.url, bearer_file=files.holding("token", f"{SECRET}\n"))
    await fetch(backend, QUESTION, limits=PATIENT)
    files.holding("token", "renewed")
    await fetch(backend, QUESTION, limits=PATIENT)
    assert [headers["Authorization"] for headers in standin.headers] == [
        f"Bearer {SECRET}", f"Bearer {SECRET}", "Bearer renewed", "Bearer renewed",
    ]  # fmt: skip


async def test_user_and_password_are_sent(standin: Standin, files: Files) -> None:
    user, password = files.holding("username", "me\n"), files.holding("password", "pass: wörd\n")
    backend = Backend(name="main", url=standin.url, username_file=user, password_file=password)
    await fetch(backend, QUESTION, limits=PATIENT)
    scheme, encoded = standin.headers[0]["Authorization"].split()
    assert (scheme, base64.b64decode(encoded).decode()) == ("Basic", "me:pass: wörd")


async def test_no_credential_is_sent_where_none_is_given_and_the_tenant_where_it_is(standin: Standin) -> None:
    await fetch(Backend(name="main", url=standin.url), QUESTION, limits=PATIENT)
    await fetch(Backend(name="main", url=standin.url, tenant="team-a"), QUESTION, limits=PATIENT)
    await fetch(Backend(name="main", url=standin.url, tenant="b", tenant_header="THANOS-TENANT"), QUESTION,
                limits=PATIENT)  # fmt: skip
    first, *_, second, _, third, _ = standin.headers
    assert "Authorization" not in first
    assert "X-Scope-OrgID" not in first
    assert (second["X-Scope-OrgID"], third["THANOS-TENANT"]) == ("team-a", "b")


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"nul\x00", b"\xff\xfe", b"x" * 70_000])
async def test_a_file_that_holds_no_credential_is_named_and_nothing_is_asked(
    standin: Standin, files: Files, content: bytes
) -> None:
    path = files.holding("token", content)
    with pytest.raises(BackendDown, match=f"backend main: credential {path}: it isn't"):
        await fetch(Backend(name="main", url=standin.url, bearer_file=path), QUESTION)
    assert standin.requests == 0


async def test_a_user_with_a_colon_is_refused(standin: Standin, files: Files) -> None:
    user, password = files.holding("username", "a:b"), files.holding("password", SECRET)
    with pytest.raises(BackendDown, match="holds a colon") as raised:
        await fetch(Backend(name="main", url=standin.url, username_file=user, password_file=password), QUESTION)
    assert SECRET not in str(raised.value)


async def echo(request: web.Request) -> web.StreamResponse:
    """A backend that repeats what it was sent."""
    return web.Response(status=400, text=json.dumps(dict(request.headers)), reason=request.headers["Authorization"])


async def echo_garbled(request: web.Request) -> web.StreamResponse:
    return web.json_response({"status": request.headers["Authorization"]})


async def echo_break(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(f"HTTP/1.1 {request.headers['Authorization']}\r\n\r\n".encode())  # type: ignore[attr-defined]
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize("answer", [echo, echo_garbled, echo_break])
async def test_no_error_no_log_and_no_repr_holds_the_credential(
    standin: Standin, files: Files, caplog: pytest.LogCaptureFixture, answer: Callable[..., Any]
) -> None:
    backend = Backend(name="main", url=standin.url, bearer_file=files.holding("token", SECRET))
    standin.answer = answer
    caplog.set_level(logging.DEBUG)
    asked = Prometheus(backend, PATIENT)
    with pytest.raises(BackendDown) as raised:
        await fetch(backend, QUESTION, limits=Limits(deadline=600.0, attempt=300.0, retries=0))
    causes = [raised.value, raised.value.__context__, raised.value.__cause__]
    assert standin.headers[0]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in "".join(map(repr, [*causes, backend, asked, caplog.records])) + caplog.text
    assert SECRET not in "".join(traceback.format_exception(raised.value))


# --- TLS --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Authority:
    """Signs the stand-in's certificate."""

    folder: Path
    host: str = "127.0.0.1"

    def issue(self) -> tuple[ssl.SSLContext, Path]:
        """The server's side, and the file that a client trusts."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(self.host))]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        files = Files(self.folder)
        public = files.holding(f"{self.host}.crt", certificate.public_bytes(pem))
        private = files.holding(
            f"{self.host}.key",
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(public, private)
        return context, public


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[tuple[Standin, Path]]:
    """The stand-in behind TLS, and the CA that it is trusted by."""
    context, public = Authority(tmp_path).issue()
    found = Standin(pod())
    await found.start(context)
    yield found, public
    await found.stop()


async def test_a_backend_that_the_given_ca_signed_is_asked(secured: tuple[Standin, Path]) -> None:
    standin, public = secured
    backend = Backend(name="main", url=f"https://127.0.0.1:{standin.port}", ca_file=public)
    assert len(await fetch(backend, QUESTION, limits=PATIENT)) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
async def test_a_backend_of_another_ca_or_for_another_host_never_gets_the_credential(
    secured: tuple[Standin, Path], tmp_path: Path, host: str
) -> None:
    standin, _ = secured
    context, other = Authority(tmp_path, host="127.0.0.2").issue()
    if host == "127.0.0.2":
        await standin.stop()
        await standin.start(context)
    token = Files(tmp_path).holding("token", SECRET)
    backend = Backend(name="main", url=f"https://127.0.0.1:{standin.port}", ca_file=other, bearer_file=token)
    with pytest.raises(BackendDown, match="certificate isn't signed by the given CA, or is another host's"):
        await fetch(backend, QUESTION, limits=PATIENT)
    assert standin.requests == 0


async def test_a_backend_without_tls_is_told_from_one_with(standin: Standin) -> None:
    backend = Backend(name="main", url=f"https://127.0.0.1:{standin.port}")
    with pytest.raises(BackendDown, match="it doesn't speak TLS there"):
        await fetch(backend, QUESTION, limits=Limits(deadline=600.0, attempt=300.0, retries=0))


@pytest.mark.parametrize(("content", "words"), [(b"no certificate", "no PEM certificate"), (None, "No such file")])
async def test_a_ca_that_is_none_is_named(files: Files, content: bytes | None, words: str) -> None:
    path = files.folder / "ca.crt" if content is None else files.holding("ca.crt", content)
    with pytest.raises(BackendDown, match=f"caFile {path}: .*{words}"):
        await fetch(Backend(name="main", url="https://127.0.0.1:9", ca_file=path), QUESTION)
