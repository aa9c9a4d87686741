"""All or nothing in each of the two ways: by our Bindings, and by kube-scheduler's own gang cycle.

In the second one pods are created as they are written, so kube-scheduler tries them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, SCHEDULER_NAME
from tests.e2e.harness import RUN_FOR, Manifest, Namespace, node_of, phase_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation, gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, bound_at_once, placed_at_once
from tests.e2e.test_all_or_nothing import bound_by_group, passed_by, split
from tests.e2e.test_gangs import condition
from tests.e2e.workloads import deployment, grouped, indexed_job, labelled, ours, pod_group
from tests.localcluster import Api

GANG_CYCLE = {"GenericWorkload": True, "GangScheduling": True}
WAYS = ("direct", "gang cycle")
PATIENCE = 180.0
"""Seconds: in the second way a refused pod comes back only after kube-scheduler's back-off."""

Gang = Callable[[str, Manifest, int], list[Manifest]]


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest, installation: Installation) -> Iterator[str]:
    """The way in which gangs are kept whole."""
    with ExitStack() as stack:
        if request.param == "gang cycle":
            stack.enter_context(installation.ungated())
            stack.enter_context(installation.other(feature_gates=GANG_CYCLE))
        yield request.param


@pytest.fixture
def gang(way: str) -> Gang:
    """Makes a Deployment whose pods are one gang: of a native PodGroup where kube-scheduler goes by it, else ours."""

    def make(name: str, template: Manifest, size: int) -> list[Manifest]:
        if way == "gang cycle":
            return [pod_group(name, size), deployment(name, grouped(template, name), size)]
        return [deployment(name, labelled(template, name, size), size)]

    return make


def test_native_gang_of_two_runs_and_is_called_scheduled(
    way: str, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="1")
    namespace.create(pod_group("pair", 2), deployment("pair", grouped(ours("x", cpu="1"), "pair"), 2))
    pods = namespace.wait_until_bound(2, timeout=PATIENCE)
    assert not any(gates_of(one) for one in pods)
    for one in pods:
        namespace.wait_for_phase(one["metadata"]["name"], "Running")
    wait_for(lambda: condition(namespace, "pair").get("status") == "True", what="it to be Scheduled")
    fluence.wait_for_state(namespace.name, "pair", "bound")


def test_pod_goes_elsewhere_when_a_node_is_tainted_after_the_start(
    gang: Gang, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    tainted, free = own_nodes(2, cpu="1")
    taint = {"key": "fluence-e2e", "value": "blocked", "effect": "NoSchedule"}
    namespace.api.patch(f"/api/v1/nodes/{tainted}", {"spec": {"taints": [taint]}})
    fluence.wait_for_problem(tainted, "taint fluence-e2e=blocked:NoSchedule")
    namespace.create(*gang("single", ours("x", cpu="1"), 1))
    (bound,) = namespace.wait_until_bound(1, timeout=PATIENCE)
    assert node_of(bound) == free
    namespace.wait_for_phase(bound["metadata"]["name"], "Running")


def test_gang_by_label_and_size_runs_as_a_whole(
    way: str, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(deployment("duo", labelled(ours("x", cpu="1"), "duo", 2), 2))
    pods = namespace.wait_until_bound(2, timeout=PATIENCE)
    name = DIRECT_SCHEDULER_NAME if way == "direct" else SCHEDULER_NAME
    assert {one["spec"]["schedulerName"] for one in pods} == {name}
    assert fluence.wait_for_state(namespace.name, "duo", "bound")["size"] == 2


def test_of_two_gangs_with_room_for_one_the_loser_has_no_node_at_all(
    way: str, gang: Gang, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(3, cpu="1")
    for name in ("alpha", "beta"):
        namespace.create(*gang(name, ours("x", cpu="1"), 2))
    winner, loser = settled(fluence, namespace, ("alpha", "beta"))
    passed_by(fluence, namespace)
    assert {name: len(pods) for name, pods in bound_by_group(namespace).items()} == {winner: 2}
    assert not any(name.startswith(loser) for name in history.names())
    losing = fluence.wait_for_reason(namespace.name, loser, "busy: 1 of 2 fit now, short of cpu")
    assert [one["node"] for one in losing["members"]] == ["", ""]
    assert {one["pod"].partition("-")[0] for one in fluence.allocations(namespace.name)} == {winner}
    path = f"/apis/apps/v1/namespaces/{namespace.name}/deployments/{winner}"
    namespace.api.delete(path, propagationPolicy="Background")
    wait_for(lambda: len(bound_by_group(namespace).get(loser, ())) == 2, PATIENCE, "the loser to be bound")
    fluence.wait_for_state(namespace.name, loser, "bound")
    assert (placed_at_once if way == "direct" else bound_at_once)(fluence, namespace.name, loser)


def settled(fluence: Fluence, namespace: Namespace, groups: tuple[str, str]) -> tuple[str, str]:
    """Wait until one gang is bound and the other waits for room; (winner, loser)."""
    namespace.wait_until_bound(2, timeout=PATIENCE)
    return split(fluence, namespace, groups)


def test_of_two_indexed_jobs_the_loser_runs_in_full_once_the_winner_completes(
    way: str, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="3")
    for name in ("one", "two"):
        namespace.create(indexed_job(name, ours("x", cpu="1"), 2))
    winner, loser = settled(fluence, namespace, ("one", "two"))
    history.wait(2)
    assert [one.partition("-")[0] for one in history.names()] == [winner, winner]
    assert placed_at_once(fluence, namespace.name, winner)
    for one in bound_by_group(namespace)[winner]:
        path = f"/api/v1/namespaces/{namespace.name}/pods/{one['metadata']['name']}"
        namespace.api.patch(path, {"metadata": {"annotations": {RUN_FOR: "100ms"}}})

    def done(pods: Sequence[Manifest]) -> bool:
        started = [one for one in pods if one["metadata"]["name"].startswith(f"{loser}-")]
        return len(started) == 2 and all(phase_of(one) in ("Running", "Succeeded") for one in started)

    namespace.wait_for_pods(done, "the loser to run in full", PATIENCE)
    history.wait(4)
    fluence.wait_for_state(namespace.name, loser, "bound")
    assert placed_at_once(fluence, namespace.name, loser)
    when = {
        name: [at for at, one in history.bound.values() if one["metadata"]["name"].startswith(f"{name}-")]
        for name in (winner, loser)
    }
    assert max(when[winner]) < min(when[loser])
    assert completed(namespace.api, namespace.name, winner) == 2


def completed(api: Api, namespace: str, job: str) -> int:
    """How many pods of a Job have succeeded."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job}"
    return int(wait_for(lambda: api.get(path)["status"].get("succeeded", 0) == 2 and 2, what=f"{job} to end"))
