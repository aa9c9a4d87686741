"""Pods that wait: behind gates of others, for a service that is down, and without the policy that decides classes."""

from __future__ import annotations

from typing import Any

from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, GATE, SCHEDULER_NAME
from tests.e2e.deployed import Operations
from tests.e2e.harness import Namespace, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import gates_of, scheduler_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, bound_at_once
from tests.e2e.workloads import gang, ours

OTHERS = "example.com/quota"


def test_pods_without_a_class_are_bound_together_or_not_at_all(
    fluence: Fluence,
    namespace: Namespace,
    room: NodeFactory,
    operations: Operations,
    history: History,
) -> None:
    room(2, cpu="2")

    def told_to_wait() -> float:
        return fluence.metric("fluence_extender_answers_total", verb="filter", outcome="no-place")

    before = told_to_wait()
    with operations.ungated():
        created = namespace.create(*gang("late", 3, size=4, cpu="1"))
        assert not any(gates_of(one) for one in created)
        fluence.wait_for_reason(namespace.name, "late", "waiting for members (3 of 4 exist)")
        wait_for(lambda: told_to_wait() >= before + 3, what="kube-scheduler to try the pods")
        assert not history.bound
        namespace.create(*gang("late", 1, first=3, size=4, cpu="1"))
        namespace.wait_until_bound(4)
        history.wait(4)
        fluence.wait_for_state(namespace.name, "late", "bound")
        assert bound_at_once(fluence, namespace.name, "late")


def test_of_two_gangs_without_a_class_one_is_bound_whole(
    fluence: Fluence,
    namespace: Namespace,
    room: NodeFactory,
    operations: Operations,
    history: History,
) -> None:
    room(1, cpu="1")
    room(1, cpu="2")
    with operations.ungated():
        for number in range(2):
            for name in ("alpha", "beta"):
                namespace.create(*gang(name, 1, first=number, size=2, cpu="1"))
        namespace.wait_until_bound(2)
        history.wait(2)
        winner = history.names()[0].partition("-")[0]
        loser = {"alpha": "beta", "beta": "alpha"}[winner]
        fluence.wait_for_reason(namespace.name, loser, "busy: 1 of 2 fit now")
        assert {name.partition("-")[0] for name in history.names()} == {winner}
        for number in range(2):
            namespace.delete_pod(f"{winner}-{number}")
        namespace.wait_until_bound(2)


def test_gang_waits_for_the_gates_of_others_and_leaves_them_alone(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, history: History
) -> None:
    room(1, cpu="2")
    free, held = gang("mixed", 2, cpu="1")
    held["spec"]["schedulingGates"] = [{"name": OTHERS}]
    namespace.create(free, held)
    assert gates_of(namespace.pod("mixed-1")) == [OTHERS]
    fluence.wait_for_reason(namespace.name, "mixed", f"waiting for scheduling gates of others: {OTHERS}")
    # What a gang that waits for gates doesn't hold, others use.
    namespace.create(ours("quick", cpu="2"))
    namespace.wait_for_phase("quick", "Running")
    namespace.delete_pod("quick")
    assert gates_of(namespace.pod("mixed-1")) == [OTHERS]
    history.wait(1)
    assert history.names() == ["quick"]
    opened = {"spec": {"schedulingGates": [{"name": OTHERS, "$patch": "delete"}]}}
    path = f"/api/v1/namespaces/{namespace.name}/pods/mixed-1"
    namespace.api.patch(path, opened, "application/strategic-merge-patch+json")
    namespace.wait_for_phase("mixed-0", "Running")
    namespace.wait_for_phase("mixed-1", "Running")


def test_pod_created_while_the_service_is_down_waits_for_it(
    fluence: Fluence,
    namespace: Namespace,
    room: NodeFactory,
    operations: Operations,
    history: History,
) -> None:
    (node,) = room(1, cpu="2")
    operations.crash()
    claimed: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    direct, filtered = namespace.create(ours("early", cpu="1"), ours("filtered", cpu="1", **claimed))
    assert (scheduler_of(direct), gates_of(direct)) == (DIRECT_SCHEDULER_NAME, [])
    assert (scheduler_of(filtered), gates_of(filtered)) == (SCHEDULER_NAME, [GATE])
    operations.revive()
    assert node_of(namespace.wait_for_phase("early", "Running")) == node
    history.wait(1)
    assert history.names() == ["early"]
