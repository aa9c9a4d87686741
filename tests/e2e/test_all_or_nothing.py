"""A gang that doesn't fit as a whole holds nothing and is bound nowhere; it starts once there is room."""

from __future__ import annotations

from tests.e2e.harness import RUN_FOR, Manifest, Namespace, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, ours


def bound_by_group(namespace: Namespace) -> dict[str, list[Manifest]]:
    """The bound pods by the first word of their names."""
    found: dict[str, list[Manifest]] = {}
    for one in namespace.pods():
        if node_of(one):
            found.setdefault(one["metadata"]["name"].partition("-")[0], []).append(one)
    return found


def split(fluence: Fluence, namespace: Namespace, groups: tuple[str, str]) -> tuple[str, str]:
    """Wait until one group is bound and the other waits for room; (winner, loser)."""

    def settled() -> tuple[str, str] | None:
        seen = {name: fluence.gang(namespace.name, name) for name in groups}
        states = {name: one["state"] if one else "" for name, one in seen.items()}
        for winner, loser in (groups, groups[::-1]):
            waits = (seen[loser] or {"reason": ""})["reason"].startswith("busy")
            if states[winner] == "bound" and states[loser] == "waiting" and waits:
                return winner, loser
        return None

    found = wait_for(settled, what="one gang to win", seen=lambda: fluence.gangs(namespace.name))
    assert found is not None
    return found


def passed_by(fluence: Fluence, namespace: Namespace) -> None:
    """A small pod comes, is placed and runs: whoever still waits then was looked at again in vain."""
    namespace.create(ours("marker"))
    namespace.wait_for_phase("marker", "Running")
    fluence.wait_for_state(namespace.name, "marker", "bound")
    namespace.delete_pod("marker")


def test_room_of_a_half_finished_gang_suffices_for_nobody_else(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="2")
    short, long = gang("first", 2, cpu="1")
    short["metadata"]["annotations"][RUN_FOR] = "100ms"
    namespace.create(short, long)
    namespace.wait_for_phase("first-0", "Succeeded")
    namespace.create(*gang("second", 2, cpu="1"))
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 of 2 fit now")
    (held,) = fluence.allocations(namespace.name)
    assert (held["pod"], held["core"]) == ("first-1", 1.0)
    # What the half-finished gang has given up is there for a pod that it suffices for.
    namespace.create(ours("single", cpu="1", run_for="100ms"))
    namespace.wait_for_phase("single", "Succeeded")
    namespace.delete_pod("first-1")
    namespace.wait_for_pods(
        lambda pods: (
            sum(one["metadata"]["name"].startswith("second") and bool(node_of(one)) for one in pods) == 2
        ),
        "the second gang to be bound",
    )


