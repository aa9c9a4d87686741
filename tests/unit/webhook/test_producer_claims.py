"""Of pods that are all alike exactly one produces, whoever asks, whenever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, ClusterError, Conflict, Deleted, Kind, Listed
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.claim_keeper import ClaimKeeper
from fluence_extender.webhook.claims import ARRIVES_WITHIN, ApiClaims, at_once, wants
from fluence_extender.webhook.contract import Owned, Unclaimed
from tests.unit.webhook.stored_objects import StoredObjects, refusing, unreachable

LEASE = "/apis/coordination.k8s.io/v1/namespaces/lab/leases/g-producer"
PODS = "/api/v1/namespaces/lab/pods?labelSelector=fluence.flux-framework.org%2Fgroup%3Dg-producer"
Json = dict[str, Any]


class Lab:
    """A namespace with a shared group ``g``, and a time of day."""

    def __init__(self) -> None:
        self.objects = StoredObjects()
        self.now = 1_800_000_000.0
        self.claims = ApiClaims(self.objects, lambda: self.now)

    async def claim(self, uid: str) -> bool:
        return await self.claims.claim("lab", "g", uid)

    def producers(self, *phases: str, deleting: bool = False, role: str = PRODUCER) -> None:
        """The pods of the producer's group, as they are now."""
        metadata: Json = {"annotations": {ROLE_ANNOTATION: role}}
        if deleting:
            metadata["deletionTimestamp"] = "2027-01-01T00:00:00Z"
        pods = [{"metadata": metadata, "status": {"phase": phase}} for phase in phases]
        self.objects.put(PODS, {"items": pods})

    async def arrived(self) -> None:
        """The pod of the claim is there, and owns it."""
        await keep(self.objects, Changed(Kind.POD, producer()))
        assert "ownerReferences" in self.objects.objects[LEASE]["metadata"]


def producer(name: str = "p", uid: str = "uid-p", **fields: Any) -> Pod:
    return Pod("lab", name, uid, {GROUP_LABEL: "g-producer"}, {ROLE_ANNOTATION: PRODUCER}, **fields)


async def test_first_to_ask_produces() -> None:
    lab = Lab()
    assert [await lab.claim(uid) for uid in ("a", "b", "c", "a")] == [True, False, False, True]


async def test_of_many_that_ask_at_once_one_produces() -> None:
    lab = Lab()
    outcomes = await asyncio.gather(*(lab.claim(str(number)) for number in range(50)))
    assert sorted(outcomes, key=bool) == [False] * 49 + [True]


async def test_claim_that_goes_with_its_pod_while_it_is_taken_over_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()
    assert await lab.claim("a")
    await lab.arrived()
    lab.producers()

    async def gone(path: str, body: Json) -> Json:
        del lab.objects.objects[LEASE]
        raise Conflict("Precondition failed: UID in precondition")

    monkeypatch.setattr(lab.objects, "replace", gone)
    assert [await lab.claim(uid) for uid in ("b", "c")] == [True, False]


async def test_other_groups_have_producers_of_their_own() -> None:
    lab = Lab()
    assert await lab.claim("a")
    assert await lab.claims.claim("lab", "h", "b")
    assert await lab.claims.claim("elsewhere", "g", "c")


async def test_claim_whose_pod_never_came_is_void_after_a_moment() -> None:
    lab = Lab()
    assert await lab.claim("a")
    lab.now += ARRIVES_WITHIN - 1
    assert not await lab.claim("b")
    lab.now += 1
    assert await lab.claim("c")
    assert not await lab.claim("d")


async def test_of_many_that_take_a_void_claim_over_one_does() -> None:
    lab = Lab()
    await lab.claim("a")
    lab.now += ARRIVES_WITHIN
    outcomes = await asyncio.gather(*(lab.claim(str(number)) for number in range(50)))
    assert sorted(outcomes, key=bool) == [False] * 49 + [True]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
async def test_claim_holds_as_long_as_its_pod_lives(phase: str) -> None:
    lab = Lab()
    await lab.claim("a")
    lab.producers(phase)
    await lab.arrived()
    for _ in range(3):
        lab.now += ARRIVES_WITHIN * 10
        assert not await lab.claim("b")


@pytest.mark.parametrize(("phases", "deleting"), [((), False), (("Failed",), False), (("Running",), True)])
async def test_claim_is_void_at_once_when_its_pod_is_going_or_has_ended(
    phases: tuple[str, ...], deleting: bool
) -> None:
    """Its owner replaces it within the second."""
    lab = Lab()
    await lab.claim("a")
    await lab.arrived()
    lab.producers(*phases, deleting=deleting)
    assert await lab.claim("b")
    assert "ownerReferences" not in lab.objects.objects[LEASE]["metadata"]
    assert not await lab.claim("c")


async def test_pods_of_another_group_of_that_name_dont_hold_the_claim() -> None:
    lab = Lab()
    await lab.claim("a")
    await lab.arrived()
    lab.producers("Running", role="")
    assert await lab.claim("b")


@pytest.mark.parametrize("before", [unreachable, refusing("read"), refusing("create")])
async def test_nobody_is_told_to_wait_for_a_producer_that_nobody_could_be_asked_about(before: Any) -> None:
    lab = Lab()
    lab.objects.before = before
    with pytest.raises(Unclaimed, match=r"reached|forbidden"):
        await lab.claim("a")


