"""The nodes whose kubelets are played: their manifests, and creating and deleting many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.localcluster.api import Api, Manifest
from tests.localcluster.errors import ApiError, TimedOut
from tests.localcluster.process import poll

NODES = "/api/v1/nodes"
PARALLEL_WRITES = 16

CONDITIONS = (
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasNoPressure"),
    ("DiskPressure", "False", "KubeletHasNoPressure"),
    ("PIDPressure", "False", "KubeletHasNoPressure"),
)


def resource_list(
    cpu: str | int,
    memory: str | int,
    pods: int,
    ephemeral_storage: str | int,
    extended: Mapping[str, int],
) -> dict[str, str]:
    """Return a node's resources in the wire form."""
    fixed = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": ephemeral_storage}
    return {name: str(amount) for name, amount in {**fixed, **extended}.items()}


def node_manifest(
    name: str,
    resources: Mapping[str, str],
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> Manifest:
    """Return a node that is created Ready and has ``resources`` both as capacity and as allocatable."""
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    conditions = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in CONDITIONS]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **labels}},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"capacity": dict(resources), "allocatable": dict(resources), "conditions": conditions},
    }


def is_ready(node: Mapping[str, Any]) -> bool:
    """Return whether ``node`` is Ready and no longer has the taint that the API server gives each new node."""
    conditions = node["status"].get("conditions") or ()
    taints = node["spec"].get("taints") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions) and not any(
        taint["key"] == "node.kubernetes.io/not-ready" for taint in taints
    )


def create_nodes(api: Api, manifests: Sequence[Manifest], timeout: float) -> None:
    """Create the nodes, many at once, and wait until all are Ready.

    Raise `ApiError` (409 if a name is taken) or `TimedOut`.
    """
    with ThreadPoolExecutor(PARALLEL_WRITES) as pool:
        list(pool.map(lambda manifest: api.request("POST", NODES, manifest), manifests))
    wanted = {manifest["metadata"]["name"] for manifest in manifests}

    def all_ready() -> bool:
        # Version 0 reads the API server's cache, which is what a watch would show.
        nodes = api.get(NODES, resourceVersion="0")["items"]
        ready = {node["metadata"]["name"] for node in nodes if is_ready(node)}
        return wanted <= ready

    if not poll(all_ready, timeout, 0.1 if len(wanted) < 200 else 0.5):
        raise TimedOut(f"{len(wanted)} nodes to be Ready", timeout)


def delete_nodes(api: Api, names: Sequence[str]) -> None:
    """Delete those of the nodes that exist; their pods stay until they are deleted."""

    def delete(name: str) -> None:
        try:
            api.delete(f"{NODES}/{name}")
        except ApiError as error:
            if error.status != 404:
                raise

    with ThreadPoolExecutor(PARALLEL_WRITES) as pool:
        list(pool.map(delete, names))
