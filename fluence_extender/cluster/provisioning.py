"""The writes that concern autoscalers: ProvisioningRequests with their PodTemplates, and annotations of nodes.

A request is created after its templates, because Cluster Autoscaler fails a request whose templates it doesn't find.
Both belong to the gang's owners, so Kubernetes deletes them if the service doesn't.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from fluence_extender.cluster.connection import MERGE_PATCH, METADATA_ONLY, ApiRequest, Connection
from fluence_extender.cluster.errors import Conflict, Gone, Invalid
from fluence_extender.cluster.jobs import ApiJobs
from fluence_extender.cluster.port import Json, Kind
from fluence_extender.cluster.sources import Discovery
from fluence_extender.model.names import (
    CREATED_BY_ANNOTATION,
    DOMAIN,
    KEPT_ANNOTATION,
    RESOURCE_PREFIX,
    SERVICE_NAME,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Owner
from fluence_extender.model.provisioning import NodeRequest, PodSet, ProvisioningRequest

OF_A_POD = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "os",
    "overhead",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
OF_A_CONTAINER = ("name", "image", "ports", "restartPolicy")
OF_VOLUMES = ("persistentVolumeClaim", "ephemeral")
"""The fields of pods, containers and volumes that schedulers read. Templates have no others."""

OURS = (f"{DOMAIN}/", RESOURCE_PREFIX)
"""The prefixes of resources that nodes don't offer: the mark, and virtual devices."""


class ApiProvisioning:
    """This part of `port.Cluster` on an API server."""

    def __init__(self, connection: Connection, discovery: Discovery, jobs: ApiJobs) -> None:
        self._connection = connection
        self._discovery = discovery
        self._jobs = jobs

    async def request_nodes(self, wanted: NodeRequest) -> None:
        """See `Cluster.request_nodes`. For each set one GET or dry run of its pod, and one POST; then one POST."""
        listed = await self._discovery.find(Kind.PROVISIONING_REQUEST)
        if listed is None:
            raise Gone("ProvisioningRequests aren't served any more", 404)
        refs = []
        for number, one in enumerate(wanted.sets):
            name = f"{wanted.name}-{number}"
            template = {"metadata": _metadata(name, wanted), "template": template_of(await self._pod(one))}
            await self._create_template(wanted.namespace, name, template)
            refs.append({"podTemplateRef": {"name": name}, "count": one.count})
        api, _, resource = listed.rpartition("/")
        body = {
            "apiVersion": api.removeprefix("/apis/"),
            "kind": "ProvisioningRequest",
            "metadata": _metadata(wanted.name, wanted),
            "spec": {"provisioningClassName": wanted.class_name, "podSets": refs},
        }
        path = f"{api}/namespaces/{wanted.namespace}/{resource}"
        attempt = f"create ProvisioningRequest {wanted.namespace}/{wanted.name}"
        await self._connection.call(ApiRequest("POST", path, attempt, None, body))

    async def _pod(self, one: PodSet) -> Json:
        """Return the manifest of the first pod of a set."""
        pod = one.pod
        if one.job is not None:
            return await self._jobs.manifest_of(one.job, int(pod.uid.rpartition("/")[2]))
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        raw = await self._connection.call(ApiRequest("GET", path, f"read pod {pod.key}"))
        found: Json = msgspec.json.decode(raw)
        if found["metadata"]["uid"] != pod.uid:
            raise Gone(f"pod {pod.key} (uid {pod.uid}) is gone; another one of that name took its place", 404)
        return found

    async def _create_template(self, namespace: str, name: str, body: Json) -> None:
        """Create a PodTemplate, in place of one that an earlier try has left."""
        path = _templates(namespace)
        request = ApiRequest("POST", path, f"create PodTemplate {namespace}/{name}", None, body)
        try:
            await self._connection.call(request)
        except Conflict:
            await self._delete(f"{path}/{name}", f"delete PodTemplate {namespace}/{name}")
            await self._connection.call(request)

    async def withdraw_request(self, request: ProvisioningRequest) -> None:
        """See `Cluster.withdraw_request`. One DELETE of it, then one of each template that belongs to it alone."""
        listed = await self._discovery.find(Kind.PROVISIONING_REQUEST)
        key = f"{request.namespace}/{request.name}"
        if listed is not None:
            api, _, resource = listed.rpartition("/")
            path = f"{api}/namespaces/{request.namespace}/{resource}/{request.name}"
            await self._delete(path, f"delete ProvisioningRequest {key}", request.uid)
        for name in request.templates:
            if name.startswith(f"{request.name}-"):
                await self._delete(
                    f"{_templates(request.namespace)}/{name}", f"delete PodTemplate {name} of {key}"
                )

    async def _delete(self, path: str, attempt: str, uid: str = "") -> None:
        body = {"preconditions": {"uid": uid}} if uid else None
        try:
            await self._connection.call(ApiRequest("DELETE", path, attempt, None, body))
        except (Gone, Conflict):
            # It is gone, or another object has its name.
            return

    async def keep_node(self, node: Node, keys: Collection[str]) -> None:
        """See `Cluster.keep_node`. One PATCH."""
        taken_back = {key: None for key in node.kept if key not in keys}
        mark = ",".join(sorted(keys)) or None
        annotations = {**taken_back, **dict.fromkeys(keys, "true"), KEPT_ANNOTATION: mark}
        body = {"metadata": {"uid": node.uid, "annotations": annotations}}
        attempt = f"{'keep' if keys else 'stop keeping'} node {node.name} from being removed"
        path = f"/api/v1/nodes/{node.name}"
        request = ApiRequest("PATCH", path, attempt, None, body, MERGE_PATCH, METADATA_ONLY)
        try:
            await self._connection.call(request)
        except (Conflict, Invalid) as error:
            raise Gone(f"node {node.name} is another one by now", 404) from error


def template_of(pod: Json) -> Json:
    """Return the template (core/v1 PodTemplateSpec) of pods like this one, with what schedulers read."""
    spec = pod["spec"]
    containers = [_container(one) for one in spec.get("containers") or ()]
    first = [_container(one) for one in spec.get("initContainers") or ()]
    volumes = [one for one in spec.get("volumes") or () if any(kind in one for kind in OF_VOLUMES)]
    kept: Json = {key: spec[key] for key in OF_A_POD if spec.get(key) is not None}
    kept |= {"containers": containers}
    kept |= {"initContainers": first} if first else {}
    kept |= {"volumes": volumes} if volumes else {}
    return {"metadata": {"labels": pod["metadata"].get("labels") or {}}, "spec": kept}


def _container(one: Json) -> Json:
    resources = one.get("resources") or {}
    amounts = {
        part: {name: amount for name, amount in resources[part].items() if not name.startswith(OURS)}
        for part in ("requests", "limits")
        if resources.get(part)
    }
    return {**{key: one[key] for key in OF_A_CONTAINER if key in one}, "resources": amounts}


def _metadata(name: str, wanted: NodeRequest) -> Json:
    return {
        "name": name,
        "namespace": wanted.namespace,
        "annotations": {CREATED_BY_ANNOTATION: SERVICE_NAME},
        "ownerReferences": list(map(_reference, wanted.owners)),
    }


def _reference(owner: Owner) -> Json:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def _templates(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates"
