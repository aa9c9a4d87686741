"""The reasons: what is short, in a text that is stable while the situation is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fluence_extender.model.pod import HostPort
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.reasons import ShapeNodes, amount_text, never_a_place, no_place_now
from fluence_extender.placement.search import Shape
from fluence_extender.room.capacity import CapacityTable, NodeCapacity
from fluence_extender.room.holdings import NodeAccount
from tests.core.values import GIB, asks

WHOLE = Resources({"cpu": 4000, "memory": 8 * GIB, "pods": 10})


def accounts(*free: Resources) -> dict[str, NodeAccount]:
    found = {}
    for number, left in enumerate(free):
        account = NodeAccount(f"n{number}", WHOLE)
        account.add("other", WHOLE - left, foreign=True)
        found[account.name] = account
    return found


def why(
    shapes: list[Shape],
    there: dict[str, NodeAccount],
    refusals: dict[str, int] | None = None,
    possible: Sequence[tuple[str, ...]] | None = None,
) -> Reason:
    free = CapacityTable.of(
        {name: NodeCapacity(account.free, account.ports) for name, account in there.items()}
    )
    whole = CapacityTable.of({name: NodeCapacity(account.allocatable) for name, account in there.items()})
    ever = possible or [shape.nodes for shape in shapes]
    asked = [ShapeNodes(shape, nodes, refusals or {}) for shape, nodes in zip(shapes, ever, strict=True)]
    return never_a_place(asked, whole) or no_place_now(asked, free)


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 2000, "2 cpu"),
        ("cpu", 1500, "1500m cpu"),
        ("memory", 4 * GIB, "4Gi memory"),
        ("memory", 1536 * 2**20, "1.5Gi memory"),
        ("memory", 500, "500 bytes of memory"),
        ("ephemeral-storage", 2**40, "1Ti ephemeral-storage"),
        ("memory", 2**50, "1Pi memory"),
        ("memory", 2**63 - 1, "8Ei memory"),
        ("hugepages-2Mi", 2**21, "2Mi hugepages-2Mi"),
        ("nvidia.com/gpu", 2, "2 nvidia.com/gpu"),
    ],
)
def test_amounts_are_written_as_people_write_them(name: str, amount: int, text: str) -> None:
    assert amount_text(name, amount) == text


def test_busy_says_how_many_fit_and_what_is_short() -> None:
    there = accounts(asks(2000, 8, pods=9), asks(1000, 1, pods=9))
    assert why([Shape(asks(1000, 1), 5, ("n0", "n1"))], there) == Reason(
        ReasonCode.BUSY, "busy: 3 of 5 fit now, short of cpu", 3, ("cpu",)
    )


def test_busy_counts_the_nodes_that_are_closed_for_now() -> None:
    there = accounts(WHOLE, WHOLE, WHOLE)
    ever = [("n0", "n1", "n2")]
    closed = {"node selector disk=ssd": 4, "cordoned": 1, "not ready": 1}
    assert why([Shape(asks(4000), 2, ("n0",))], there, closed, ever).text == (
        "busy: 1 of 2 fit now, short of cpu (nodes refused: 1 cordoned, 1 not ready)"
    )
    unequal = [Shape(asks(4000), 1, ("n0",)), Shape(asks(2000), 1, ("n0",))]
    assert why(unequal, there, closed, ever * 2).text == (
        "busy: 1 of 2 fit now, short of cpu (nodes refused: 1 cordoned, 1 not ready)"
    )


def test_busy_leaves_out_the_nodes_that_the_gang_may_never_use() -> None:
    there = accounts(asks(1000))
    assert why([Shape(asks(2000, 0), 1, ("n0",))], there, {"node affinity": 2}).text == (
        "busy: 0 of 1 fit now, short of cpu"
    )


def test_busy_never_says_that_all_fit() -> None:
    there = accounts(WHOLE)
    reason = why([Shape(asks(1000, 1), 2, ("n0",))], there)
    assert reason.text == "busy: 1 of 2 fit now, short of cpu" or reason.text.startswith(
        "busy: 1 of 2 fit now"
    )


def test_request_larger_than_any_node_names_the_largest() -> None:
    there = accounts(WHOLE, WHOLE)
    assert why([Shape(asks(16000, 1), 1, ("n0", "n1"))], there).text == (
        "unsatisfiable: no node has 16 cpu (the largest has 4 cpu)"
    )


def test_request_that_no_single_node_covers() -> None:
    there = accounts(WHOLE, WHOLE)
    there["n0"].resize(asks(8000, 1, pods=9))
    there["n1"].resize(asks(1000, 64, pods=9))
    assert why([Shape(asks(6000, 32), 1, ("n0", "n1"))], there).text == (
        "unsatisfiable: no single node has 6 cpu and 32Gi memory (the nearest has 1 cpu)"
    )


def test_gang_larger_than_the_empty_cluster() -> None:
    there = accounts(asks(0), asks(0))
    assert why([Shape(asks(2000, 1), 5, ("n0", "n1"))], there).text == (
        "unsatisfiable: 4 of 5 members would fit if nothing else ran, short of cpu"
    )


def test_no_usable_node_lists_the_refusals() -> None:
    reason = why([Shape(asks(1), 1, ())], {}, {"untolerated taint x": 3, "node selector": 1})
    assert reason == Reason(
        ReasonCode.UNSATISFIABLE,
        "unsatisfiable: no node may be used (nodes refused: 3 untolerated taint x, 1 node selector)",
    )
    assert why([Shape(asks(1), 1, ())], {}).text == "unsatisfiable: the cluster has no nodes"


def test_node_that_may_come_back_makes_a_gang_wait_not_unsatisfiable() -> None:
    there = accounts(WHOLE)
    reason = why([Shape(asks(1000), 1, ())], there, {"cordoned": 1}, [("n0",)])
    assert reason.code is ReasonCode.BUSY


def test_text_does_not_depend_on_the_order_of_nodes() -> None:
    there = accounts(asks(2000, 1, pods=0), asks(500, 8, pods=9), asks(500, 8, pods=9))
    texts = {
        why([Shape(asks(1000, 2), 3, order)], there).text
        for order in (("n0", "n1", "n2"), ("n2", "n1", "n0"), ("n1", "n0", "n2"))
    }
    assert texts == {"busy: 0 of 3 fit now, short of cpu"}


def test_host_port_that_is_taken_is_named() -> None:
    there = accounts(WHOLE)
    there["n0"].add("web", asks(100, 0), foreign=False, ports=(HostPort(8080),))
    assert why([Shape(asks(100, 0), 1, ("n0",), (HostPort(8080), HostPort(9090)))], there).text == (
        "busy: 0 of 1 fit now, short of host port 8080"
    )


def test_pod_slots_are_named_like_any_resource() -> None:
    full = accounts(asks(4000, 8, pods=1), asks(4000, 8, pods=1))
    assert why([Shape(asks(100, 0), 3, ("n0", "n1"))], full).text == "busy: 2 of 3 fit now, short of pods"
    assert why([Shape(asks(100, 0), 30, ("n0", "n1"))], full).text == (
        "unsatisfiable: 20 of 30 members would fit if nothing else ran, short of pods"
    )
    none = {"n0": NodeAccount("n0", Resources({"cpu": 4000}))}
    assert why([Shape(asks(100, 0), 1, ("n0",))], none).text == (
        "unsatisfiable: no node has 1 pods (the largest has none)"
    )
    none["n1"] = NodeAccount("n1", Resources({"pods": 10}))
    assert why([Shape(asks(100, 0), 1, ("n0", "n1"))], none).text == (
        "unsatisfiable: no single node has 100m cpu (the nearest has no cpu)"
    )


def test_all_that_no_node_has_is_named() -> None:
    reason = why([Shape(asks(16000, 64), 1, ("n0",))], accounts(WHOLE))
    assert reason.text == (
        "unsatisfiable: no node has 16 cpu (the largest has 4 cpu), nor 64Gi memory (the largest has 8Gi memory)"
    )


def test_mixed_gang_gets_the_largest_part_that_would_fit_and_the_members_left_over() -> None:
    there = accounts(asks(0), asks(0))
    nodes = ("n0", "n1")
    gang = [Shape(asks(3000, 1), 3, nodes), Shape(asks(500, 1), 3, nodes), Shape(asks(100, 6), 2, nodes)]
    assert why(gang, there).text == (
        "unsatisfiable: 6 of 8 members would fit if nothing else ran, short of cpu; "
        "no place for 1 x 100m cpu + 6Gi memory, 1 x 3 cpu + 1Gi memory"
    )
    one = [Shape(asks(9000, 1), 1, nodes), Shape(asks(500, 1), 3, nodes)]
    assert why(one, there).text == (
        "unsatisfiable: no node has 9 cpu (the largest has 4 cpu), for 1 of 4 members"
    )


def test_busy_count_of_unequal_members_does_not_depend_on_their_order() -> None:
    there = accounts(asks(4000, 8, pods=9), asks(0))
    nodes = ("n0", "n1")
    large, small = Shape(asks(3000, 1), 1, nodes), Shape(asks(1000, 1), 4, nodes)
    for gang in ([large, small], [small, large]):
        assert why(gang, there).text == "busy: 4 of 5 fit now, short of cpu"


def test_only_what_members_without_a_place_are_short_of_is_named() -> None:
    there = accounts(asks(2000, 0, pods=9))
    gang = [Shape(asks(1000, 0), 1, ("n0",)), Shape(asks(500, 1), 1, ("n0",))]
    assert why(gang, there).text == "busy: 1 of 2 fit now, short of memory"


def test_refusals_are_those_of_the_members_that_they_concern() -> None:
    there = accounts(WHOLE)
    free = CapacityTable.of({name: NodeCapacity(account.free) for name, account in there.items()})
    picky = ShapeNodes(Shape(asks(200), 2, ()), (), {"node selector": 1})
    never = never_a_place([ShapeNodes(Shape(asks(100), 1, ("n0",)), ("n0",)), picky], free)
    assert never is not None
    assert never.text == (
        "unsatisfiable: no node may be used (nodes refused: 1 node selector), for 2 of 3 members"
    )


@pytest.mark.parametrize(
    ("requests", "count", "fitting", "lacking"),
    [
        (asks(3000, 1), 2, 1, ("cpu",)),
        (asks(16_000, 64), 1, 0, ("cpu", "memory")),
        (asks(3000, 1), 5, 2, ("cpu",)),
    ],
    ids=["busy", "too large", "too many"],
)
def test_reason_says_how_many_fit_and_which_amounts_are_lacking(
    requests: Resources, count: int, fitting: int, lacking: tuple[str, ...]
) -> None:
    there = accounts(WHOLE, asks(1000, 8))
    reason = why([Shape(requests, count, tuple(there))], there)
    assert (reason.fitting, reason.lacking) == (fitting, lacking)
