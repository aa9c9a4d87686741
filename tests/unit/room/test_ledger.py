"""The ledger: exact accounts, and foreign pods that take what was planned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.search import Shape, place
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.ledger import Ledger, NoCapacity
from tests.core.values import asks, node, pod
from tests.unit.room.conftest import MakeLedger

SIMULATOR = "resources: [{type: simulator, name: a, count: 2}]"


def take(ledger: Ledger, one: Pod, where: str = "n0", gang: object = "g") -> None:
    ledger.take_all([(one, Assignment(one.uid, where))], gang)


def accepts(ledger: Ledger, requests: Resources, where: str = "n0") -> bool:
    """Return whether a pod with these requests has room on the node now."""
    return place([Shape(requests, 1, ledger.room().in_order({where}))], ledger.free.now()) is not None


def other(
    cpu: int, gib: int = 0, where: str = "n0", uid: str | None = None, host_ports: tuple[HostPort, ...] = ()
) -> Pod:
    return pod("other", cpu, gib, uid, scheduler="default-scheduler", node=where, host_ports=host_ports)


def test_allocation_and_release_leave_the_account_as_it_was(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    one = pod(cpu=4000, gib=16)
    take(ledger, one)
    assert ledger.holds(one.uid, "n0")
    assert not accepts(ledger, asks(1000))
    ledger.release(one.uid)
    assert not ledger.holds(one.uid, "n0")
    assert ledger.accounts["n0"].free == node("n0").allocatable
    assert accepts(ledger, asks(4000, 16))


def test_end_of_a_pod_frees_exactly_its_share(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    first, second = pod("a", 1000), pod("b", 3000)
    take(ledger, first)
    take(ledger, second)
    ledger.release(first.uid)
    assert accepts(ledger, asks(1000))
    assert not accepts(ledger, asks(2000))


@pytest.mark.parametrize("last", ["n0", "n1", "gone"])
def test_gang_is_allocated_whole_or_not_at_all(make: MakeLedger, last: str) -> None:
    ledger = make(node("n0"), node("n1"))
    earlier = pod("earlier", 1000)
    take(ledger, earlier, "n1")
    members = [pod(name, 2000) for name in "abc"]
    places = [
        (one, Assignment(one.uid, where)) for one, where in zip(members, ("n0", "n0", last), strict=True)
    ]
    if last == "n1":
        ledger.take_all(places, "g")
        assert all(ledger.holds(one.uid, where.node) for one, where in places)
        assert not accepts(ledger, asks(1000))
        return
    with pytest.raises(NoCapacity, match=last):
        ledger.take_all(places, "g")
    assert not any(ledger.holdings.get(one.uid) for one in members)
    assert accepts(ledger, asks(4000))
    assert ledger.holdings.keys() == {earlier.uid}


def test_release_of_an_unknown_pod_changes_nothing(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    version = ledger.version
    ledger.release("nobody")
    assert ledger.version == version


def test_place_without_capacity_is_refused_and_nothing_is_allocated(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    take(ledger, pod("a", 3000))
    with pytest.raises(NoCapacity, match="n0"):
        take(ledger, pod("b", 2000))
    assert len(ledger.holdings) == 1


def test_place_on_an_unknown_node_is_refused(make: MakeLedger) -> None:
    with pytest.raises(NoCapacity):
        take(make(node("n0")), pod(), "n7")


def test_pod_without_requests_holds_a_slot_and_nothing_else(make: MakeLedger) -> None:
    ledger = make(node("n0", pods=1))
    idle = pod(requests=Resources({"pods": 1}))
    take(ledger, idle)
    assert ledger.accounts["n0"].free["pods"] == 0
    assert accepts(ledger, Resources({"cpu": 4000}))
    assert not accepts(ledger, asks(1000))


def test_foreign_requests_are_counted_exactly(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    for number in range(6):
        ledger.put_foreign(other(150, uid=f"daemon{number}"))
    assert accepts(ledger, asks(3100))
    assert not accepts(ledger, asks(3101))


def test_foreign_pods_count_until_they_are_gone_and_as_they_are_resized(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    daemon = other(1000, host_ports=(HostPort(80),))
    ledger.put_foreign(daemon)
    version = ledger.version
    ledger.put_foreign(daemon)
    assert ledger.accounts["n0"].free["cpu"] == 3000
    assert ledger.version == version
    ledger.put_foreign(other(3000, uid=daemon.uid))
    assert not accepts(ledger, asks(2000))
    ledger.drop_foreign(daemon.uid)
    assert ledger.version > version
    assert ledger.accounts["n0"].ports == ()
    assert accepts(ledger, asks(4000))


def test_foreign_pod_on_planned_capacity_overcommits_the_node_until_a_pod_leaves(make: MakeLedger) -> None:
    ledger = make(node("n0"), node("n1"))
    planned = pod(cpu=3000)
    take(ledger, planned)
    ledger.put_foreign(other(2000))
    assert ledger.overcommitted == {"n0"}
    assert ledger.room().open_to("anybody").closed == {"n0"}
    ledger.release(planned.uid)
    assert ledger.overcommitted == set()
    assert accepts(ledger, asks(2000))
    assert not accepts(ledger, asks(3000))


def test_node_takes_nothing_new_until_no_more_is_used_than_it_has(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    held = [pod(f"p{number}", 1000) for number in range(4)]
    for one in held:
        take(ledger, one)
    ledger.put_foreign(other(2000))
    ledger.release(held[0].uid)
    assert ledger.overcommitted == {"n0"}
    ledger.release(held[1].uid)
    assert ledger.overcommitted == set()
    assert not accepts(ledger, asks(1000))
    ledger.release(held[2].uid)
    assert accepts(ledger, asks(1000))


def test_bound_pod_is_counted_without_capacity(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    planned = pod("planned", 4000)
    take(ledger, planned)
    bound = pod("bound", 2000, node="n0")
    ledger.adopt(bound, "g", Firmness.BOUND)
    assert ledger.accounts["n0"].free["cpu"] == -2000
    assert ledger.overcommitted == {"n0"}
    ledger.release(planned.uid)
    assert ledger.overcommitted == set()
    assert not accepts(ledger, asks(3000))
    assert accepts(ledger, asks(2000))


def test_adopting_again_moves_the_allocation(make: MakeLedger) -> None:
    ledger = make(node("n0"), node("n1"))
    one = pod(cpu=4000)
    take(ledger, one)
    ledger.adopt(pod("p", 4000, uid=one.uid, node="n1"), "g", Firmness.BOUND)
    assert ledger.holds(one.uid, "n1")
    assert accepts(ledger, asks(4000), "n0")
    assert not accepts(ledger, asks(1000), "n1")


def test_pod_bound_to_an_unknown_node_is_counted_when_the_node_joins(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    ledger.adopt(pod(cpu=3000, node="n1"), "g", Firmness.BOUND)
    ledger.put_foreign(other(1000, where="n1"))
    ledger.put_node(node("n1"))
    assert ledger.accounts["n1"].free["cpu"] == 0
    assert not accepts(ledger, asks(1000), "n1")


def test_steered_pod_gets_its_nominated_node_again(make: MakeLedger) -> None:
    ledger = make(node("n0"), node("n1"))
    steered = pod(cpu=3000, nominated="n1")
    assert ledger.restore(steered, "g") == Assignment(steered.uid, "n1")
    assert ledger.holdings[steered.uid].firmness is Firmness.COMMITTED
    assert not accepts(ledger, asks(2000), "n1")


@pytest.mark.parametrize(
    "steered",
    [
        pod(cpu=9000, nominated="n0"),
        pod(nominated="n9"),
        pod(nominated="n0", host_ports=(HostPort(80),)),
        pod(nominated="n0", devices={"laser": 1}),
    ],
)
def test_steered_pod_that_does_not_fit_any_more_is_not_resumed(make: MakeLedger, steered: Pod) -> None:
    ledger = make(node("n0"))
    ledger.put_foreign(other(100, host_ports=(HostPort(80),)))
    assert ledger.restore(steered, "g") is None
    assert not ledger.holdings


def test_strength_only_grows(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    one = pod()
    take(ledger, one)
    ledger.raise_firmness(one.uid, Firmness.BOUND)
    ledger.raise_firmness(one.uid, Firmness.COMMITTED)
    ledger.raise_firmness("nobody", Firmness.BOUND)
    assert ledger.holdings[one.uid].firmness is Firmness.BOUND


def test_node_joins_is_resized_and_leaves_with_allocations(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    ledger.put_node(node("n1", 2000))
    one = pod(cpu=2000)
    take(ledger, one, "n1")
    ledger.put_node(node("n1", 4000))
    assert accepts(ledger, asks(2000), "n1")
    assert not accepts(ledger, asks(3000), "n1")
    ledger.put_node(node("n1", 1000))
    assert ledger.overcommitted == {"n1"}
    ledger.drop_node("n1")
    assert ledger.holds(one.uid, "n1")
    assert ledger.accounts["n1"].free["cpu"] == -2000
    ledger.release(one.uid)
    assert set(ledger.accounts) == {"n0"}
    assert ledger.overcommitted == set()


def test_node_that_returns_has_its_allocations_counted_again(make: MakeLedger) -> None:
    ledger = make(node("n0"), node("n1"))
    take(ledger, pod(cpu=3000), "n1")
    ledger.drop_node("n1")
    ledger.put_node(node("n1"))
    assert accepts(ledger, asks(1000), "n1")
    assert not accepts(ledger, asks(2000), "n1")


def test_last_node_may_leave_and_another_join(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    ledger.drop_node("n0")
    assert ledger.room().in_order(["n0"]) == ()
    ledger.put_node(node("n5"))
    assert accepts(ledger, asks(4000), "n5")


def test_node_that_shrinks_below_what_it_gives_is_overcommitted(make: MakeLedger) -> None:
    ledger = make(node("n0", 8000))
    weak, strong = pod("weak", 4000), pod("strong", 4000, node="n0")
    take(ledger, weak)
    ledger.adopt(strong, "g", Firmness.BOUND)
    ledger.put_node(node("n0", 4000))
    assert ledger.overcommitted == {"n0"}
    ledger.release(weak.uid)
    assert not ledger.overcommitted
    assert not accepts(ledger, asks(1))


def test_node_with_absurd_allocatable_offers_nothing(make: MakeLedger) -> None:
    ledger = make(Node("n0"), Node("n1", allocatable=Resources({"cpu": -5, "memory": 0})))
    assert not accepts(ledger, asks(1), "n0")
    assert not accepts(ledger, asks(1), "n1")
    ledger.adopt(pod(node="n0"), "g", Firmness.BOUND)
    assert ledger.overcommitted >= {"n0"}


def test_version_grows_when_a_pod_might_fit_now(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    one = pod()
    versions = [ledger.version]
    take(ledger, one)
    assert ledger.version == versions[-1]
    changes: list[Callable[[], object]] = [
        lambda: ledger.release(one.uid),
        lambda: ledger.put_node(node("n1")),
        lambda: ledger.drop_node("n1"),
        lambda: ledger.load([node("n0")], parse_resources(SIMULATOR)),
    ]
    for change in changes:
        change()
        versions.append(ledger.version)
    assert versions == sorted(set(versions))


def test_memory_is_counted_to_the_byte(make: MakeLedger) -> None:
    ledger = make(Node("n0", allocatable=Resources({"cpu": 1000, "memory": 10 * 1024 + 1023, "pods": 9})))
    assert accepts(ledger, Resources({"memory": 10 * 1024 + 1023}))
    assert not accepts(ledger, Resources({"memory": 10 * 1024 + 1024}))


TIB = 2**40


def test_node_beyond_four_tebibytes_is_used_to_its_last_byte(make: MakeLedger) -> None:
    ledger = make(node("n0", gib=6 * 1024))
    first, second = pod("a", 1, gib=4 * 1024), pod("b", 1, gib=2 * 1024)
    take(ledger, first)
    take(ledger, second)
    assert ledger.accounts["n0"].free["memory"] == 0
    assert not accepts(ledger, Resources({"memory": 1}))
    ledger.release(first.uid)
    assert accepts(ledger, Resources({"memory": 4 * TIB}))


def test_nodes_that_offered_nothing_at_the_start_are_used_once_they_do(make: MakeLedger) -> None:
    ledger = make(Node("n0"), Node("n1"))
    ledger.put_node(Node("n2"))
    ledger.put_node(node("n2", 1000))
    assert accepts(ledger, asks(1000, 16), "n2")


def test_node_with_absurd_amounts_does_not_affect_other_nodes(make: MakeLedger) -> None:
    most = Resources({"cpu": 2**63 - 1, "memory": 2**63 - 1, "pods": 10, "nvidia.com/gpu": 2**63 - 1})
    ledger = make(node("n0"), Node("mad", allocatable=most))
    assert accepts(ledger, asks(4000, 16))
    assert accepts(ledger, asks(64000, 1024), "mad")
    assert not accepts(ledger, asks(5000))


@pytest.mark.parametrize("cpu", [3000, 1000, 5000, 2000])
def test_resized_pod_is_counted_again_on_its_node(make: MakeLedger, cpu: int) -> None:
    ledger = make(node("n0"))
    before = pod("a", 2000, node="n0")
    ledger.adopt(before, "g", Firmness.BOUND)
    after = dataclasses.replace(before, requests=asks(cpu, 1))
    ledger.amend(after)
    assert ledger.accounts["n0"].free["cpu"] == 4000 - cpu
    assert ("n0" in ledger.overcommitted) == (cpu > 4000)
    assert ledger.holdings[before.uid].requests == after.requests
    if cpu < 4000:
        assert accepts(ledger, asks(4000 - cpu))
        assert not accepts(ledger, asks(4001 - cpu))
    ledger.release(before.uid)
    assert not ledger.overcommitted
    assert accepts(ledger, asks(4000))


def test_foreign_pod_is_resized_on_a_node_that_is_gone(make: MakeLedger) -> None:
    ledger = make(node("n0"))
    ledger.put_foreign(other(1000, uid="stranger", where="n9"))
    ledger.put_foreign(other(2000, uid="stranger", where="n9"))
    assert ledger.accounts["n9"].free["cpu"] == -2000
    ledger.put_node(node("n9"))
    assert accepts(ledger, asks(2000), "n9")
    assert not accepts(ledger, asks(3000), "n9")
    ledger.drop_foreign("stranger")
    ledger.drop_node("n9")
    assert "n9" not in ledger.accounts
