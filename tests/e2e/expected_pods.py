"""Jobs placed before their pods exist, and a leader that a test plays with the rights of the service's account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    DIRECT_SCHEDULER_NAME,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from fluence_extender.model.notation import format_time
from tests.e2e.harness import Manifest, Namespace, annotations_of, job, wait_for
from tests.e2e.workloads import ours
from tests.localcluster import Api, ApiError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ranks(name: str, count: int, template: Manifest | None = None, **spec: Any) -> Manifest:
    """An Indexed Job of ours whose pods all exist at once."""
    return job(name, template or ours("x"), parallelism=count, **{"completionMode": "Indexed", **spec})


def path_of(namespace: Namespace, name: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace.name}/jobs/{name}"


def tried(namespace: Namespace, manifest: Manifest, api: Api | None = None) -> Manifest:
    """The object as the API server would create it. Raises `ApiError`."""
    api = api or namespace.api
    collection = api.path_of(manifest, namespace.name).rpartition("/")[0]
    return api.request("POST", collection, manifest, query={"dryRun": "All"})


def held(stored: Manifest) -> bool:
    """Whether admission has suspended the Job, and nobody has resumed it."""
    notes = stored["metadata"].get("annotations") or {}
    return stored["spec"].get("suspend") is True and notes.get(SUSPENDED_FOR_ANNOTATION) == (
        SUSPENDED_FOR_PLACEMENT
    )


def keys_of(stored: Manifest) -> set[str]:
    """Which of the keys by which a Job is placed before its pods exist it has."""
    template = stored["spec"]["template"].get("metadata") or {}
    found = {
        SUSPENDED_FOR_ANNOTATION: stored["metadata"].get("annotations"),
        NODES_ANNOTATION: template.get("annotations"),
        PLACED_ANNOTATION: template.get("annotations"),
    }
    return {key for key, entries in found.items() if key in (entries or {})}


def plan(nodes: str, binds_for: float | None) -> str:
    """The annotation that names the nodes, and binds pods that are created within so many seconds, if any."""
    if binds_for is None:
        return nodes
    return f"{nodes};{format_time(datetime.now(UTC) + timedelta(seconds=binds_for))}"


@dataclass(frozen=True, slots=True)
class Leader:
    """Does what the leading replica does, under the account of the service."""

    api: Api

    def resume(
        self, namespace: Namespace, name: str, nodes: Sequence[str], binds_for: float | None = None
    ) -> Manifest:
        """Resume a Job with the nodes of its pods by index, by the one write; pods are bound for so many seconds."""

        def resumed() -> Manifest | None:
            try:
                return self._resume(namespace, name, plan(",".join(nodes), binds_for) if nodes else "")
            except ApiError as error:
                # The Job controller has written its status meanwhile.
                if error.status != HTTPStatus.CONFLICT:
                    raise
            return None

        return wait_for(resumed, what="the version that is patched to be the newest")

    def _resume(self, namespace: Namespace, name: str, nodes: str) -> Manifest:
        now = namespace.api.get(path_of(namespace, name))["metadata"]
        metadata = {key: now[key] for key in ("uid", "resourceVersion")}
        notes = {
            NODES_ANNOTATION: nodes or None,
            PLACED_ANNOTATION: f"{len(nodes.split(','))} job/{name}" if nodes else None,
        }
        body = {
            "metadata": {**metadata, "annotations": {SUSPENDED_FOR_ANNOTATION: None}},
            "spec": {
                "suspend": False,
                "template": {"metadata": {"annotations": notes}},
            },
        }
        return self.api.patch(path_of(namespace, name), body)

    def suspend(self, namespace: Namespace, name: str) -> Manifest:
        """Suspend a Job again until there are other places."""
        notes = {SUSPENDED_FOR_ANNOTATION: SUSPENDED_FOR_PLACEMENT}
        body = {"metadata": {"annotations": notes}, "spec": {"suspend": True}}
        return self.api.patch(path_of(namespace, name), body)


def as_created_by_its_job(
    nodes: str | None, index: str = "0", uid: str = "u", template: Manifest | None = None
) -> Manifest:
    """A pod as the Job controller creates it for a resumed Job."""
    body = template or ours("born")
    metadata = body["metadata"]
    metadata["labels"] = {**metadata["labels"], COMPLETION_INDEX: index}
    metadata["annotations"] = {**metadata["annotations"], COMPLETION_INDEX: index}
    if nodes is not None:
        metadata["annotations"][NODES_ANNOTATION] = nodes
    metadata["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    ]
    return body


def is_direct(pod: Manifest) -> bool:
    """Whether the pod waits for the service to bind it."""
    waits = pod["spec"]["schedulerName"] == DIRECT_SCHEDULER_NAME and not pod["spec"].get("nodeName")
    return waits and NODES_ANNOTATION not in annotations_of(pod)


def bound_at_birth(pod: Manifest) -> str:
    """The node to which a pod was bound by its creation, "" where it wasn't."""
    notes = annotations_of(pod)
    if pod["spec"].get("schedulingGates") or NODES_ANNOTATION in notes:
        return ""
    assert PLACED_ANNOTATION in notes
    return str(pod["spec"].get("nodeName", ""))


def pods_of(namespace: Namespace, count: int) -> list[Manifest]:
    """The pods of the namespace by completion index, once that many exist and none is being deleted."""
    found = namespace.wait_for_pods(
        lambda pods: len(pods) == count and not any("deletionTimestamp" in one["metadata"] for one in pods),
        f"{count} pods",
    )
    return sorted(found, key=index_of)


def index_of(one: Manifest) -> int:
    return int(annotations_of(one)["batch.kubernetes.io/job-completion-index"])


def created(namespace: Namespace, manifest: Manifest) -> Manifest:
    (stored,) = namespace.create(manifest)
    return stored


def suspended(namespace: Namespace, name: str) -> bool:
    """Whether the Job controller has taken note that the Job is suspended."""
    status = namespace.api.get(path_of(namespace, name))["status"]
    return any(
        one["type"] == "Suspended" and one["status"] == "True" for one in status.get("conditions") or ()
    )


def resumed(leader: Leader, namespace: Namespace, manifest: Manifest, *nodes: str) -> Manifest:
    """The Job, created and then resumed with these nodes."""
    name = created(namespace, manifest)["metadata"]["name"]
    return leader.resume(namespace, name, nodes)


def wait_until_in_force(api: Api) -> None:
    """Wait until policies and rights count, a moment after they were created."""
    default = Namespace("default", api)
    wait_for(lambda: held(tried(default, ranks("probe", 2))), what="Jobs to be suspended")
    wait_for(lambda: is_direct(tried(default, ours("probe"))), what="pods to be direct")


def refusal(attempt: Callable[[], object]) -> str:
    """Why the API server refuses it, "" where it doesn't."""
    try:
        attempt()
    except ApiError as error:
        return str(error)
    return ""


def resumed_by_user(namespace: Namespace, name: str) -> bool:
    """Have a Job resumed by its user; return whether the API server lets him, as it does once its plan is old."""
    return not refusal(lambda: namespace.api.patch(path_of(namespace, name), {"spec": {"suspend": False}}))
