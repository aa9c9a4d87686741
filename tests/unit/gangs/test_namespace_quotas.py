"""Pods that a ResourceQuota will refuse hold no places before they exist, and ask for no nodes."""

from __future__ import annotations

from fluence_extender.gangs.lifecycle.growth import ASKED
from fluence_extender.kinds.job import Job
from fluence_extender.model.names import GATE
from fluence_extender.model.pod import QuotaCharge
from fluence_extender.model.resources import Resources
from fluence_extender.objects.resource_quota import ResourceQuota
from tests.core.invariants import check
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld
from tests.unit.gangs.test_growth import GROWING, asking, events, join

POD = QuotaCharge(Resources({"pods": 1, "requests.cpu": 1000}))


def allow(w: World, pods: int, namespace: str = "default") -> None:
    """Let the namespace's quota have room for so many more pods."""
    w.cluster.put(ResourceQuota(namespace, "team", {"pods": pods}))


def reason(w: World, name: str) -> str:
    found = w.gang(name).reason
    return "" if found is None else f"{found.code}: {found.text}"


def held_places(w: World) -> int:
    return len(w.controller.ledger.holdings)


def suspended(w: World, *jobs: Job) -> list[bool]:
    return [w.cluster.job(job).suspended for job in jobs]


def test_job_waits_until_the_quota_has_room_for_all_its_pods(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    allow(w, 3)
    job = w.jobs.submit("a", 4, charge=POD)
    w.advance(GROWING.uncreated + 60)
    assert suspended(w, job) == [True]
    assert held_places(w) == 0
    assert reason(w, "a") == "OverQuota: over quota: ResourceQuota team has no room for all its pods (pods)"
    allow(w, 4)
    w.advance(2)
    assert w.jobs.nodes(job) == ["n0"] * 4
    check(w)


def test_smaller_job_of_the_namespace_starts_meanwhile(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    allow(w, 3)
    w.jobs.submit("large", 4, charge=POD)
    small = w.jobs.submit("small", 3, charge=POD)
    w.advance(3)
    assert w.jobs.nodes(small) == ["n0"] * 3
    check(w)


def test_quota_of_another_namespace_and_pods_that_it_does_not_count_change_nothing(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    allow(w, 0, "other")
    w.cluster.put(ResourceQuota("default", "cpus", {"requests.storage": 0}))
    job = w.jobs.submit("a", 4, charge=POD)
    w.advance(3)
    assert len(w.jobs.nodes(job)) == 4
    check(w)


def test_jobs_whose_pods_do_not_exist_yet_count_for_each_other(world: MakeWorld) -> None:
    w = world(node("n0", cpu=64_000))
    allow(w, 5)
    w.jobs.quota = 0
    jobs = [w.jobs.submit(name, 2, charge=POD) for name in "abc"]
    w.advance(2)
    assert suspended(w, *jobs) == [False, False, True]
    assert held_places(w) == 4
    # The pods of the first come, and the API server counts them.
    allow(w, 3)
    w.jobs.quota = 2
    w.advance(2)
    assert suspended(w, *jobs) == [False, False, True]
    w.jobs.quota = 2
    w.advance(2)
    assert suspended(w, *jobs) == [False, False, False]
    check(w)


def test_job_that_is_deleted_before_its_pods_exist_makes_room(world: MakeWorld) -> None:
    w = world(node("n0", cpu=64_000))
    allow(w, 2)
    w.jobs.quota = 0
    first, second = (w.jobs.submit(name, 2, charge=POD) for name in "ab")
    w.advance(5)
    assert suspended(w, first, second) == [False, True]
    w.cluster.remove(w.cluster.job(first))
    w.advance(5)
    assert suspended(w, second) == [False]
    w.jobs.quota = None
    w.advance(3)
    check(w)


def test_restart_counts_the_pods_of_resumed_jobs_again(world: MakeWorld) -> None:
    w = world(node("n0", cpu=64_000))
    allow(w, 3)
    w.jobs.quota = 0
    w.jobs.submit("a", 2, charge=POD)
    w.advance(3)
    second = w.jobs.submit("b", 2, charge=POD)
    w.restart()
    w.advance(5)
    assert suspended(w, second) == [True]
    w.cluster.remove(ResourceQuota("default", "team", {}))
    w.advance(5)
    assert suspended(w, second) == [False]
    w.jobs.quota = None
    w.advance(3)
    check(w)


def test_quotas_are_forgotten_that_a_new_list_lacks(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    allow(w, 1)
    job = w.jobs.submit("a", 4, charge=POD)
    w.advance(3)
    w.cluster._objects[ResourceQuota].clear()
    w.cluster.relist(ResourceQuota)
    w.advance(3)
    assert suspended(w, job) == [False]
    check(w)


def test_gang_asks_for_nodes_only_for_pods_that_the_quota_allows(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), limits=GROWING)
    allow(w, 1)
    job = w.jobs.submit("a", 2, charge=POD)
    w.advance(20)
    assert suspended(w, job) == [True]
    assert not events(w, ASKED)
    allow(w, 2)
    w.advance(20)
    assert suspended(w, job) == [False]
    assert asking(w, *w.jobs.pods(job)) == [True] * 2
    check(w)


def test_gang_gets_the_nodes_for_which_it_has_asked(world: MakeWorld) -> None:
    w = world(node("n0", cpu=1000), limits=GROWING)
    allow(w, 2)
    job = w.jobs.submit("a", 2, charge=POD)
    w.advance(20)
    assert asking(w, *w.jobs.pods(job)) == [True] * 2
    # The API server counts pods that exist.
    allow(w, 0)
    join(w, "n1", cpu=4000)
    w.advance(3)
    assert len(w.jobs.nodes(job)) == 2
    check(w)


def test_pods_that_exist_are_counted_by_the_api_server_alone(world: MakeWorld) -> None:
    w = world(node("n0", cpu=8000))
    allow(w, 0)
    one = w.pod("p", gates=(GATE,), requests=asks(1000, 1))
    w.change(one, charge=POD)
    w.advance(2)
    assert w.nodes_of(one) == ["n0"]
