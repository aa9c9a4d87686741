"""Certificates are made so that API servers accept them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fluence_extender.identity.certificates import (
    AUTHORITY_LASTS,
    LEAF_LASTS,
    SKEW,
    BadCertificate,
    make_authority,
    make_leaf,
    may_sign,
    pem,
    read_bundle,
    read_pair,
    renewal_due,
    signed_by,
)
from fluence_extender.identity.tls import show_certificate, tls_context
from tests.unit.webhook.certificates import BEGIN, names_of, shaken

NOW = datetime.now(UTC)
HOSTS = ["fluence-webhook.fluence-system.svc", "127.0.0.1", "::1"]


@pytest.mark.parametrize("host", HOSTS)
def test_client_that_trusts_the_authority_accepts_its_leaf_under_each_name(host: str) -> None:
    authority = make_authority(NOW)
    leaf = make_leaf(authority, HOSTS, NOW)
    context = tls_context()
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    assert shaken(context, authority.certificate_pem, host)


def test_other_names_and_other_authorities_are_refused() -> None:
    authority = make_authority(NOW)
    leaf = make_leaf(authority, HOSTS, NOW)
    context = tls_context()
    show_certificate(context, leaf.certificate_pem, leaf.key_pem)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, authority.certificate_pem, "elsewhere.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(context, make_authority(NOW).certificate_pem, HOSTS[0])


def test_certificate_is_valid_for_clocks_that_are_behind() -> None:
    authority = make_authority(BEGIN)
    for made in (authority.certificate, make_leaf(authority, HOSTS, BEGIN).certificate):
        assert made.not_valid_before_utc == BEGIN - SKEW


def test_leaf_never_outlives_its_authority() -> None:
    authority = make_authority(BEGIN)
    late = BEGIN + AUTHORITY_LASTS - timedelta(days=3)
    leaf = make_leaf(authority, HOSTS, late).certificate
    assert leaf.not_valid_after_utc == authority.certificate.not_valid_after_utc
    early = make_leaf(authority, HOSTS, BEGIN).certificate
    assert early.not_valid_after_utc == BEGIN + LEAF_LASTS


def test_renewal_is_due_in_the_last_third_of_a_life() -> None:
    leaf = make_leaf(make_authority(BEGIN), HOSTS, BEGIN).certificate
    due = leaf.not_valid_after_utc - (leaf.not_valid_after_utc - leaf.not_valid_before_utc) / 3
    assert not renewal_due(leaf, BEGIN)
    assert not renewal_due(leaf, due - timedelta(seconds=1))
    assert renewal_due(leaf, due)
    assert renewal_due(leaf, leaf.not_valid_after_utc + timedelta(days=1))


def test_leaf_is_signed_by_its_authority_alone() -> None:
    authority, other = make_authority(BEGIN), make_authority(BEGIN)
    leaf = make_leaf(authority, HOSTS, BEGIN).certificate
    assert signed_by(leaf, authority.certificate)
    assert not signed_by(leaf, other.certificate)
    assert not signed_by(authority.certificate, leaf)


def test_leaf_may_not_sign() -> None:
    authority = make_authority(BEGIN)
    assert may_sign(authority.certificate)
    assert not may_sign(make_leaf(authority, HOSTS, BEGIN).certificate)


def test_names_are_read_back() -> None:
    assert names_of(make_leaf(make_authority(BEGIN), HOSTS, BEGIN).certificate) == set(HOSTS)
    assert names_of(make_authority(BEGIN).certificate) == set()


def test_bundle_is_read_in_order_and_each_certificate_once() -> None:
    one, other = make_authority(BEGIN).certificate, make_authority(BEGIN).certificate
    assert read_bundle(pem(one) + pem(other) + pem(one)) == (one, other)


@pytest.mark.parametrize(
    "text", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_bundle_without_certificates_is_refused(text: bytes) -> None:
    with pytest.raises(BadCertificate, match="no readable certificate"):
        read_bundle(text)


def test_pair_is_read_back() -> None:
    authority = make_authority(BEGIN)
    read = read_pair(authority.certificate, authority.key_pem)
    assert read.key_pem == authority.key_pem


def test_key_of_another_certificate_is_refused() -> None:
    one, other = make_authority(BEGIN), make_authority(BEGIN)
    with pytest.raises(BadCertificate, match="doesn't belong to its certificate"):
        read_pair(one.certificate, other.key_pem)
    with pytest.raises(BadCertificate, match="can't be read"):
        read_pair(one.certificate, b"nonsense")
    edwards = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(BadCertificate, match="neither an RSA"):
        read_pair(one.certificate, edwards)
