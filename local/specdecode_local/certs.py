"""Certificates and kubeconfigs: one authority for this cluster, one certificate for each identity.

Made once per state folder. Keys never leave it, and it goes away with the cluster.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from specdecode_local import addresses, paths

VALID = datetime.timedelta(days=365)
RENEW_BEFORE = datetime.timedelta(days=7)
BACKDATED = datetime.timedelta(minutes=5)
"""So that a clock a little behind does not refuse a fresh certificate."""

API_SERVER = f"https://{addresses.NODE}:{addresses.API_PORT}"


@dataclass(frozen=True)
class Identity:
    """Who a certificate speaks for: Kubernetes takes the user from the common name, groups from the organizations."""

    file: str
    common_name: str
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """DNS names and addresses it serves under; empty for a client."""
    kubeconfig: bool = False


def _service_names(service: str, namespace: str) -> tuple[str, ...]:
    parts = (service, namespace, "svc", *addresses.CLUSTER_DOMAIN.split("."))
    return tuple(".".join(parts[:length]) for length in (1, 2, 3, len(parts)))


IDENTITIES = (
    Identity(
        "apiserver",
        "kube-apiserver",
        names=(
            addresses.NODE,
            addresses.API_SERVICE,
            addresses.LOOPBACK,
            "localhost",
            *_service_names("kubernetes", "default"),
        ),
    ),
    Identity("apiserver-kubelet", "kube-apiserver-kubelet-client", ("system:masters",)),
    Identity("etcd", "etcd", names=(addresses.LOOPBACK, "localhost")),
    Identity("etcd-client", "kube-apiserver-etcd-client"),
    Identity("kubelet-serving", "kubelet", names=(addresses.NODE, addresses.NODE_NAME)),
    Identity("admin", "specdecode-admin", ("system:masters",), kubeconfig=True),
    Identity("controller-manager", "system:kube-controller-manager", kubeconfig=True),
    Identity("scheduler", "system:kube-scheduler", kubeconfig=True),
    Identity("kubelet", f"system:node:{addresses.NODE_NAME}", ("system:nodes",), kubeconfig=True),
    Identity("kube-proxy", "system:kube-proxy", kubeconfig=True),
    Identity("coredns", "specdecode-local:coredns", kubeconfig=True),
    Identity("prometheus", "specdecode-local:prometheus", kubeconfig=True),
    Identity("kwok", "specdecode-local:kwok", kubeconfig=True),
)


def certificate(name: str) -> Path:
    return paths.CERTIFICATES / f"{name}.crt"


def key(name: str) -> Path:
    return paths.CERTIFICATES / f"{name}.key"


def authority() -> Path:
    return certificate("ca")


def service_account_key() -> Path:
    """Private key that signs service account tokens; its public half is beside it."""
    return key("service-account")


def service_account_public_key() -> Path:
    return paths.CERTIFICATES / "service-account.pub"


def kubeconfig(name: str) -> Path:
    return paths.KUBECONFIG if name == "admin" else paths.CERTIFICATES / f"{name}.kubeconfig"


def ensure(now: datetime.datetime) -> bool:
    """Makes all of it anew if anything is missing or soon expires. Returns whether it did."""
    if not _stale(now):
        return False
    paths.CERTIFICATES.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_certificate = _self_signed(authority_key, now)
    _write_key(key("ca"), authority_key)
    _write(authority(), authority_certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    for identity in IDENTITIES:
        own_key = ec.generate_private_key(ec.SECP256R1())
        signed = _signed(identity, own_key, authority_certificate, authority_key, now)
        _write_key(key(identity.file), own_key)
        _write(certificate(identity.file), signed.public_bytes(serialization.Encoding.PEM), 0o644)
        if identity.kubeconfig:
            _write(kubeconfig(identity.file), _kubeconfig(identity).encode(), 0o600)
    _ensure_service_account_key()
    return True


def _stale(now: datetime.datetime) -> bool:
    files = [authority(), key("ca"), service_account_key(), service_account_public_key()]
    for identity in IDENTITIES:
        files += [certificate(identity.file), key(identity.file)]
        files += [kubeconfig(identity.file)] if identity.kubeconfig else []
    if not all(file.exists() for file in files):
        return True
    expires = x509.load_pem_x509_certificate(authority().read_bytes()).not_valid_after_utc
    return expires < now + RENEW_BEFORE


def _ensure_service_account_key() -> None:
    """Kept when certificates are renewed: tokens of running pods are signed with it."""
    if service_account_key().exists() and service_account_public_key().exists():
        return
    signing_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(service_account_key(), signing_key)
    public = signing_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(service_account_public_key(), public, 0o644)


def _builder(subject: x509.Name, issuer: x509.Name, now: datetime.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALID)
    )


def _self_signed(own_key: ec.EllipticCurvePrivateKey, now: datetime.datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "specdecode-local")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, name, now)
        .public_key(own_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own_key.public_key()), critical=False)
        .sign(own_key, hashes.SHA256())
    )


def _signed(
    identity: Identity,
    own_key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
) -> x509.Certificate:
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in identity.organizations]
        + [x509.NameAttribute(NameOID.COMMON_NAME, identity.common_name)]
    )
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(subject, issuer.subject, now).public_key(own_key.public_key())
    if identity.names:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names = [_general_name(name) for name in identity.names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
        .sign(issuer_key, hashes.SHA256())
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _kubeconfig(identity: Identity) -> str:
    """With all data inline, so that the file alone is enough."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "specdecode-local",
                    "cluster": {"server": API_SERVER, "certificate-authority-data": _base64(authority())},
                }
            ],
            "users": [
                {
                    "name": identity.common_name,
                    "user": {
                        "client-certificate-data": _base64(certificate(identity.file)),
                        "client-key-data": _base64(key(identity.file)),
                    },
                }
            ],
            "contexts": [
                {
                    "name": "specdecode-local",
                    "context": {"cluster": "specdecode-local", "user": identity.common_name},
                }
            ],
            "current-context": "specdecode-local",
        },
        sort_keys=False,
    )


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _write_key(file: Path, private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    # controller-manager and API server read the service account key in this older form as well as in PKCS#8.
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    _write(file, pem, 0o600)


def _write(file: Path, content: bytes, mode: int) -> None:
    """Never readable by others, not even for a moment."""
    partial = file.with_name(f".{file.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
    partial.rename(file)