def test_gang_too_big_for_the_cluster_says_so_and_lets_a_small_one_run(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(2, cpu="2")
    namespace.create(*gang("big", 5, cpu="1"), *gang("wide", 1, cpu="3"))
    reason = "unsatisfiable: 4 of 5 members would fit if nothing else ran, short of cpu"
    fluence.wait_for_reason(namespace.name, "big", reason)
    fluence.wait_for_reason(
        namespace.name, "wide", "unsatisfiable: no node has 3 cpu (the largest has 2 cpu)"
    )
    namespace.create(*gang("small", 4, cpu="1"))
    namespace.wait_until_bound(4)
    history.wait(4)
    assert {name.partition("-")[0] for name in history.names()} == {"small"}
    assert {one["pod"].partition("-")[0] for one in fluence.allocations(namespace.name)} == {"small"}


def test_deletion_of_a_waiting_gang_leaves_nothing(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="3")
    namespace.create(ours("runs", cpu="2"))
    namespace.wait_until_bound(1)
    namespace.create(*gang("waits", 2, cpu="1"))
    fluence.wait_for_reason(namespace.name, "waits", "busy")
    for name in ("waits-0", "waits-1"):
        namespace.delete_pod(name)
    wait_for(lambda: fluence.gang(namespace.name, "waits") is None, what="the gang to be forgotten")
    assert [one["pod"] for one in fluence.allocations(namespace.name)] == ["runs"]
    namespace.create(ours("next", cpu="1"))
    namespace.wait_until_bound(2)
    history.wait(2)
    assert history.names() == ["runs", "next"]


def test_deletion_of_a_planned_gang_frees_its_room(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(2, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(*gang("planned", 4, cpu="1", filtered=True))
        fluence.wait_for_state(namespace.name, "planned", "committed")
        assert len(fluence.allocations(namespace.name)) == 4
        namespace.create(*gang("next", 4, cpu="1", filtered=True))
        fluence.wait_for_reason(namespace.name, "next", "busy: 0 of 4 fit now, short of cpu")
        for number in range(4):
            namespace.delete_pod(f"planned-{number}")
        fluence.wait_for_state(namespace.name, "next", "committed")
        assert {one["pod"] for one in fluence.allocations(namespace.name)} == {f"next-{i}" for i in range(4)}
    namespace.wait_until_bound(4)
    history.wait(4)
    assert {name.partition("-")[0] for name in history.names()} == {"next"}


def test_planned_gang_that_loses_a_member_holds_nothing_until_it_is_whole_again(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(1, cpu="3")
    with installation.scheduler_stopped():
        namespace.create(*gang("trio", 3, cpu="1", filtered=True))
        fluence.wait_for_state(namespace.name, "trio", "committed")
        namespace.delete_pod("trio-1")
        seen = fluence.wait_for_reason(namespace.name, "trio", "waiting for members (2 of 3 exist)")
        assert seen["state"] == "waiting"
        assert not fluence.allocations(namespace.name)
    namespace.create(*gang("pair", 2, cpu="1", run_for="1s"))
    namespace.wait_until_bound(2)
    namespace.create(*gang("trio", 1, first=3, size=3, cpu="1", filtered=True))
    namespace.wait_until_bound(5)
    history.wait(5)
    assert [name.partition("-")[0] for name in history.names()] == ["pair", "pair", "trio", "trio", "trio"]


def test_deletion_of_a_bound_gang_frees_its_share_at_once(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="2", memory="4Gi")
    namespace.create(*gang("first", 4, cpu="1", memory="1Gi"))
    namespace.wait_until_bound(4)
    namespace.create(*gang("second", 4, cpu="1", memory="2Gi"))
    fluence.wait_for_reason(namespace.name, "second", "busy")
    for number in range(4):
        namespace.delete_pod(f"first-{number}")
    namespace.wait_until_bound(4)
    assert {one["memory"] for one in fluence.allocations(namespace.name)} == {2 * 2**30}


def test_end_of_a_pod_frees_exactly_its_share(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    (node,) = own_nodes(1, cpu="4", memory="8Gi")
    ends, *stay = gang("mixed", 3, cpu="1", memory="1Gi")
    ends["metadata"]["annotations"][RUN_FOR] = "100ms"
    ends["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2", "memory": "3Gi"}
    namespace.create(ends, *stay)
    namespace.wait_for_phase("mixed-0", "Succeeded")

    def held() -> list[tuple[str, float, int]]:
        return [(one["pod"], one["core"], one["memory"]) for one in fluence.allocations(namespace.name)]

    left = [("mixed-1", 1.0, 2**30), ("mixed-2", 1.0, 2**30)]
    wait_for(lambda: held() == left, what="the share of the ended pod to be free", seen=held)
    namespace.create(ours("more", cpu="3"), ours("equal", cpu="2", memory="3Gi"))
    namespace.wait_for_phase("equal", "Running")
    fluence.wait_for_reason(namespace.name, "more", "busy")
    assert node_of(namespace.pod("equal")) == node
    assert "more" not in history.names()
