"""PodGroups come to their wanted state though writes fail, come too late, or were made by another replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fluence_extender.cluster import reconciler
from fluence_extender.cluster.bodies import pod_group_manifest
from fluence_extender.cluster.errors import ClusterError, Conflict, Denied, Gone, Invalid
from fluence_extender.cluster.port import WORKLOADS, Changed, Deleted, Kind, Listed
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.webhook import podgroups
from fluence_extender.webhook.podgroups import Group, Name, PodGroupReconciler
from tests.unit.webhook.test_podgroups import member, native


class Writes:
    """Records writes; ``refuse`` is called before each write and may raise its answer."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.accepted = asyncio.Event()
        self.refuse: Callable[[str], None] = lambda what: None

    async def make(
        self, kind: type[Group], name: Name, size: int, owner: Owner | None, priority_class: str
    ) -> None:
        self._write(f"make {name[1]} of {size}")

    async def resize(self, group: Group, size: int) -> None:
        self._write(f"resize {group.name} to {size}")

    async def remove(self, group: Group) -> None:
        self._write(f"remove {group.name}")

    def _write(self, what: str) -> None:
        self.refuse(what)
        self.written.append(what)
        self.accepted.set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retries and removals wait for milliseconds only."""
    monkeypatch.setattr(reconciler, "FIRST_RETRY", 0.001)
    monkeypatch.setattr(podgroups, "LINGER", 0.01)


async def reconciled(writes: Writes, *seen: Changed | Deleted) -> list[str]:
    """Return what is written once a write was accepted."""
    groups = PodGroupReconciler(writes)
    running = asyncio.create_task(groups.run())
    kinds: tuple[Kind, ...] = (Pod, *WORKLOADS)
    for kind in kinds:
        groups.observe(Listed(kind, ()))
    for one in seen:
        groups.observe(one)
    async with asyncio.timeout(30):
        await writes.accepted.wait()
    running.cancel()
    return writes.written


def failing(times: int, error: ClusterError) -> Callable[[str], None]:
    left = [error] * times

    def refuse(what: str) -> None:
        if left:
            raise left.pop()

    return refuse


POD = member("a", size=2)


@pytest.mark.usefixtures("quick")
async def test_group_is_made_resized_and_removed() -> None:
    changes = [Changed(POD), Changed(native(3))]
    assert await reconciled(Writes(), changes[0]) == ["make g of 2"]
    assert await reconciled(Writes(), *changes) == ["resize g to 2"]
    gone = Deleted(POD)
    assert await reconciled(Writes(), *changes, gone) == ["remove g"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("error", [ClusterError("no answer"), Denied("may not", 403)])
@pytest.mark.parametrize("times", [1, 5])
async def test_failed_write_is_tried_again(error: ClusterError, times: int) -> None:
    writes = Writes()
    writes.refuse = failing(times, error)
    assert await reconciled(writes, Changed(POD)) == ["make g of 2"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("error", [Conflict("exists", 409), Gone("no such namespace", 404)])
async def test_write_that_another_replica_made_first_holds_up_no_other_group(error: ClusterError) -> None:
    writes = Writes()
    writes.refuse = failing(1, error)
    other = member("b", "h", size=1)
    assert await reconciled(writes, Changed(POD), Changed(other)) == ["make h of 1"]


@pytest.mark.usefixtures("quick")
async def test_group_that_changed_before_its_removal_is_looked_at_again() -> None:
    writes = Writes()
    writes.refuse = failing(1, Conflict("changed", 409))
    assert await reconciled(writes, Changed(native(3))) == ["remove g"]


@pytest.mark.usefixtures("quick")
async def test_size_that_can_not_be_changed_is_requested_once() -> None:
    writes = Writes()
    requested: list[str] = []

    def refuse(what: str) -> None:
        requested.append(what)
        if what.startswith("resize"):
            raise Invalid("immutable", 422)

    writes.refuse = refuse
    seen = [
        Changed(POD),
        Changed(native(3)),
        Changed(member("b", size=2)),
    ]
    await reconciled(writes, *seen, Changed(member("c", "h", size=1)))
    assert requested == ["resize g to 2", "make h of 1"]


# The manifest that is sent to the API server.


def test_native_group_carries_our_mark_and_its_owner() -> None:
    owner = Owner("Job", "j", "u", "batch/v1")
    assert pod_group_manifest(
        "/apis/scheduling.k8s.io/v1beta1/podgroups", PodGroup, ("ns", "g"), 3, owner
    ) == {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "ns",
            "labels": {"app": "fluence", "fluence.flux-framework.org/group": "g"},
            "annotations": {"fluence.flux-framework.org/created-by": "fluence-webhook"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}],
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }


def test_group_of_the_coscheduling_plugin_has_its_members_number() -> None:
    path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
    body = pod_group_manifest(path, CoschedulingGroup, ("ns", "g"), 3, None)
    assert body["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert body["spec"] == {"minMember": 3}
    assert "ownerReferences" not in body["metadata"]
