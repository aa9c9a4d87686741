"""Certificates that replicas sign with a shared authority, and certificate files that others renew."""

from __future__ import annotations

import pytest
from cryptography import x509

from fluence_extender.identity.authority import SECRET, Authority, SharedAuthority, read_authority
from fluence_extender.identity.certificates import (
    LEAF_LASTS,
    make_authority,
    read_bundle,
    signed_by,
)
from fluence_extender.identity.registration import OWNER, OWNER_LABEL, Identity, NoIdentity
from tests.unit.webhook.certificates import BEGIN, Clock, names_of
from tests.unit.webhook.stored_objects import StoredObjects, refusing, unreachable

HOSTS = ("fluence-webhook.fluence-system.svc",)
PATH = f"/api/v1/namespaces/fluence-system/secrets/{SECRET}"


def replica(objects: StoredObjects, clock: Clock) -> SharedAuthority:
    return SharedAuthority(objects, "fluence-system", HOSTS, clock)


def leaf_of(identity: Identity) -> x509.Certificate:
    return read_bundle(identity.certificate)[0]


def trusted(identity: Identity) -> bool:
    """Return whether a client that trusts the bundle accepts the certificate."""
    return any(signed_by(leaf_of(identity), one) for one in read_bundle(identity.bundle))


def shipped(objects: StoredObjects) -> None:
    """Store the Secret as deploy/webhook makes it."""
    metadata = {"name": SECRET, "namespace": "fluence-system", "labels": {OWNER_LABEL: OWNER}}
    objects.put(PATH, {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata})


async def test_first_replica_makes_the_authority_and_the_second_uses_it() -> None:
    objects, clock = StoredObjects(), Clock()
    first = await replica(objects, clock).identity(b"")
    second = await replica(objects, clock).identity(b"")
    assert objects.writes() == [("create", PATH)]
    assert first.bundle == second.bundle
    assert first.key != second.key
    assert trusted(first)
    assert trusted(second)
    assert names_of(leaf_of(first)) == set(HOSTS)


async def test_shipped_secret_is_filled_in_and_nothing_is_created() -> None:
    objects, clock = StoredObjects(), Clock()
    shipped(objects)
    objects.before = refusing("create")
    identity = await replica(objects, clock).identity(b"")
    assert trusted(identity)
    assert objects.objects[PATH]["metadata"]["labels"] == {OWNER_LABEL: OWNER}
    assert read_authority(objects.objects[PATH]["data"], BEGIN) is not None


@pytest.mark.parametrize("there_before", [False, True])
async def test_replicas_that_start_together_agree(there_before: bool) -> None:
    objects, clock = StoredObjects(), Clock()
    if there_before:
        shipped(objects)
    rival = replica(objects, clock)

    def another_replica_first(verb: str, path: str) -> None:
        if verb != "read":
            objects.before = lambda verb, path: None
            first = Authority(make_authority(BEGIN))
            shipped(objects)
            objects.put(PATH, {**objects.objects[PATH], "data": first.data()})

    objects.before = another_replica_first
    late = await replica(objects, clock).identity(b"")
    early = await rival.identity(b"")
    assert late.bundle == early.bundle
    assert trusted(late)


async def test_certificate_is_renewed_in_the_last_third_of_its_life() -> None:
    objects, clock = StoredObjects(), Clock()
    source = replica(objects, clock)
    first = await source.identity(b"")
    clock.forward(days=19)
    assert (await source.identity(first.bundle)).certificate == first.certificate
    clock.forward(days=1)
    second = await source.identity(first.bundle)
    assert second.certificate != first.certificate
    assert second.bundle == first.bundle
    assert second.expires == clock.now + LEAF_LASTS


async def test_new_authority_signs_once_the_api_server_trusts_it() -> None:
    objects, clock = StoredObjects(), Clock()
    source = replica(objects, clock)
    first = await source.identity(b"")
    for _ in range(81):
        clock.forward(days=15)
        first = await source.identity(first.bundle)
    clock.forward(days=2)
    kept = await source.identity(first.bundle)
    new = read_bundle(kept.bundle)[0]
    assert read_bundle(kept.bundle)[1:] == read_bundle(first.bundle)
    again = await source.identity(first.bundle)
    assert (kept.certificate, again.certificate) == (first.certificate, first.certificate)
    after = await source.identity(kept.bundle)
    assert signed_by(leaf_of(after), new)
    clock.forward(days=2)
    alone = await source.identity(kept.bundle)
    assert read_bundle(alone.bundle) == (new,)
    assert trusted(alone)


