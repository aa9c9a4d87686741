"""Of equal pods exactly one is the producer, however many requests come and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fluence_extender.cluster.errors import Conflict
from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION
from fluence_extender.webhook import producers
from fluence_extender.webhook.contract import OwnedPods, ProducerUnknown
from fluence_extender.webhook.lookups import owned_pods
from fluence_extender.webhook.producers import ARRIVES_WITHIN, PATIENCE, ProducerClaims
from fluence_extender.webhook.registration import DEVICES_TIMEOUT
from tests.unit.webhook.stored_objects import StoredObjects, lookups_on, refusing, unreachable

CLAIMS = "/api/v1/namespaces/fluence-system/configmaps/fluence-webhook-claims"
PODS = "/api/v1/namespaces/lab/pods?labelSelector=fluence.flux-framework.org%2Fgroup%3Dg-producer"
Json = dict[str, Any]


class Lab:
    """A namespace with a shared group ``g``, a webhook of two replicas, and a time of day that waiting moves on."""

    def __init__(self) -> None:
        self.objects = StoredObjects()
        self.now = 1_800_000_000.0
        self.replicas = [
            ProducerClaims(self.objects, "fluence-system", lambda: self.now, self.sleep) for _ in range(2)
        ]

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(50):
            await asyncio.sleep(0)
        self.now = max(self.now, until)

    async def produces(self, uid: str, replica: int = 0) -> bool:
        return await self.replicas[replica].is_producer("lab", "g", uid)

    def producers(self, *phases: str, deleting: bool = False, role: str = PRODUCER) -> None:
        """Set the pods that the producer's group has now."""
        metadata: Json = {"annotations": {ROLE_ANNOTATION: role}}
        if deleting:
            metadata["deletionTimestamp"] = "2027-01-01T00:00:00Z"
        pods = [{"metadata": metadata, "status": {"phase": phase}} for phase in phases]
        self.objects.put(PODS, {"items": pods})

    async def admitted(self, *uids: str) -> list[bool]:
        """Let these requests come at once, half to each replica. The producer's pod is created after its answer."""

        async def one(uid: str, replica: int) -> bool:
            produces = await self.produces(uid, replica)
            if produces:
                self.producers("Pending")
            return produces

        return await asyncio.gather(*(one(uid, number % 2) for number, uid in enumerate(uids)))


async def test_first_request_is_the_producer_and_its_pod_says_so_to_all_others() -> None:
    lab = Lab()
    assert await lab.admitted("a") == [True]
    lab.now += 1
    writes = lab.objects.writes()
    assert [await lab.produces(uid, 1) for uid in ("b", "c")] == [False, False]
    assert lab.objects.writes() == writes


async def test_request_that_the_api_server_repeats_gets_the_same_answer() -> None:
    lab = Lab()
    assert [await lab.produces("a"), await lab.produces("a", 1)] == [True, True]


async def test_of_many_requests_at_once_one_is_the_producer() -> None:
    lab = Lab()
    outcomes = await lab.admitted(*map(str, range(50)))
    assert sorted(outcomes, key=bool) == [False] * 49 + [True]


async def test_other_groups_have_producers_of_their_own() -> None:
    lab = Lab()
    assert await lab.produces("a")
    assert await lab.replicas[0].is_producer("lab", "h", "b")
    assert await lab.replicas[1].is_producer("elsewhere", "g", "c")


async def test_claim_without_a_pod_is_taken_over_by_one_of_many_requests() -> None:
    lab = Lab()
    await lab.produces("refused")
    before = lab.now
    outcomes = await lab.admitted(*map(str, range(20)))
    assert sorted(outcomes, key=bool) == [False] * 19 + [True]
    assert lab.now - before >= ARRIVES_WITHIN


async def test_pod_that_comes_at_the_last_moment_counts() -> None:
    lab = Lab()
    await lab.produces("slow")
    lab.now += ARRIVES_WITHIN

    def before(verb: str, path: str) -> None:
        if verb == "replace":
            lab.producers("Pending")

    lab.objects.before = before
    assert not await lab.produces("b")


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
async def test_producer_counts_as_long_as_its_pod_lives(phase: str) -> None:
    lab = Lab()
    lab.producers(phase)
    for _ in range(3):
        lab.now += ARRIVES_WITHIN * 10
        assert not await lab.produces("b")


