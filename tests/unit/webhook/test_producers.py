"""Of equal pods exactly one is the producer, however many requests come and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fluence_extender.cluster.errors import ClusterError, Conflict
from fluence_extender.cluster.port import Changed, Deleted, Kind, Listed
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import OwnedPods, ProducerUnknown
from fluence_extender.webhook.lookups import ApiLookups, owned_pods
from fluence_extender.webhook.producers import ARRIVES_WITHIN, ProducerRecordReconciler, ProducerRecords
from tests.unit.webhook.stored_objects import StoredObjects, refusing, unreachable

LEASE = "/apis/coordination.k8s.io/v1/namespaces/lab/leases/g-producer"
PODS = "/api/v1/namespaces/lab/pods?labelSelector=fluence.flux-framework.org%2Fgroup%3Dg-producer"
Json = dict[str, Any]


class Lab:
    """A namespace with a shared group ``g``, and a time of day."""

    def __init__(self) -> None:
        self.objects = StoredObjects()
        self.now = 1_800_000_000.0
        self.records = ProducerRecords(self.objects, lambda: self.now)

    async def produces(self, uid: str) -> bool:
        return await self.records.is_producer("lab", "g", uid)

    def producers(self, *phases: str, deleting: bool = False, role: str = PRODUCER) -> None:
        """Set the pods that the producer's group has now."""
        metadata: Json = {"annotations": {ROLE_ANNOTATION: role}}
        if deleting:
            metadata["deletionTimestamp"] = "2027-01-01T00:00:00Z"
        pods = [{"metadata": metadata, "status": {"phase": phase}} for phase in phases]
        self.objects.put(PODS, {"items": pods})

    async def pod_exists(self) -> None:
        """Let the recorded pod come into being, and own the record."""
        await reconciled(self.objects, Changed(Kind.POD, producer()))
        assert "ownerReferences" in self.objects.objects[LEASE]["metadata"]


def producer(name: str = "p", uid: str = "uid-p", **fields: Any) -> Pod:
    return Pod("lab", name, uid, {GROUP_LABEL: "g-producer"}, {ROLE_ANNOTATION: PRODUCER}, **fields)


async def test_first_request_is_the_producer() -> None:
    lab = Lab()
    assert [await lab.produces(uid) for uid in ("a", "b", "c", "a")] == [True, False, False, True]


async def test_of_many_requests_at_once_one_is_the_producer() -> None:
    lab = Lab()
    outcomes = await asyncio.gather(*(lab.produces(str(number)) for number in range(50)))
    assert sorted(outcomes, key=bool) == [False] * 49 + [True]


async def test_record_that_goes_with_its_pod_while_it_is_taken_over_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()
    assert await lab.produces("a")
    await lab.pod_exists()
    lab.producers()

    async def gone(path: str, body: Json) -> Json:
        del lab.objects.objects[LEASE]
        raise Conflict("Precondition failed: UID in precondition")

    monkeypatch.setattr(lab.objects, "replace", gone)
    assert [await lab.produces(uid) for uid in ("b", "c")] == [True, False]


async def test_other_groups_have_producers_of_their_own() -> None:
    lab = Lab()
    assert await lab.produces("a")
    assert await lab.records.is_producer("lab", "h", "b")
    assert await lab.records.is_producer("elsewhere", "g", "c")


async def test_record_without_a_pod_is_void_after_seconds() -> None:
    lab = Lab()
    assert await lab.produces("a")
    lab.now += ARRIVES_WITHIN - 1
    assert not await lab.produces("b")
    lab.now += 1
    assert await lab.produces("c")
    assert not await lab.produces("d")


async def test_void_record_is_taken_over_by_one_of_many_requests() -> None:
    lab = Lab()
    await lab.produces("a")
    lab.now += ARRIVES_WITHIN
    outcomes = await asyncio.gather(*(lab.produces(str(number)) for number in range(50)))
    assert sorted(outcomes, key=bool) == [False] * 49 + [True]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
async def test_record_counts_as_long_as_its_pod_lives(phase: str) -> None:
    lab = Lab()
    await lab.produces("a")
    lab.producers(phase)
    await lab.pod_exists()
    for _ in range(3):
        lab.now += ARRIVES_WITHIN * 10
        assert not await lab.produces("b")


@pytest.mark.parametrize(("phases", "deleting"), [((), False), (("Failed",), False), (("Running",), True)])
async def test_record_of_a_terminating_or_ended_pod_is_void_at_once(
    phases: tuple[str, ...], deleting: bool
) -> None:
    """Its owner replaces it within the second."""
    lab = Lab()
    await lab.produces("a")
    await lab.pod_exists()
    lab.producers(*phases, deleting=deleting)
    assert await lab.produces("b")
    assert "ownerReferences" not in lab.objects.objects[LEASE]["metadata"]
    assert not await lab.produces("c")