async def test_somebody_elses_lease_of_that_name_is_left_alone() -> None:
    lab = Lab()
    lab.objects.put(LEASE, {"metadata": {}, "spec": {"holderIdentity": "a", "renewTime": "no time"}})
    with pytest.raises(Unclaimed, match="there is a Lease g-producer that isn't ours"):
        await lab.claim("a")
    await keep(lab.objects, Changed(Kind.POD, producer()))
    assert lab.objects.writes() == []


async def test_lease_says_who_made_it() -> None:
    lab = Lab()
    await lab.claim("a")
    metadata = lab.objects.objects[LEASE]["metadata"]
    assert metadata["annotations"] == {"fluence.flux-framework.org/created-by": "fluence-webhook"}
    assert lab.objects.objects[LEASE]["spec"]["renewTime"] == "2027-01-15T08:00:00.000000Z"


# The pod that owns its claim.


async def keep(objects: StoredObjects, *seen: Changed | Deleted | Listed) -> None:
    """Let a keeper see these and do what follows."""
    keeper = ClaimKeeper(objects)
    for one in seen:
        keeper.take(one)
    running = asyncio.create_task(keeper.run())
    for _ in range(20):
        await asyncio.sleep(0)
    running.cancel()


async def test_claim_goes_with_its_pod() -> None:
    lab = Lab()
    await lab.claim("a")
    await keep(lab.objects, Listed(Kind.POD, (producer(),)), Changed(Kind.POD, producer()))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}
    assert lab.objects.objects[LEASE]["metadata"]["ownerReferences"] == [owner]
    assert [call for call in lab.objects.writes() if call[0] == "replace"] == [("replace", LEASE)]


@pytest.mark.parametrize(
    "seen",
    [
        (Changed(Kind.POD, Pod("lab", "c", "u", {GROUP_LABEL: "g-producer"})),),
        (Changed(Kind.POD, producer(scheduler="default-scheduler")),),
        (Changed(Kind.POD, producer()), Deleted(Kind.POD, producer())),
        (Changed(Kind.POD, producer()), Listed(Kind.POD, ())),
        (Listed(Kind.JOB, ()),),
    ],
)
async def test_pods_that_claim_nothing_own_nothing(seen: tuple[Changed | Deleted | Listed, ...]) -> None:
    lab = Lab()
    await lab.claim("a")
    await keep(lab.objects, *seen)
    assert "ownerReferences" not in lab.objects.objects[LEASE]["metadata"]


async def test_producer_with_an_index_needs_no_claim() -> None:
    lab = Lab()
    await keep(lab.objects, Changed(Kind.POD, producer()))
    assert lab.objects.writes() == []


async def test_what_could_not_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fluence_extender.webhook.claim_keeper.RETRY", 0)
    lab = Lab()
    await lab.claim("a")
    refusals: list[ClusterError] = [Conflict("changed", 409), ClusterError("no answer")]

    def before(verb: str, path: str) -> None:
        if verb == "replace" and refusals:
            raise refusals.pop()

    lab.objects.before = before
    await keep(lab.objects, Changed(Kind.POD, producer()))
    assert "ownerReferences" in lab.objects.objects[LEASE]["metadata"]


# How many pods an owner wants.


@pytest.mark.parametrize(
    ("kind", "spec", "size"),
    [
        ("Job", {"parallelism": 4, "completions": 6}, 4),
        ("Job", {"parallelism": 4, "completions": 1}, 1),
        ("Job", {"parallelism": 4}, 4),
        ("Job", {}, 1),
        ("ReplicaSet", {"replicas": 3}, 3),
        ("ReplicaSet", {}, 1),
        ("ReplicaSet", {"replicas": None}, 1),
        ("StatefulSet", {"replicas": 3, "podManagementPolicy": "Parallel"}, 3),
        ("StatefulSet", {"replicas": 3, "podManagementPolicy": "OrderedReady"}, 1),
        ("StatefulSet", {"replicas": 3}, 1),
    ],
)
async def test_owner_says_how_many_pods_there_are_at_once(kind: str, spec: Json, size: int) -> None:
    lab = Lab()
    group = "batch" if kind == "Job" else "apps"
    lab.objects.put(f"/apis/{group}/v1/namespaces/lab/{kind.lower()}s/o", {"spec": spec})
    assert at_once(kind, spec) == size
    assert await lab.claims.owned("lab", kind, "o") == Owned(size)
    assert await lab.claims.owned("lab", kind, "other") is None
    lab.objects.before = unreachable
    assert await lab.claims.owned("lab", kind, "o") == Owned(size)
    lab.now += 1.0
    assert await lab.claims.owned("lab", kind, "o") is None


@pytest.mark.parametrize(
    ("kind", "spec", "first"),
    [
        ("StatefulSet", {"ordinals": {"start": 5}}, 5),
        ("StatefulSet", {"ordinals": {}}, 0),
        ("StatefulSet", {"ordinals": None}, 0),
        ("ReplicaSet", {"ordinals": {"start": 5}}, 0),
    ],
)
def test_stateful_set_says_where_it_begins_to_count(kind: str, spec: Json, first: int) -> None:
    assert wants(kind, spec).first == first