@pytest.mark.parametrize(("phases", "deleting"), [((), False), (("Failed",), False), (("Running",), True)])
async def test_terminating_or_ended_producer_is_replaced(phases: tuple[str, ...], deleting: bool) -> None:
    lab = Lab()
    await lab.admitted("a")
    lab.now += ARRIVES_WITHIN
    lab.producers(*phases, deleting=deleting)
    before = lab.now
    assert await lab.produces("b")
    assert lab.now == before, "it needn't wait"
    assert await lab.produces("b", 1)


async def test_pods_of_another_group_of_that_name_are_no_producers() -> None:
    lab = Lab()
    lab.producers("Running", role="")
    assert await lab.produces("b")


@pytest.mark.parametrize("before", [unreachable, refusing("read"), refusing("create")])
async def test_producer_is_unknown_if_the_api_server_can_not_be_asked(before: Any) -> None:
    lab = Lab()
    lab.objects.before = before
    with pytest.raises(ProducerUnknown, match=r"reached|forbidden"):
        await lab.produces("a")


async def test_claims_say_who_made_them_and_what_can_not_be_read_is_dropped() -> None:
    lab = Lab()
    lab.objects.put(CLAIMS, {"metadata": {}, "data": {"lab.g": "nonsense", "lab.h": "a b c"}})
    await lab.produces("a")
    assert lab.objects.objects[CLAIMS]["data"] == {"lab.g": "a 1800000000.000"}
    del lab.objects.objects[CLAIMS]
    await lab.produces("a")
    annotations = lab.objects.objects[CLAIMS]["metadata"]["annotations"]
    assert annotations == {"fluence.flux-framework.org/created-by": "fluence-webhook"}


# Requests that didn't come from the API server.


async def test_forged_requests_write_nothing_but_a_fixed_number_of_claims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()
    monkeypatch.setattr(producers, "MOST_CLAIMS", 20)
    for number in range(100):
        lab.now += 0.001
        await lab.replicas[number % 2].is_producer(f"ns-{number}", "g", "x" * 64)
    assert {path for _, path in lab.objects.writes()} == {CLAIMS}
    assert len(lab.objects.objects[CLAIMS]["data"]) == 20
    lab.now += ARRIVES_WITHIN + 1
    await lab.produces("a")
    assert lab.objects.objects[CLAIMS]["data"].keys() == {"lab.g"}


async def test_forged_claim_does_not_keep_a_group_from_its_producer() -> None:
    lab = Lab()
    await lab.produces("forged")
    assert await lab.admitted("genuine") == [True]
    assert await lab.admitted("other") == [False]


async def test_group_gets_its_producer_however_often_its_claim_is_forged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()

    async def forging(seconds: float) -> None:
        lab.now += seconds
        lab.objects.put(CLAIMS, {"metadata": {}, "data": {"lab.g": f"forged {lab.now:.3f}"}})

    monkeypatch.setattr(lab.replicas[0], "_sleep", forging)
    await lab.produces("forged", 1)
    before = lab.now
    with pytest.raises(ProducerUnknown, match="don't come"):
        await lab.produces("genuine")
    assert lab.now - before < PATIENCE + 1 < DEVICES_TIMEOUT


async def test_claims_that_others_write_all_the_time_are_tried_again() -> None:
    lab, refusals = Lab(), [Conflict("changed", 409)] * 7

    def before(verb: str, path: str) -> None:
        if verb == "create" and refusals:
            raise refusals.pop()

    lab.objects.before = before
    assert await lab.produces("a")


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
    lookups = lookups_on(lab.objects, lambda: lab.now)
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


@pytest.mark.parametrize("name", ["", "../../../v1/secrets", "o?limit=1", "O", "a/b", "x" * 254])
async def test_name_that_no_owner_can_have_reaches_no_path(name: str) -> None:
    lab = Lab()
    assert await lookups_on(lab.objects, lambda: lab.now).owned("lab", "Job", name) is None
    assert lab.objects.calls == []