async def test_pods_of_another_group_of_that_name_do_not_keep_the_record() -> None:
    lab = Lab()
    await lab.produces("a")
    await lab.pod_exists()
    lab.producers("Running", role="")
    assert await lab.produces("b")


@pytest.mark.parametrize("before", [unreachable, refusing("read"), refusing("create")])
async def test_producer_is_unknown_if_the_api_server_can_not_be_asked(before: Any) -> None:
    lab = Lab()
    lab.objects.before = before
    with pytest.raises(ProducerUnknown, match=r"reached|forbidden"):
        await lab.produces("a")


async def test_lease_of_another_program_is_left_alone() -> None:
    lab = Lab()
    lab.objects.put(LEASE, {"metadata": {}, "spec": {"holderIdentity": "a", "renewTime": "no time"}})
    with pytest.raises(ProducerUnknown, match="there is a Lease g-producer that isn't ours"):
        await lab.produces("a")
    await reconciled(lab.objects, Changed(Kind.POD, producer()))
    assert lab.objects.writes() == []


async def test_lease_says_who_made_it() -> None:
    lab = Lab()
    await lab.produces("a")
    metadata = lab.objects.objects[LEASE]["metadata"]
    assert metadata["annotations"] == {"fluence.flux-framework.org/created-by": "fluence-webhook"}
    assert lab.objects.objects[LEASE]["spec"]["renewTime"] == "2027-01-15T08:00:00.000000Z"


# The pod owns its record.


async def reconciled(objects: StoredObjects, *seen: Changed | Deleted | Listed) -> None:
    """Do what follows from these observations."""
    records = ProducerRecordReconciler(objects)
    for one in seen:
        records.observe(one)
    await records.round()


async def test_pod_owns_its_record() -> None:
    lab = Lab()
    await lab.produces("a")
    await reconciled(lab.objects, Listed(Kind.POD, (producer(),)), Changed(Kind.POD, producer()))
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
async def test_other_pods_own_no_record(seen: tuple[Changed | Deleted | Listed, ...]) -> None:
    lab = Lab()
    await lab.produces("a")
    await reconciled(lab.objects, *seen)
    assert "ownerReferences" not in lab.objects.objects[LEASE]["metadata"]


async def test_producer_with_an_index_needs_no_record() -> None:
    lab = Lab()
    await reconciled(lab.objects, Changed(Kind.POD, producer()))
    assert lab.objects.writes() == []


async def test_failed_write_is_repeated() -> None:
    lab = Lab()
    await lab.produces("a")
    refusals: list[ClusterError] = [Conflict("changed", 409), ClusterError("no answer")]

    def before(verb: str, path: str) -> None:
        if verb == "replace" and refusals:
            raise refusals.pop()

    lab.objects.before = before
    records = ProducerRecordReconciler(lab.objects)
    records.observe(Changed(Kind.POD, producer()))
    for _ in range(3):
        await records.round()
        records.enqueue(("uid-p",))
    assert "ownerReferences" in lab.objects.objects[LEASE]["metadata"]


# The pods that an owner wants.


@pytest.mark.parametrize(
    ("kind", "spec", "size"),
    [
        ("Job", {"parallelism": 4, "completions": 6}, 4),
        ("Job", {"parallelism": 4, "completions": 1}, 1),
        ("Job", {"parallelism": 4}, 4),
        ("Job", {}, 1),
        ("StatefulSet", {"replicas": 3}, 1),
    ],
)
async def test_job_says_how_many_pods_there_are_at_once(kind: str, spec: Json, size: int) -> None:
    lab = Lab()
    lookups = ApiLookups(lab.objects, lambda: lab.now, lambda: lab.now)
    group = "batch" if kind == "Job" else "apps"
    lab.objects.put(f"/apis/{group}/v1/namespaces/lab/{kind.lower()}s/o", {"spec": spec})
    assert owned_pods(kind, spec).at_once == size
    assert await lookups.owned("lab", kind, "o") == OwnedPods(size)
    assert await lookups.owned("lab", kind, "other") is None
    lab.objects.before = unreachable
    assert await lookups.owned("lab", kind, "o") == OwnedPods(size)
    lab.now += 1.0
    assert await lookups.owned("lab", kind, "o") is None


@pytest.mark.parametrize(
    ("kind", "spec", "first"),
    [
        ("StatefulSet", {"ordinals": {"start": 5}}, 5),
        ("StatefulSet", {"ordinals": {}}, 0),
        ("StatefulSet", {"ordinals": None}, 0),
        ("Job", {"ordinals": {"start": 5}}, 0),
    ],
)
def test_stateful_set_says_which_index_is_first(kind: str, spec: Json, first: int) -> None:
    assert owned_pods(kind, spec).first == first
