"""A small cluster autoscaler with one group of equal nodes, by the rules that Cluster Autoscaler and Karpenter publish.

For pods: it counts those whose condition PodScheduled is False for the reason Unschedulable, that have no node, and
that name no ProvisioningRequest. Karpenter leaves out those that are nominated. Neither looks at gates. What fits on
the nodes that are there needs no others. Our mark is left out of pods, as docs/operations.md has it set up.

For ProvisioningRequests of the class best-effort-atomic-scale-up, as Cluster Autoscaler: it takes one up, asks what of
its pods doesn't fit on the nodes that are there, and adds the nodes for all of that or none. It fails a request whose
templates it doesn't find.

It removes nodes of its own on which nothing runs, unless an annotation forbids it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fluence_extender.localcluster import ApiError
from fluence_extender.localcluster.nodes import delete_nodes
from fluence_extender.model.names import ATOMIC_CLASS, CONSUMES_ANNOTATION, KEEPING, MARK_RESOURCE
from tests.e2e.harness import Cluster, Manifest, annotations_of, node_of, phase_of
from tests.e2e.kubelet_admission import amounts, effective_requests
from tests.e2e.nodes import NodeFactory

REQUESTS = "/apis/autoscaling.x-k8s.io/v1"
WHEN = "2026-01-01T00:00:00Z"


def asks_for_nodes(pod: Manifest) -> bool:
    """Whether autoscalers add nodes for a pod."""
    conditions = pod["status"].get("conditions") or ()
    said = [(one["status"], one.get("reason")) for one in conditions if one["type"] == "PodScheduled"]
    waits = not node_of(pod) and not pod["status"].get("nominatedNodeName")
    left_out = "deletionTimestamp" in pod["metadata"] or CONSUMES_ANNOTATION in annotations_of(pod)
    return waits and not left_out and said == [("False", "Unschedulable")]


class Autoscaler:
    """Adds nodes of ``shape``, ``most`` at all and ``at_once`` in one step.

    A node needs ``boots`` steps to join after it was added for a ProvisioningRequest.
    """

    def __init__(
        self,
        cluster: Cluster,
        nodes: NodeFactory,
        most: int,
        at_once: int = 100,
        boots: int = 0,
        **shape: Any,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._most = most
        self._at_once = at_once
        self._boots = boots
        self._coming: list[int] = []
        self._shape = shape
        self.added: list[str] = []

    def step(self) -> list[str]:
        """Add the nodes that are lacking now; return all that were added so far."""
        asked = [effective_requests(one["spec"]) for one in self._cluster.pods() if asks_for_nodes(one)]
        unmarked = [{name: amount for name, amount in one.items() if name != MARK_RESOURCE} for one in asked]
        self._add(min(self._lacking(unmarked), self._at_once, self._most - len(self.added)))
        return self.added

    def provision(self) -> list[str]:
        """Take up the next ProvisioningRequest, and let nodes join that were added; return those that have joined."""
        joined, self._coming = self._coming.count(0), [left - 1 for left in self._coming if left]
        self._add(joined)
        for request in self._requests():
            said = {one["type"]: one["status"] for one in request.get("status", {}).get("conditions") or ()}
            atomic = request["spec"]["provisioningClassName"] == ATOMIC_CLASS
            if not atomic or "True" in (said.get("Provisioned"), said.get("Failed")):
                continue
            self._write(request, "Accepted", "True", "Accepted", "ProvisioningRequest is accepted")
            try:
                pods = list(self._pods_of(request))
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                self._write(request, "Failed", "True", "FailedToCreatePods", "missing pod templates")
                break
            lacking = self._lacking(map(effective_requests, pods))
            if lacking > self._most - len(self.added) - len(self._coming):
                self._write(request, "Provisioned", "False", "CapacityIsNotFound", "Capacity is not found")
                break
            self._coming += [self._boots] * lacking
            self._write(request, "Provisioned", "True", "CapacityIsProvisioned", "Capacity is found")
            break
        return self.added

    def fail(self, message: str) -> None:
        """Fail all requests."""
        for request in self._requests():
            self._write(request, "Failed", "True", "OutOfQuota", message)

    def remove_empty(self) -> list[str]:
        """Remove its empty nodes, unless an annotation forbids it; return those that are left."""
        used = {node_of(one) for one in self._cluster.pods()}
        nodes = self._cluster.nodes()
        for name in [one for one in self.added if one not in used]:
            if all(annotations_of(nodes[name]).get(key) != "true" for key in KEEPING):
                delete_nodes(self._cluster.api, [name])
                self.added.remove(name)
        return self.added

    def _add(self, count: int) -> None:
        for _ in range(count):
            self.added += self._nodes(1, prefix="grown", **self._shape)

    def _requests(self) -> list[Manifest]:
        found: list[Manifest] = self._cluster.api.get(f"{REQUESTS}/provisioningrequests")["items"]
        return found

    def _pods_of(self, request: Manifest) -> Iterable[Manifest]:
        """The specs of a request's pods."""
        namespace = request["metadata"]["namespace"]
        for one in request["spec"]["podSets"]:
            path = f"/api/v1/namespaces/{namespace}/podtemplates/{one['podTemplateRef']['name']}"
            template = self._cluster.api.get(path)
            yield from [template["template"]["spec"]] * one["count"]

    def _write(self, request: Manifest, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition of a request."""
        metadata, api = request["metadata"], self._cluster.api
        path = f"{REQUESTS}/namespaces/{metadata['namespace']}/provisioningrequests/{metadata['name']}"
        now = api.get(path)
        others = [one for one in now.get("status", {}).get("conditions") or () if one["type"] != kind]
        said = {"type": kind, "status": status, "reason": reason, "message": message}
        conditions = [*others, {**said, "lastTransitionTime": WHEN}]
        api.request("PUT", f"{path}/status", {**now, "status": {"conditions": conditions}})

    def _lacking(self, asked: Iterable[Mapping[str, int]]) -> int:
        """How many more nodes these pods need, placed where they fit first, those with the most cores before others."""
        pods = [one for one in self._cluster.pods() if phase_of(one) not in ("Succeeded", "Failed")]
        free = {
            name: Counter(amounts(node["status"]["allocatable"]))
            for name, node in self._cluster.nodes().items()
        }
        for pod in pods:
            if node_of(pod) in free:
                free[node_of(pod)].subtract({**effective_requests(pod["spec"]), "pods": 1})
        there = list(free.values())
        lacking = 0
        for requests in sorted(asked, key=lambda one: -one.get("cpu", 0)):
            wanted = {"pods": 1, **requests}
            if not _put(wanted, there):
                added = Counter(amounts({"pods": "110", "memory": "32Gi", **self._shape}))
                if _put(wanted, [added]):
                    there.append(added)
                    lacking += 1
        return lacking


def _put(wanted: Mapping[str, int], nodes: Iterable[Counter[str]]) -> bool:
    """Take ``wanted`` from the first node that has it; return whether one has."""
    for free in nodes:
        if all(free[name] >= amount for name, amount in wanted.items()):
            free.subtract(wanted)
            return True
    return False
