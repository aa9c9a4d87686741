"""The books: exact accounts, the matcher equal to them, and what happens when others take what was promised."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.ledger.books import Books, NoRoom
from fluence_extender.ledger.holding import Claim
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.model.node import Node
from fluence_extender.model.placement import Assignment
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.model.resources import Resources
from tests.core.engine import COARSE_EMBEDDED, FINE_EMBEDDED
from tests.core.values import GIB, asks, node, pod
from tests.unit.ledger.conftest import MakeBooks

SIMULATOR = "resources: [{type: simulator, name: a, count: 2}]"


def take(books: Books, one: Pod, where: str = "n0", gang: object = "g") -> None:
    books.take(one, Assignment(one.uid, where), gang)


def accepts(books: Books, requests: Resources, where: str = "n0") -> bool:
    """Whether the matcher grants ``requests`` on the node now."""
    try:
        return sum(books.ask(requests, 1, {where}).values()) == 1
    except MatcherError:
        return False


def other(
    cpu: int, gib: int = 0, where: str = "n0", uid: str | None = None, host_ports: tuple[HostPort, ...] = ()
) -> Pod:
    return pod("other", cpu, gib, uid, scheduler="default-scheduler", node=where, host_ports=host_ports)


def test_hold_and_release_leave_account_and_matcher_as_they_were(make: MakeBooks) -> None:
    books = make(node("n0"))
    one = pod(cpu=4000, gib=16)
    take(books, one)
    assert books.holds(one.uid, "n0")
    assert not accepts(books, asks(1000))
    books.release(one.uid)
    assert not books.holds(one.uid, "n0")
    assert books.accounts["n0"].free == node("n0").allocatable
    assert accepts(books, asks(4000, 16))


def test_one_pods_end_frees_exactly_its_share(make: MakeBooks) -> None:
    books = make(node("n0"))
    first, second = pod("a", 1000), pod("b", 3000)
    take(books, first)
    take(books, second)
    books.release(first.uid)
    assert accepts(books, asks(1000))
    assert not accepts(books, asks(2000))


@pytest.mark.parametrize("last", ["n0", "n1", "gone"])
def test_gang_is_held_whole_or_not_at_all(make: MakeBooks, last: str) -> None:
    books = make(node("n0"), node("n1"))
    earlier = pod("earlier", 1000)
    take(books, earlier, "n1")
    members = [pod(name, 2000) for name in "abc"]
    places = [
        (one, Assignment(one.uid, where)) for one, where in zip(members, ("n0", "n0", last), strict=True)
    ]
    if last == "n1":
        books.take_all(places, "g")
        assert all(books.holds(one.uid, where.node) for one, where in places)
        assert not accepts(books, asks(1000))
        return
    with pytest.raises(NoRoom, match=last):
        books.take_all(places, "g")
    assert not any(books.holdings.get(one.uid) for one in members)
    assert accepts(books, asks(4000))
    assert books.bookings.owned() == {books.bookings.job(earlier.uid)}


def test_release_of_nobody_changes_nothing(make: MakeBooks) -> None:
    books = make(node("n0"))
    version = books.version
    books.release("nobody")
    assert books.version == version


def test_place_without_room_is_refused_and_nothing_is_held(make: MakeBooks) -> None:
    books = make(node("n0"))
    take(books, pod("a", 3000))
    with pytest.raises(NoRoom, match="n0"):
        take(books, pod("b", 2000))
    assert len(books.holdings) == 1


def test_place_on_an_unknown_node_is_refused(make: MakeBooks) -> None:
    with pytest.raises(NoRoom):
        take(make(node("n0")), pod(), "n7")


def test_pod_without_requests_holds_a_slot_and_no_leaf(make: MakeBooks) -> None:
    books = make(node("n0", pods=1))
    idle = pod(requests=Resources({"pods": 1}))
    take(books, idle)
    assert books.bookings.job(idle.uid) is None
    assert books.accounts["n0"].free["pods"] == 0
    assert accepts(books, asks(4000))


def test_others_are_summed_first_and_rounded_once() -> None:
    books = COARSE_EMBEDDED.books()
    books.load([node("n0")])
    for number in range(6):
        books.put_foreign(other(150, uid=f"daemon{number}"))
    assert accepts(books, asks(3000))
    assert not accepts(books, asks(4000))
    books.put_foreign(other(150, uid="daemon6"))
    assert not accepts(books, asks(3000))


def test_others_pods_count_until_they_are_gone_and_as_they_are_resized(make: MakeBooks) -> None:
    books = make(node("n0"))
    daemon = other(1000, host_ports=(HostPort(80),))
    books.put_foreign(daemon)
    version = books.version
    books.put_foreign(daemon)
    assert books.accounts["n0"].free["cpu"] == 3000
    assert books.version == version
    books.put_foreign(other(3000, uid=daemon.uid))
    assert not accepts(books, asks(2000))
    books.drop_foreign(daemon.uid)
    assert books.version > version
    assert books.accounts["n0"].ports == ()
    assert accepts(books, asks(4000))


def test_others_on_promised_room_strain_the_node_until_somebody_leaves(make: MakeBooks) -> None:
    books = make(node("n0"), node("n1"))
    planned = pod(cpu=3000)
    take(books, planned)
    books.put_foreign(other(2000))
    assert books.strained == {"n0"}
    assert books.closed("anybody") == {"n0"}
    books.release(planned.uid)
    assert books.strained == set()
    assert accepts(books, asks(2000))
    assert not accepts(books, asks(3000))


def test_deficit_is_booked_as_room_comes_back_bit_by_bit(make: MakeBooks) -> None:
    books = make(node("n0"))
    held = [pod(f"p{number}", 1000) for number in range(4)]
    for one in held:
        take(books, one)
    books.put_foreign(other(2000))
    books.release(held[0].uid)
    assert books.strained == {"n0"}
    books.release(held[1].uid)
    assert books.strained == set()
    assert not accepts(books, asks(1000))
    books.release(held[2].uid)
    assert accepts(books, asks(1000))


def test_bound_pod_is_taken_into_account_without_room(make: MakeBooks) -> None:
    books = make(node("n0"))
    planned = pod("planned", 4000)
    take(books, planned)
    bound = pod("bound", 2000, node="n0")
    books.adopt(bound, "g", Claim.BOUND)
    assert books.accounts["n0"].free["cpu"] == -2000
    assert books.strained == {"n0"}
    books.release(planned.uid)
    assert books.strained == set()
    assert not accepts(books, asks(3000))
    assert accepts(books, asks(2000))


def test_adopting_again_moves_the_hold(make: MakeBooks) -> None:
    books = make(node("n0"), node("n1"))
    one = pod(cpu=4000)
    take(books, one)
    books.adopt(pod("p", 4000, uid=one.uid, node="n1"), "g", Claim.BOUND)
    assert books.holds(one.uid, "n1")
    assert accepts(books, asks(4000), "n0")
    assert not accepts(books, asks(1000), "n1")


def test_pod_bound_to_a_node_that_is_not_there_yet_is_booked_when_it_comes(make: MakeBooks) -> None:
    books = make(node("n0"))
    books.adopt(pod(cpu=3000, node="n1"), "g", Claim.BOUND)
    books.put_foreign(other(1000, where="n1"))
    books.put_node(node("n1"))
    assert books.accounts["n1"].free["cpu"] == 0
    assert not accepts(books, asks(1000), "n1")


def test_steered_pod_gets_its_nominated_node_again(make: MakeBooks) -> None:
    books = make(node("n0"), node("n1"))
    steered = pod(cpu=3000, nominated="n1")
    assert books.resume(steered, "g") == Assignment(steered.uid, "n1")
    assert books.holdings[steered.uid].claim is Claim.COMMITTED
    assert not accepts(books, asks(2000), "n1")


@pytest.mark.parametrize(
    "steered",
    [
        pod(cpu=9000, nominated="n0"),
        pod(nominated="n9"),
        pod(nominated="n0", host_ports=(HostPort(80),)),
        pod(nominated="n0", devices={"laser": 1}),
    ],
)
def test_steered_pod_that_does_not_fit_any_more_is_not_resumed(make: MakeBooks, steered: Pod) -> None:
    books = make(node("n0"))
    books.put_foreign(other(100, host_ports=(HostPort(80),)))
    assert books.resume(steered, "g") is None
    assert not books.holdings


def test_claims_only_grow(make: MakeBooks) -> None:
    books = make(node("n0"))
    one = pod()
    take(books, one)
    books.strengthen(one.uid, Claim.BOUND)
    books.strengthen(one.uid, Claim.COMMITTED)
    books.strengthen("nobody", Claim.BOUND)
    assert books.holdings[one.uid].claim is Claim.BOUND


def test_node_joins_is_resized_and_leaves_with_holds_on_it(make: MakeBooks) -> None:
    books = make(node("n0"))
    books.put_node(node("n1", 2000))
    one = pod(cpu=2000)
    take(books, one, "n1")
    books.put_node(node("n1", 4000))
    assert accepts(books, asks(2000), "n1")
    assert not accepts(books, asks(3000), "n1")
    books.put_node(node("n1", 1000))
    assert books.strained == {"n1"}
    books.drop_node("n1")
    assert books.holds(one.uid, "n1")
    assert books.accounts["n1"].free["cpu"] == -2000
    books.release(one.uid)
    assert set(books.accounts) == {"n0"}
    assert books.strained == set()


def test_node_that_comes_back_has_its_holds_booked_again(make: MakeBooks) -> None:
    books = make(node("n0"), node("n1"))
    take(books, pod(cpu=3000), "n1")
    books.drop_node("n1")
    books.put_node(node("n1"))
    assert accepts(books, asks(1000), "n1")
    assert not accepts(books, asks(2000), "n1")


def test_last_node_may_leave_and_another_come(make: MakeBooks) -> None:
    books = make(node("n0"))
    books.drop_node("n0")
    assert not books.mirror.containment.nodes
    books.put_node(node("n5"))
    assert accepts(books, asks(4000), "n5")


def test_node_that_shrinks_keeps_the_stronger_claims_booked(make: MakeBooks) -> None:
    books = make(node("n0", 8000))
    weak, strong = pod("weak", 4000), pod("strong", 4000, node="n0")
    take(books, weak)
    books.adopt(strong, "g", Claim.BOUND)
    books.put_node(node("n0", 4000))
    assert books.strained == {"n0"}
    assert books.bookings.job(strong.uid) is not None
    assert books.bookings.job(weak.uid) is None


def test_node_with_absurd_allocatable_offers_nothing(make: MakeBooks) -> None:
    books = make(Node("n0"), Node("n1", allocatable=Resources({"cpu": -5, "memory": 0})))
    assert not accepts(books, asks(1), "n0")
    assert not accepts(books, asks(1), "n1")
    books.adopt(pod(node="n0"), "g", Claim.BOUND)
    assert books.strained >= {"n0"}


def test_version_grows_when_somebody_might_fit_now(make: MakeBooks) -> None:
    books = make(node("n0"))
    one = pod()
    versions = [books.version]
    take(books, one)
    assert books.version == versions[-1]
    changes: list[Callable[[], object]] = [
        lambda: books.release(one.uid),
        lambda: books.put_node(node("n1")),
        lambda: books.drop_node("n1"),
        lambda: books.load([node("n0")], parse_resources(SIMULATOR)),
    ]
    for change in changes:
        change()
        versions.append(books.version)
    assert versions == sorted(set(versions))


def test_memory_is_counted_to_the_unit() -> None:
    books = FINE_EMBEDDED.books()
    books.load([Node("n0", allocatable=Resources({"cpu": 1000, "memory": 10 * 1024 + 1023, "pods": 9}))])
    assert accepts(books, Resources({"memory": 10 * 1024}))
    assert not accepts(books, Resources({"memory": 10 * 1024 + 1}))
    assert GIB % 1024 == 0


TIB = 2**40


def test_node_beyond_four_tebibytes_is_used_to_its_last_byte() -> None:
    books = FINE_EMBEDDED.books()
    books.load([node("n0", gib=6 * 1024)])
    first, second = pod("a", 1, gib=4 * 1024), pod("b", 1, gib=2 * 1024)
    take(books, first)
    take(books, second)
    assert books.accounts["n0"].free["memory"] == 0
    assert not accepts(books, Resources({"memory": 1}))
    books.release(first.uid)
    assert accepts(books, Resources({"memory": 4 * TIB}))


def test_larger_node_that_joins_changes_how_memory_is_counted_and_nothing_else() -> None:
    books = FINE_EMBEDDED.books()
    books.load([node("n0")])
    odd = pod("odd", requests=Resources({"memory": 1025, "pods": 1}))
    take(books, odd)
    assert books.accounts["n0"].users[odd.uid]["memory"] == 2048
    books.put_node(node("n1", gib=24 * 1024))
    books.upkeep.catch_up()
    assert accepts(books, Resources({"memory": 24 * TIB}), "n1")
    assert books.accounts["n0"].users[odd.uid]["memory"] == 8192
    assert accepts(books, Resources({"memory": 16 * GIB - 8192}))
    assert not accepts(books, Resources({"memory": 16 * GIB - 8191}))
    books.drop_node("n1")
    books.release(odd.uid)
    assert accepts(books, Resources({"memory": 16 * GIB}))


def test_nodes_that_offered_nothing_at_the_start_are_used_once_they_do() -> None:
    books = FINE_EMBEDDED.books()
    books.load([Node("n0"), Node("n1")])
    books.put_node(Node("n2"))
    books.put_node(node("n2", 1000))
    books.upkeep.catch_up()
    assert accepts(books, asks(1000, 16), "n2")


def test_node_that_claims_everything_spoils_nothing(make: MakeBooks) -> None:
    most = Resources({"cpu": 2**63 - 1, "memory": 2**63 - 1, "pods": 10, "nvidia.com/gpu": 2**63 - 1})
    books = make(node("n0"), Node("mad", allocatable=most))
    assert accepts(books, asks(4000, 16))
    assert accepts(books, asks(64000, 1024), "mad")
    assert not accepts(books, asks(5000))


@pytest.mark.parametrize("cpu", [3000, 1000, 5000, 2000])
def test_resized_pod_is_counted_anew_where_it_is(make: MakeBooks, cpu: int) -> None:
    books = make(node("n0"))
    before = pod("a", 2000, node="n0")
    books.adopt(before, "g", Claim.BOUND)
    after = dataclasses.replace(before, requests=asks(cpu, 1))
    books.amend(after)
    assert books.accounts["n0"].free["cpu"] == 4000 - cpu
    assert ("n0" in books.strained) == (cpu > 4000)
    assert books.holdings[before.uid].requests == after.requests
    if cpu < 4000:
        assert accepts(books, asks(4000 - cpu))
        assert not accepts(books, asks(4001 - cpu))
    books.release(before.uid)
    assert not books.strained
    assert accepts(books, asks(4000))


def test_others_pod_is_resized_on_a_node_that_is_gone(make: MakeBooks) -> None:
    books = make(node("n0"))
    books.put_foreign(other(1000, uid="stranger", where="n9"))
    books.put_foreign(other(2000, uid="stranger", where="n9"))
    assert books.accounts["n9"].free["cpu"] == -2000
    books.put_node(node("n9"))
    assert accepts(books, asks(2000), "n9")
    assert not accepts(books, asks(3000), "n9")
    books.drop_foreign("stranger")
    books.drop_node("n9")
    assert "n9" not in books.accounts
