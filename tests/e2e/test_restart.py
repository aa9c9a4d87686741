"""A crash of the service, at any moment, books nothing twice and leaves no gang half done."""

from __future__ import annotations

from collections.abc import Callable

from fluence_extender.model.names import BACKEND_ANNOTATION
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, phase_of, pod, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation, gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import ONE_DEVICE, QPU, RESOURCES, gang, ours

Write = Callable[[str], None]


def quantum(name: str) -> Manifest:
    """A pod of ours with one qpu."""
    return ours(name, cpu="1", requests={QPU: 1})


def backend_of(pod: Manifest) -> str:
    """The backend that a Binding wrote."""
    return annotations_of(pod).get(BACKEND_ANNOTATION, "")


def test_held_device_is_not_given_away_after_a_crash(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(1, cpu="8")
    resources(ONE_DEVICE)
    namespace.create(quantum("first"))
    first = namespace.wait_for_phase("first", "Running")
    fluence.wait_for_state(namespace.name, "first", "bound")
    before = fluence.allocations()
    installation.crash()
    installation.revive()
    assert fluence.allocations() == before
    again = namespace.pod("first")
    assert (again["metadata"]["uid"], phase_of(again), backend_of(again)) == (
        first["metadata"]["uid"],
        "Running",
        "ibm_fez",
    )
    namespace.create(quantum("second"))
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")
    # Somebody who comes later is served, so the second pod was passed over and not forgotten.
    namespace.create(ours("marker", cpu="1"))
    namespace.wait_for_phase("marker", "Running")
    history.wait(2)
    assert history.names() == ["first", "marker"]
    namespace.delete_pod("first")
    assert backend_of(namespace.wait_for_phase("second", "Running")) == "ibm_fez"


def test_of_two_devices_the_free_one_is_given_after_a_crash(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="8")
    resources(RESOURCES)
    # The second device, so that a service that remembered nothing would give it again.
    namespace.create(quantum("lost"), quantum("first"))
    namespace.wait_until_bound(2)
    kept = backend_of(namespace.pod("first"))
    namespace.delete_pod("lost")
    installation.crash()
    installation.revive()
    namespace.create(quantum("second"))
    taken = {kept, backend_of(namespace.wait_for_phase("second", "Running"))}
    assert taken == {"ibm_fez", "rigetti_ankaa"}
    namespace.create(quantum("third"))
    fluence.wait_for_reason(namespace.name, "third", "busy: 1 qpu not free")


def test_pods_deleted_while_the_service_is_down_hold_nothing_afterwards(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(*gang("gone", 2, cpu="1"), *gang("kept", 2, cpu="1"))
    namespace.wait_until_bound(4)
    installation.crash()
    for name in ("gone-0", "gone-1"):
        namespace.delete_pod(name)
    namespace.create(*gang("next", 2, cpu="1"))
    installation.revive()
    namespace.wait_until_bound(4)
    assert {one["pod"].partition("-")[0] for one in fluence.allocations(namespace.name)} == {"kept", "next"}


def steered(namespace: Namespace, group: str) -> dict[str, str]:
    """The nodes that the ungated members of a gang are nominated for."""
    return {
        one["metadata"]["name"]: one["status"].get("nominatedNodeName", "")
        for one in namespace.pods()
        if one["metadata"]["name"].startswith(f"{group}-") and not gates_of(one)
    }


def wait_until_steered(namespace: Namespace, group: str, count: int) -> dict[str, str]:
    """The plan of a gang as it stands in the cluster once all ``count`` members are told."""

    def told() -> dict[str, str] | None:
        seen = steered(namespace, group)
        return seen if len(seen) == count and all(seen.values()) else None

    seen = wait_for(told, what=f"gang {group} to be steered", seen=lambda: steered(namespace, group))
    assert seen is not None
    return seen


def test_gang_that_was_steered_keeps_its_plan_through_a_crash(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(2, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(*gang("steered", 4, cpu="1", filtered=True))
        plan = wait_until_steered(namespace, "steered", 4)
        installation.crash()
        namespace.create(*gang("rival", 4, cpu="1"))
        installation.revive()
        fluence.wait_for_state(namespace.name, "steered", "committed")
        fluence.wait_for_reason(namespace.name, "rival", "busy: 0 of 4 fit now")
        assert {one["pod"]: one["node"] for one in fluence.allocations(namespace.name)} == plan
    pods = namespace.wait_until_bound(4)
    assert {one["metadata"]["name"]: node_of(one) for one in pods if node_of(one)} == plan
    history.wait(4)
    assert {name.partition("-")[0] for name in history.names()} == {"steered"}


def test_steered_gang_whose_room_was_taken_during_a_crash_holds_no_part_of_it(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    names = own_nodes(2, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(*gang("steered", 4, cpu="1", filtered=True))
        wait_until_steered(namespace, "steered", 4)
        installation.crash()
        namespace.create(pod("foreign", cpu="2"))
        namespace.bind("foreign", names[0])
        installation.revive()
        fluence.wait_for_reason(namespace.name, "steered", "busy: 2 of 4 fit now, short of cpu")
        wait_for(
            lambda: not fluence.allocations(namespace.name), what="what is left of the plan to be dropped"
        )
    namespace.create(*gang("small", 2, cpu="1"))
    fluence.wait_for_state(namespace.name, "small", "bound")
    history.wait(3)
    assert {name.partition("-")[0] for name in history.names()} == {"foreign", "small"}
    namespace.delete_pod("foreign")
    for number in range(2):
        namespace.delete_pod(f"small-{number}")
    namespace.wait_until_bound(4)


def test_gang_with_some_members_bound_is_completed_after_a_crash(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(3, cpu="2")
    with installation.scheduler_stopped():
        namespace.create(*gang("begun", 6, cpu="1", filtered=True))
        plan = wait_until_steered(namespace, "begun", 6)
        installation.crash()
        # As if the crash came between the second Binding and the third.
        for name in ("begun-0", "begun-5"):
            namespace.bind(name, plan[name])
        namespace.create(*gang("rival", 2, cpu="1"))
        installation.revive()
        fluence.wait_for_reason(namespace.name, "rival", "busy: 0 of 2 fit now")
        assert fluence.wait_for_state(namespace.name, "begun", "committed")["size"] == 6
        assert {one["pod"] for one in fluence.allocations(namespace.name)} == set(plan)
    pods = namespace.wait_until_bound(6)
    assert {one["metadata"]["name"]: node_of(one) for one in pods if node_of(one)} == plan
    history.wait(6)


def test_gang_begun_and_not_steered_yet_is_completed_after_a_crash(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    names = own_nodes(2, cpu="2")
    installation.crash()
    namespace.create(*gang("rival", 4, cpu="1"))
    begun = gang("begun", 4, cpu="1")
    with installation.ungated():
        namespace.create(begun[0])
    namespace.create(*begun[1:])
    namespace.bind("begun-0", names[1])
    installation.revive()
    namespace.wait_until_bound(4)
    # The gang that was begun comes before the one that is older.
    history.wait(4)
    assert {name.partition("-")[0] for name in history.names()} == {"begun"}
    fluence.wait_for_reason(namespace.name, "rival", "busy: 0 of 4 fit now")


def test_crash_at_the_first_binding_leaves_every_gang_whole(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    history: History,
) -> None:
    own_nodes(4, cpu="8")
    namespace.create(*gang("large", 32, cpu="1"))
    history.wait(1)
    installation.crash()
    installation.revive()
    namespace.wait_until_bound(32)
    history.wait(32)
    assert fluence.wait_for_state(namespace.name, "large", "bound")["size"] == 32


def test_gang_that_cannot_be_completed_is_evicted_with_a_reason(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    (node,) = own_nodes(1, cpu="2")
    installation.crash()
    begun = gang("begun", 3, cpu="1")
    with installation.ungated():
        namespace.create(begun[0])
    namespace.create(*begun[1:])
    namespace.bind("begun-0", node)
    with installation.other("--completion-limit", "1"):
        # Three cores on a node of two: the one that runs has to go.
        wait_for(
            lambda: "begun-0" not in {one["metadata"]["name"] for one in namespace.pods()},
            what="the bound member to be evicted",
            seen=lambda: fluence.gangs(namespace.name),
        )
        assert not any(node_of(one) for one in namespace.pods())
        fluence.wait_for_state(namespace.name, "begun", "waiting")


def test_kube_scheduler_that_crashes_at_the_barrier_binds_the_gang_after_all(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(4, cpu="8")
    scheduler = installation.stack.scheduler
    assert scheduler is not None
    namespace.create(*gang("large", 32, cpu="1"))
    # The gang may be past the barrier before it is looked at.
    wait_for(
        lambda: (fluence.gang(namespace.name, "large") or {}).get("state") in ("committed", "bound"),
        what="the gang to be committed",
    )
    scheduler.kill()
    scheduler.start()
    namespace.wait_until_bound(32)
