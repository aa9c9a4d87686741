"""Make and read certificate authorities and the certificates that they sign (RFC 5280).

Invariants: a certificate is valid from an hour before it was made, so that machines whose clocks are behind accept it;
it never outlives the authority that signed it; a certificate is never paired with a key that isn't its own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fluence_extender.model.names import SCHEDULER_NAME

AUTHORITY_NAME = "fluence-webhook-ca"

AUTHORITY_LASTS = timedelta(days=5 * 365)
LEAF_LASTS = timedelta(days=30)
SKEW = timedelta(hours=1)
"""By how much clocks may differ."""

SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class BadCertificate(Exception):
    """The input isn't a certificate with its key; the text says why."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: SigningKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM."""
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        """The key in PEM (PKCS #8, not encrypted)."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def make_authority(now: datetime) -> KeyPair:
    """Return a new authority, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME)])
    builder = (
        _builder(name, name, key, now - SKEW, now + AUTHORITY_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def make_leaf(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """Return a server's certificate for these host names and IP addresses, at least one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SCHEDULER_NAME)])
    issuer = authority.certificate.subject
    end = min(now + LEAF_LASTS, authority.certificate.not_valid_after_utc)
    issuing = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(subject, issuer, key, now - SKEW, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(issuing, critical=False)
    )
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def renewal_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Return whether less than a third of the certificate's life is left."""
    end = certificate.not_valid_after_utc
    return now >= end - (end - certificate.not_valid_before_utc) / 3


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether this authority's key signed the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_bundle(text: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a PEM bundle, in order and each once. Raises `BadCertificate`."""
    try:
        return tuple(dict.fromkeys(x509.load_pem_x509_certificates(text)))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadCertificate(f"it holds no readable certificate: {error}") from None


def read_pair(certificate: x509.Certificate, key_text: bytes) -> KeyPair:
    """Return a certificate with its key, which is given in PEM. Raises `BadCertificate`."""
    try:
        key = serialization.load_pem_private_key(key_text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadCertificate(f"its key can't be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise BadCertificate("its key is neither an RSA nor an elliptic curve key")
    if key.public_key() != certificate.public_key():
        raise BadCertificate("its key doesn't belong to its certificate")
    return KeyPair(certificate, key)


def may_sign(certificate: x509.Certificate) -> bool:
    """Return whether the certificate belongs to an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _builder(
    subject: x509.Name, issuer: x509.Name, key: SigningKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
