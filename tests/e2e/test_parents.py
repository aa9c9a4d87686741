"""Pods and what makes pods, as users come and go with them: running in seconds, and gone with their parent."""

from __future__ import annotations

import pytest

from fluence_extender.cluster.events import CONTROLLER
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME
from tests.e2e.harness import Manifest, Namespace, job, phase_of, pod, wait_for
from tests.e2e.installation import gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, indexed_job, ours
from tests.localcluster import Component

POD_RUNS, PARENT_RUNS, GONE = 10.0, 15.0, 5.0
"""Seconds that users wait at most for a pod, for the pods of a parent, and until a deleted pod is gone."""

APIS = {"Job": "batch/v1/namespaces/{}/jobs", "Deployment": "apps/v1/namespaces/{}/deployments"} | {
    kind: f"apps/v1/namespaces/{{}}/{kind.lower()}s" for kind in ("ReplicaSet", "StatefulSet")
}


def parent(kind: str, replicas: int) -> Manifest:
    """An object of that kind that makes ``replicas`` pods of ours."""
    if kind == "Job":
        return job("work", ours("x", cpu="1"), parallelism=replicas)
    made = deployment("work", ours("x", cpu="1"), replicas) | {"kind": kind}
    if kind == "StatefulSet":
        made["spec"] |= {"serviceName": "work"}
    return made


def test_pod_runs_and_leaves_its_cores_when_it_is_deleted(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    (node,) = own_nodes(1, cpu="1")
    namespace.create(ours("alone", cpu="1"))
    running = namespace.wait_for_phase("alone", "Running", POD_RUNS)
    assert (running["spec"]["schedulerName"], gates_of(running)) == (DIRECT_SCHEDULER_NAME, [])
    namespace.delete_pod("alone", grace=1)
    wait_for(lambda: not namespace.pods(), GONE, "the pod to go", seen=namespace.pods)
    wait_for(lambda: fluence.get(f"/v1/nodes/{node}")["free"]["cpu"] == 1, GONE, "its core to be free")
    namespace.create(ours("next", cpu="1"))
    namespace.wait_for_phase("next", "Running", POD_RUNS)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("kind", list(APIS))
def test_pods_of_a_parent_run_and_go_with_it(
    kind: str, replicas: int, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu=str(replicas))
    namespace.create(parent(kind, replicas))

    def all_run(pods: list[Manifest]) -> bool:
        return len(pods) == replicas and all(phase_of(one) == "Running" for one in pods)

    pods = namespace.wait_for_pods(lambda found: all_run(list(found)), "its pods to run", PARENT_RUNS)
    assert {one["spec"]["schedulerName"] for one in pods} == {"fluence-direct"}
    path = f"/apis/{APIS[kind].format(namespace.name)}/work"
    namespace.api.delete(path, propagationPolicy="Background")
    wait_for(lambda: not namespace.pods(), PARENT_RUNS, "the pods to go", seen=namespace.pods)
    wait_for(lambda: not fluence.allocations(namespace.name), GONE, "their share to be free")


def test_jobs_of_both_schedulers_run_side_by_side_and_events_say_who_placed_which(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, default_scheduler: Component | None
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(indexed_job("ours", ours("x", cpu="500m"), 2), job("theirs", pod("x", cpu="1")))
    pods = namespace.wait_until_bound(3)
    schedulers = {one["metadata"]["name"].partition("-")[0]: one["spec"]["schedulerName"] for one in pods}
    assert schedulers == {"ours": DIRECT_SCHEDULER_NAME, "theirs": "default-scheduler"}

    def reporters() -> dict[str, str]:
        events = namespace.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events")["items"]
        return {
            one["regarding"]["name"].partition("-")[0]: one["reportingController"]
            for one in events
            if one["reason"] == "Scheduled"
        }

    told = {"ours": CONTROLLER, "theirs": "default-scheduler"}
    wait_for(lambda: reporters() == told, what="the Scheduled events", seen=reporters)
