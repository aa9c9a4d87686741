"""Who may talk to a local control plane: certificates, tokens, and the kubeconfigs that carry them.

One certificate authority a control plane signs the API server's certificate and those of users; a second key
signs ServiceAccount tokens. All lie in its folder, readable by its owner only, and are made anew only when
missing, so that what was issued before a crash is still good after it.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=365)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")


@dataclass(frozen=True, slots=True)
class Credential:
    """What proves who a client is: a bearer token, or a certificate with its key (both PEM)."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""


def write_private(path: Path, content: bytes) -> Path:
    """Write ``path`` so that only its owner can read it, whole or not at all."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    return scratch.replace(path)


def kubeconfig_text(url: str, authority: bytes, credential: Credential) -> str:
    """A kubeconfig with one cluster, one user and one context, everything inline."""
    user: dict[str, Any] = {}
    if credential.token:
        user["token"] = credential.token
    if credential.certificate:
        user["client-certificate-data"] = base64.b64encode(credential.certificate).decode()
        user["client-key-data"] = base64.b64encode(credential.key).decode()
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    return yaml.safe_dump(document, sort_keys=False)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """``key`` in the form Go's tools read."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


class Authority:
    """The certificate authority of one control plane, kept in ``folder`` (ca.crt, ca.key)."""

    def __init__(self, folder: Path) -> None:
        certificate, key = folder / "ca.crt", folder / "ca.key"
        if not certificate.exists():
            self._make(certificate, key)
        self.pem = certificate.read_bytes()
        self._certificate = x509.load_pem_x509_certificate(self.pem)
        loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded

    def server(self) -> Credential:
        """A serving certificate for the loopback address and the in-cluster names."""
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def client(self, user: str, groups: tuple[str, ...] = ()) -> Credential:
        """A client certificate; Kubernetes reads the user from its common name, the groups from its organizations."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._issue(x509.Name(attributes), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    @staticmethod
    def _make(certificate: Path, key_file: Path) -> None:
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fluence-extender local control plane")])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        built = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_private(key_file, key_pem(key))
        write_private(certificate, built.public_bytes(serialization.Encoding.PEM))

    def _issue(
        self, subject: x509.Name, purpose: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> Credential:
        key = new_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        builder = (
            _builder(subject, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Credential(certificate=certificate.public_bytes(serialization.Encoding.PEM), key=key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )
