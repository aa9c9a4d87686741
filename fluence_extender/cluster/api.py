"""The writes, on a real API server.

Invariant: every write carries the uid of the pod it is meant for, and may be repeated: what has been done
already is a success. Rules of the API server relied on (Kubernetes 1.36, pkg/registry/core/pod): a Binding's
metadata.uid is a precondition and its annotations are merged into the pod; a bound, gated or deleting pod is
not bound (409); a nomination of a bound pod is invalid (422).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from fluence_extender.cluster import wire
from fluence_extender.cluster.affinity import required_affinity
from fluence_extender.cluster.budgets import decode_budgets, forbidding
from fluence_extender.cluster.connection import STRATEGIC_PATCH, Connection, Request
from fluence_extender.cluster.discovery import Discovery
from fluence_extender.cluster.errors import Busy, Invalid, NoAnswer
from fluence_extender.cluster.events import EventRecorder
from fluence_extender.cluster.group_status import (
    condition_patch,
    members_patch,
    status_path,
    waiting_condition,
)
from fluence_extender.cluster.port import (
    AlreadyBound,
    Conflict,
    Disrupted,
    Forbidding,
    Gone,
    Kind,
    Pin,
    Regarding,
)
from fluence_extender.model.names import PINNED_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup

MERGE_PATCH = "application/merge-patch+json"
BUDGETS = "/apis/policy/v1"
COSCHEDULING = "/apis/scheduling.x-k8s.io/v1alpha1"
BRIEFLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The answer to a patch isn't read: the API server needn't write out the whole pod."""

UNMANAGED: list[dict[str, str]] = [{}]
"""What empties metadata.managedFields (Kubernetes documentation, "Server-Side Apply", clearing managedFields)."""

READ_BACK_LIMIT = 4.0
EVICTED = "Evicted"

_pod = msgspec.json.Decoder(wire.PodObject).decode


class ApiCluster:
    """`Cluster` over a `Connection`; ``recorder`` writes its Events."""

    def __init__(self, connection: Connection, recorder: EventRecorder) -> None:
        self._connection = connection
        self._recorder = recorder
        self._discovery = Discovery(connection)
        self._groups: str | None = None

    async def nominate(self, pod: Pod, node: str) -> None:
        """See `Cluster.nominate`. One PATCH of pods/status."""
        body = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
        attempt = f"nominate a node for pod {pod.key}"
        request = Request("PATCH", _path(pod, "/status"), attempt, None, body, MERGE_PATCH, BRIEFLY)
        try:
            await self._connection.call(request)
        except (Conflict, Invalid):
            if not (await self._read(pod)).spec.get("nodeName"):
                raise

    async def ungate(self, pod: Pod, gate: str, pin: Pin | None = None) -> None:
        """See `Cluster.ungate`. One patch; others' gates stay.

        Gates are only ever removed, so that a pod with no other gate has none afterwards; a merge patch that says so
        costs the API server a sixth less than a strategic one, which tells gates apart by name. A pod that is pinned
        has a controller, which nobody writes beside: from then on at the latest the API server keeps no account of who
        has written which of its fields.
        """
        if gate not in pod.gates:
            return
        metadata: dict[str, object] = {"uid": pod.uid}
        spec: dict[str, object] = {}
        if pin is not None:
            metadata["annotations"] = {PINNED_ANNOTATION: pin.node}
            spec["affinity"] = required_affinity(pin.affinity)
            if pod.has_managed_fields:
                metadata["managedFields"] = UNMANAGED
        alone = pod.gates == (gate,)
        spec["schedulingGates"] = None if alone else [{"$patch": "delete", "name": gate}]
        body = {"metadata": metadata, "spec": spec}
        attempt = f"remove gate {gate} of pod {pod.key}"
        kind = MERGE_PATCH if alone else STRATEGIC_PATCH
        request = Request("PATCH", _path(pod), attempt, None, body, kind, BRIEFLY)
        try:
            await self._connection.call(request)
        except (Conflict, Invalid):
            await self._read(pod)
            raise

    async def bind(self, pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        """See `Cluster.bind`. One POST; the pod is read back where the answer is no or doesn't come.

        Raises `Conflict` where the pod can't be bound as it is (gated, being deleted), and `errors.NoAnswer` where it
        isn't bound after a lost answer: then the Binding may still take effect, and the call may be repeated.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "annotations": dict(annotations),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        request = Request("POST", _path(pod, "/binding"), f"bind pod {pod.key} to {node}", None, body)
        try:
            await self._connection.call(request)
        except (Conflict, NoAnswer) as error:
            bound = (await self._read(pod)).spec.get("nodeName")
            if bound == node:
                return
            if bound:
                raise AlreadyBound(f"pod {pod.key} is bound to {bound}, not to {node}", bound) from error
            raise

    async def evict(self, pod: Pod, reason: str) -> None:
        """See `Cluster.evict`. One POST of policy/v1 Eviction; ``reason`` becomes an Event of the pod.

        The pod is read first: the API server tries for 10 s to evict a waiting pod whose uid is another's.
        """
        await self._read(pod)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        request = Request("POST", _path(pod, "/eviction"), f"evict pod {pod.key}", None, body)
        try:
            await self._connection.call(request, patient=False)
        except Busy as refused:
            if refused.status == 429:
                raise Disrupted(str(refused), 429) from refused
            raise
        except (Conflict, NoAnswer):
            await self._read(pod)
            raise
        await self.event(
            Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid), EVICTED, reason, warning=True
        )

    async def forbidding(self, pods: Sequence[Pod]) -> Forbidding | None:
        """See `Cluster.forbidding`. One list of the PodDisruptionBudgets in each of the pods' namespaces."""
        for namespace in sorted({pod.namespace for pod in pods}):
            path = f"{BUDGETS}/namespaces/{namespace}/poddisruptionbudgets"
            request = Request("GET", path, f"list the PodDisruptionBudgets of namespace {namespace}")
            listed = decode_budgets(await self._connection.call(request))
            found = forbidding(listed, [pod for pod in pods if pod.namespace == namespace])
            if found is not None:
                return found
        return None

    async def report_pod(self, pod: Pod, message: str) -> None:
        """See `Cluster.report_pod`. One PATCH of pods/status, of the version that was seen."""
        seen = {"uid": pod.uid, "resourceVersion": pod.resource_version}
        body = {"metadata": seen, "status": {"conditions": [waiting_condition(message)]}}
        attempt = f"say why pod {pod.key} waits"
        request = Request("PATCH", _path(pod, "/status"), attempt, None, body, STRATEGIC_PATCH, BRIEFLY)
        await self._connection.call(request)

    async def report_group(self, group: PodGroup, scheduled: bool, reason: str, message: str) -> None:
        """See `Cluster.report_group`. One PATCH of podgroups/status; nothing where no PodGroups are served."""
        if self._groups is None:
            self._groups = await self._discovery.find(Kind.POD_GROUP)
        if self._groups is None:
            return
        body = condition_patch(self._groups, group, scheduled, reason, message)
        path = status_path(self._groups, group)
        attempt = f"write the status of PodGroup {group.namespace}/{group.name}"
        await self._connection.call(Request("PATCH", path, attempt, None, body, STRATEGIC_PATCH))

    async def report_members(self, group: CoschedulingGroup, status: MemberStatus) -> None:
        """See `Cluster.report_members`. One PATCH of podgroups/status."""
        path = f"{COSCHEDULING}/namespaces/{group.namespace}/podgroups/{group.name}/status"
        attempt = f"write the status of PodGroup {group.namespace}/{group.name}"
        body = members_patch(group, status)
        await self._connection.call(Request("PATCH", path, attempt, None, body, MERGE_PATCH))

    async def event(self, regarding: Regarding, reason: str, message: str, warning: bool = False) -> None:
        """See `Cluster.event`. Returns at once; the recorder writes it soon."""
        self._recorder.record(regarding, reason, message, warning)

    async def _read(self, pod: Pod) -> wire.PodObject:
        """The pod as it is now. Raises `Gone` where it, or the pod of that uid, is no more."""
        request = Request("GET", _path(pod), f"read pod {pod.key}")
        now = _pod(await self._connection.call(request, READ_BACK_LIMIT))
        if now.metadata.uid != pod.uid:
            raise _replaced(pod)
        return now


@asynccontextmanager
async def open_cluster(connection: Connection) -> AsyncIterator[ApiCluster]:
    """An `ApiCluster` whose events are written while the context lasts, the last ones at its end."""
    recorder = EventRecorder(connection)
    writing = asyncio.create_task(recorder.run(), name="write events")
    try:
        yield ApiCluster(connection, recorder)
    finally:
        writing.cancel()
        await asyncio.wait([writing])
        await recorder.flush()


def _path(pod: Pod, subresource: str = "") -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}{subresource}"


def _replaced(pod: Pod) -> Gone:
    return Gone(f"pod {pod.key} (uid {pod.uid}) is gone; another one of that name took its place", 404)
