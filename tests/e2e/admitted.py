"""Pods that the webhook has admitted: what their containers will see, and the groups they are in."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from fluence_extender.model.coordination import (
    COORDINATION_ANNOTATION,
    OBSERVE_LABEL,
    SIDECAR_ACCOUNT,
    TOKEN_KEY,
)
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.e2e.workloads import QPU, labelled, ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.stack import Webhook

REGISTRATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fluence-webhook"
INDEX = "batch.kubernetes.io/job-completion-index"
READY_GATE = "quantum.braket/ready"
BACKEND = "FLUXION_BACKEND"


@contextmanager
def registered(plane: ControlPlane, *arguments: str) -> Iterator[Webhook]:
    """While this lasts the API server calls a webhook of ours; afterwards it calls none."""
    try:
        with Webhook(plane, arguments=arguments) as webhook:
            wait_until_called(plane.api)
            yield webhook
    finally:
        # Not before it has ended: it puts a registration back that goes meanwhile.
        remove(plane.api, REGISTRATION)


def remove(api: Api, path: str) -> None:
    """Delete the object at ``path`` until it is gone. A write that was under way may have put it back."""

    def gone() -> bool:
        try:
            api.delete(path)
        except ApiError as error:
            return error.status == HTTPStatus.NOT_FOUND
        return False

    wait_for(gone, what=f"{path} to be gone")


def wait_until_called(api: Api) -> None:
    """Wait until the API server has read the registration, which it does a moment after it was written."""
    path = "/api/v1/namespaces/default/pods"

    def called() -> bool:
        return BACKEND in environment(api.request("POST", path, quantum("probe"), query={"dryRun": "All"}))

    wait_for(called, what="the API server to call the webhook")


def wait_for_contract(namespace: Namespace, variable: str) -> None:
    """Wait until new pods have a variable: until the webhook has read resources.yaml."""
    wait_for(lambda: variable in new_variables(namespace, quantum("probe")), what=f"{variable} in new pods")


def new_variables(namespace: Namespace, pod: Manifest) -> set[str]:
    """The variables that a pod would have if it were created now."""
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    return set(environment(namespace.api.request("POST", path, pod, query={"dryRun": "All"})))


def quantum(name: str, group: str = "", **said: Any) -> Manifest:
    """A pod with one qpu; ``mode``, ``index``, ``observe`` and ``size`` are said where users say them."""
    notes = {COORDINATION_ANNOTATION: said.pop("mode", None), INDEX: said.pop("index", None)}
    labels = {OBSERVE_LABEL: said.pop("observe", None)}
    size = said.pop("size", None)
    body = ours(name, cpu=said.pop("cpu", "1"), requests={QPU: 1, **said.pop("requests", {})}, **said)
    body["metadata"]["annotations"] |= {key: value for key, value in notes.items() if value}
    body["metadata"]["labels"] |= {key: value for key, value in labels.items() if value}
    return labelled(body, group, size) if group else body


def containers(pod: Manifest) -> dict[str, Manifest]:
    """All containers by name, init containers too."""
    spec = pod["spec"]
    return {one["name"]: one for one in [*spec.get("initContainers", ()), *spec["containers"]]}


def environment(pod: Manifest, container: str = "main") -> dict[str, str]:
    """The variables that kubelet would give the container now (downward API, core/v1 ObjectFieldSelector)."""
    found: dict[str, str] = {}
    for one in containers(pod)[container].get("env") or ():
        found[one["name"]] = one["value"] if "value" in one else _field(pod, one["valueFrom"])
    return found


def _field(pod: Manifest, source: Manifest) -> str:
    path = source["fieldRef"]["fieldPath"]
    keyed = re.fullmatch(r"metadata\.(annotations|labels)\['(.+)'\]", path)
    if keyed:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    value: Any = pod
    for step in path.split("."):
        value = value[step]
    return str(value)


def sidecars_token(namespace: Namespace) -> str:
    """The token that the namespace's sidecars have now, "" while there is none."""
    path = f"/api/v1/namespaces/{namespace.name}/secrets/{SIDECAR_ACCOUNT}"
    with suppress(ApiError):
        data = namespace.api.get(path).get("data") or {}
        return base64.b64decode(data.get(TOKEN_KEY, "")).decode()
    return ""


def groups(api: Api, namespace: str) -> dict[str, Manifest]:
    """The native PodGroups of a namespace by name."""
    for version in ("v1beta1", "v1alpha3", "v1alpha2"):
        try:
            listed = api.get(f"/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        else:
            return {one["metadata"]["name"]: one for one in listed["items"]}
    raise AssertionError("no PodGroups are served")


def sizes(namespace: Namespace) -> dict[str, int]:
    """The minCount of each PodGroup that there is."""
    return {
        name: one["spec"]["schedulingPolicy"]["gang"]["minCount"]
        for name, one in groups(namespace.api, namespace.name).items()
    }


def wait_for_sizes(namespace: Namespace, wanted: dict[str, int]) -> None:
    """Wait until there are exactly these PodGroups, of these sizes."""
    wait_for(lambda: sizes(namespace) == wanted, what=f"PodGroups {wanted}", seen=lambda: sizes(namespace))


def gates_of(pod: Manifest) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def release(namespace: Namespace, name: str, **notes: str) -> None:
    """What a producer's sidecar does to a consumer: annotate it, then remove its gate by name."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"
    namespace.api.patch(path, {"metadata": {"annotations": notes}})
    opened = {"spec": {"schedulingGates": [{"name": READY_GATE, "$patch": "delete"}]}}
    namespace.api.patch(path, opened, "application/strategic-merge-patch+json")