async def test_replica_whose_certificate_is_not_trusted_changes_it_at_once() -> None:
    objects, clock = StoredObjects(), Clock()
    source = replica(objects, clock)
    await source.identity(b"")
    other = Authority(make_authority(BEGIN))
    objects.put(PATH, {**objects.objects[PATH], "data": other.data()})
    identity = await source.identity(make_authority(BEGIN).certificate_pem)
    assert signed_by(leaf_of(identity), other.current.certificate)


@pytest.mark.parametrize("data", [{"ca.crt": "eA==", "ca.key": "eA=="}, {"ca.crt": "", "ca.key": "eA=="}])
async def test_broken_secret_gets_the_held_authority(data: dict[str, str]) -> None:
    objects, clock = StoredObjects(), Clock()
    source = replica(objects, clock)
    first = await source.identity(b"")
    objects.put(PATH, {**objects.objects[PATH], "data": data})
    second = await source.identity(first.bundle)
    assert second == first
    stored = read_authority(objects.objects[PATH]["data"], BEGIN)
    assert stored is not None
    assert stored.bundle == first.bundle


async def test_broken_secret_gets_a_new_authority_if_none_was_held() -> None:
    objects, clock = StoredObjects(), Clock()
    shipped(objects)
    objects.put(PATH, {**objects.objects[PATH], "data": {"ca.crt": "eA==", "ca.key": "eA=="}})
    assert trusted(await replica(objects, clock).identity(b""))


async def test_deleted_secret_is_put_back_as_it_was() -> None:
    objects, clock = StoredObjects(), Clock()
    source = replica(objects, clock)
    first = await source.identity(b"")
    del objects.objects[PATH]
    assert await source.identity(first.bundle) == first
    assert (await replica(objects, clock).identity(b"")).bundle == first.bundle


async def test_emptied_secret_gives_all_replicas_a_new_authority_without_a_gap() -> None:
    objects, clock = StoredObjects(), Clock()
    one, two = replica(objects, clock), replica(objects, clock)
    first, other = await one.identity(b""), await two.identity(b"")
    objects.put(PATH, {**objects.objects[PATH], "data": {}})
    after, after_other = await one.identity(first.bundle), await two.identity(first.bundle)
    assert after.bundle == after_other.bundle != first.bundle
    assert (after.certificate, after_other.certificate) == (first.certificate, other.certificate)
    assert trusted(after)
    assert trusted(after_other)
    later = await two.identity(after.bundle)
    assert signed_by(leaf_of(later), read_bundle(after.bundle)[0])


async def test_secret_that_is_not_ours_is_left_alone() -> None:
    objects, clock = StoredObjects(), Clock()
    objects.put(PATH, {"metadata": {"name": SECRET, "labels": {"app": "another"}}, "data": {}})
    with pytest.raises(NoIdentity, match="isn't ours"):
        await replica(objects, clock).identity(b"")
    assert objects.writes() == []


async def test_certificate_is_renewed_during_an_outage() -> None:
    objects, clock = StoredObjects(), Clock()
    source = replica(objects, clock)
    first = await source.identity(b"")
    objects.before = unreachable
    during = await source.identity(first.bundle)
    assert during.certificate == first.certificate
    assert during.fault == "the API server can't be reached"
    clock.forward(days=21)
    renewed = await source.identity(first.bundle)
    assert renewed.certificate != first.certificate
    assert trusted(renewed)
    objects.before = lambda verb, path: None
    assert (await source.identity(first.bundle)).fault == ""


async def test_there_is_no_first_certificate_without_the_api_server() -> None:
    objects = StoredObjects()
    objects.before = unreachable
    with pytest.raises(NoIdentity, match="can't be reached"):
        await replica(objects, Clock()).identity(b"")


async def test_authority_that_could_not_be_stored_is_not_used() -> None:
    objects = StoredObjects()
    objects.before = refusing("create")
    with pytest.raises(NoIdentity, match=r"forbidden.*kubectl apply -k deploy/webhook"):
        await replica(objects, Clock()).identity(b"")


async def test_secret_that_others_write_all_the_time_is_left_for_now() -> None:
    objects, clock = StoredObjects(), Clock()
    shipped(objects)

    def meddle(verb: str, path: str) -> None:
        if verb == "replace":
            objects.put(PATH, objects.objects[PATH])

    objects.before = meddle
    with pytest.raises(NoIdentity, match="written by others"):
        await replica(objects, clock).identity(b"")
