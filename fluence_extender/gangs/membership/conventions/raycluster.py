"""RayClusters whose owner wants them placed as a whole: those with the label ``ray.io/gang-scheduling-enabled``.

Others start node by node, as Ray does by itself. The size is the head and the workers asked for; what an autoscaler
adds later joins them. When a cluster with fault tolerance is deleted, and its nodes are gone, KubeRay makes one more
pod of the template of the head, which cleans up.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads, awaited, derived
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import RayCluster

CLUSTER = "ray.io/cluster"
RAY_NODE = "ray.io/is-ray-node"
NODE_TYPE, CLEANUP = "ray.io/node-type", "redis-cleanup"


def cleans_up(pod: Pod) -> bool:
    """Whether the pod looks like one of a RayCluster, with all that stands in its template, and comes after them."""
    return pod.labels.get(NODE_TYPE) == CLEANUP


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod of a RayCluster that is to be a gang."""
    name = pod.labels.get(CLUSTER)
    if not name or pod.labels.get(RAY_NODE) != "yes":
        return None
    key = GangKey(pod.namespace, name, Convention.RAY_CLUSTER)
    cluster = workloads.find(RayCluster, pod.namespace, name)
    if cluster is not None:
        return derived(pod, key, (cluster.pods, f"RayCluster {name}")) if cluster.gang else None
    if workloads.served(RayCluster):
        return derived(pod, key, awaited("RayCluster", pod.namespace, name))
    return None
