"""The shared authority is kept, put back, replaced, and trusted for a day longer."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from fluence_extender.identity.authority import (
    BUNDLE,
    KEY,
    OVERLAP,
    Authority,
    BrokenAuthority,
    read_authority,
    wanted_authority,
)
from fluence_extender.identity.certificates import (
    AUTHORITY_LASTS,
    KeyPair,
    make_authority,
    make_leaf,
    signed_by,
)
from tests.unit.webhook.certificates import BEGIN

DAY = timedelta(days=1)


def made(at: datetime = BEGIN) -> Authority:
    return Authority(make_authority(at))


def own(at: datetime = BEGIN) -> KeyPair:
    """Return an authority that an administrator has made, with an RSA key."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Our company")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(at - 30 * DAY)
        .not_valid_after(at + 300 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def test_authority_is_read_back() -> None:
    authority = Authority(make_authority(BEGIN), (make_authority(BEGIN).certificate,))
    read = read_authority(authority.data(), BEGIN)
    assert read is not None
    assert (read.bundle, read.current.key_pem) == (authority.bundle, authority.current.key_pem)


@pytest.mark.parametrize("data", [None, {}, {BUNDLE: "", KEY: ""}, {"other": "eA=="}])
def test_empty_secret_holds_no_authority(data: dict[str, str] | None) -> None:
    assert read_authority(data, BEGIN) is None


def broken() -> dict[str, tuple[dict[str, str], str]]:
    good, other = made().data(), made().data()
    leaf = make_leaf(make_authority(BEGIN), ["a"], BEGIN)
    of_leaf = Authority(leaf).data()
    return {
        "no base64": ({**good, KEY: "§"}, "string"),
        "no certificate": ({**good, BUNDLE: "eA=="}, "no readable certificate"),
        "no key": ({BUNDLE: good[BUNDLE]}, "key can't be read"),
        "no bundle": ({KEY: good[KEY]}, "no readable certificate"),
        "another's key": ({**good, KEY: other[KEY]}, "doesn't belong to its certificate"),
        "a leaf": (of_leaf, "doesn't belong to an authority"),
        "half a key": ({**good, KEY: good[KEY][:40]}, "key can't be read"),
        "truncated": ({**good, BUNDLE: good[BUNDLE][: len(good[BUNDLE]) // 2 // 4 * 4]}, "no readable"),
    }


@pytest.mark.parametrize("name", broken())
def test_message_says_what_is_wrong_with_a_broken_secret(name: str) -> None:
    data, text = broken()[name]
    with pytest.raises(BrokenAuthority, match=text):
        read_authority(data, BEGIN)


def test_expired_authority_is_broken() -> None:
    with pytest.raises(BrokenAuthority, match="expired on 2030-12-31"):
        read_authority(made().data(), BEGIN + AUTHORITY_LASTS)


def test_authority_made_by_a_clock_that_is_ahead_is_accepted() -> None:
    assert read_authority(made(BEGIN + 2 * DAY).data(), BEGIN) is not None


def test_key_of_several_kinds_signs() -> None:
    authority = Authority(own())
    read = read_authority(authority.data(), BEGIN)
    assert read is not None
    assert signed_by(make_leaf(read.current, ["a"], BEGIN).certificate, authority.current.certificate)


def test_authority_is_made_if_there_is_none() -> None:
    for emptied in (False, True):
        authority = wanted_authority(None, None, emptied, BEGIN)
        assert authority.former == ()
        assert authority.current.certificate.not_valid_after_utc == BEGIN + AUTHORITY_LASTS


def test_good_authority_is_left_as_it_is() -> None:
    stored = made()
    assert wanted_authority(stored, None, False, BEGIN) is stored
    assert wanted_authority(stored, made(), False, BEGIN) is stored


def test_held_authority_is_put_back_if_the_secret_is_gone_or_broken() -> None:
    held = made()
    assert wanted_authority(None, held, False, BEGIN) is held


def test_emptied_secret_asks_for_another_and_the_old_one_stays_trusted() -> None:
    held = made()
    after = wanted_authority(None, held, True, BEGIN + DAY)
    assert after.current.certificate != held.current.certificate
    assert after.former == (held.current.certificate,)


def test_authority_is_replaced_in_the_last_third_of_its_life_and_the_old_one_stays_trusted() -> None:
    stored = made()
    assert wanted_authority(stored, stored, False, BEGIN + 1200 * DAY) is stored
    after = wanted_authority(stored, stored, False, BEGIN + 1220 * DAY)
    assert after.current.certificate != stored.current.certificate
    assert after.former == (stored.current.certificate,)
    assert after.bundle.startswith(after.current.certificate_pem)


def test_former_authorities_are_trusted_for_a_day() -> None:
    now = BEGIN + 1220 * DAY
    after = wanted_authority(made(), None, False, now)
    assert wanted_authority(after, after, False, now + OVERLAP - timedelta(minutes=1)) is after
    alone = wanted_authority(after, after, False, now + OVERLAP)
    assert (alone.current, alone.former) == (after.current, ())


def test_expired_former_authorities_are_dropped_at_once() -> None:
    old = made(BEGIN - AUTHORITY_LASTS + timedelta(hours=4)).current.certificate
    stored = Authority(make_authority(BEGIN), (old,))
    assert wanted_authority(stored, stored, False, BEGIN) is stored
    assert wanted_authority(stored, stored, False, BEGIN + timedelta(hours=5)).former == ()


def test_authorities_that_an_administrator_trusts_in_addition_stay() -> None:
    stored = Authority(own(), (own().certificate,))
    assert wanted_authority(stored, None, False, BEGIN + 5 * DAY) is stored
