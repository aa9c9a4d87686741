"""What-if without the service: an embedded cluster with the objects of a real one, and the service on it.

Invariant: the question is answered by the same code as on a live cluster. Only the API server is another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import msgspec

from fluence_extender.apiserver.defaults import KINDS as ADMISSION_KINDS
from fluence_extender.apiserver.defaults import AdmissionObjects
from fluence_extender.apps.extender.app import serving
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.budgets import Budget, decode_budget
from fluence_extender.cluster.decode.node import decode_node
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import ResourcesFile, TryPod, Watched
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.graph.cluster_graph import check_against_cluster
from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.job import decode_job
from fluence_extender.kinds.pod_sets import BadManifest, Json
from fluence_extender.kinds.registry import describing
from fluence_extender.model.node import Node
from fluence_extender.objects.devices import (
    read_device_class,
    read_resource_claim,
    read_resource_claim_template,
    read_resource_slice,
)
from fluence_extender.objects.meta import ObjectHead
from fluence_extender.objects.queues import read_priority_class, read_queue, read_reservation
from fluence_extender.objects.resource_quota import read_resource_quota

Trials = Callable[[], AbstractAsyncContextManager[TryPod | None]]
"""Yields what tries pods; nothing for the embedded cluster's own admission."""

DECODERS: Mapping[str, Callable[[bytes], Watched]] = {
    "Job": decode_job,
    "Queue": read_queue,
    "Reservation": read_reservation,
    "ResourceQuota": read_resource_quota,
    "ResourceSlice": read_resource_slice,
    "DeviceClass": read_device_class,
    "ResourceClaim": read_resource_claim,
    "ResourceClaimTemplate": read_resource_claim_template,
}


@dataclass(slots=True)
class ClusterObjects:
    """The objects of a cluster that placement depends on.

    ``watched`` are those that the service follows, and ``admission`` those that its API server consults. ``budgets``
    are the PodDisruptionBudgets, None if they weren't given.
    """

    watched: list[Watched] = field(default_factory=list)
    admission: list[Json] = field(default_factory=list)
    budgets: list[Budget] | None = None

    @property
    def nodes(self) -> list[Node]:
        """The nodes among them."""
        return [one for one in self.watched if isinstance(one, Node)]


class _Conditions(msgspec.Struct):
    conditions: list[msgspec.Raw] | None = None


class _Outline(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    metadata: ObjectHead | None = None
    status: _Conditions | None = None


_outline = msgspec.json.Decoder(_Outline).decode


def cluster_objects(objects: Iterable[tuple[str, bytes]]) -> ClusterObjects:
    """Decode the objects of a cluster, each given as its kind and as JSON. Raise `BadManifest`."""
    cluster = ClusterObjects()
    for number, (kind, raw) in enumerate(objects):
        try:
            _add(cluster, kind, raw, number)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadManifest(f"{kind} {_name(raw) or number}: {error}") from error
    if not cluster.nodes:
        raise BadManifest("there is no Node among the nodes")
    return cluster


def _add(cluster: ClusterObjects, kind: str, raw: bytes, number: int) -> None:
    match kind:
        case "Node":
            cluster.watched.append(_node(raw))
        case "Pod":
            pod = decode_pod(raw)
            cluster.watched.append(pod if pod.uid else replace(pod, uid=f"pod-{number}"))
        case "PodDisruptionBudget":
            cluster.budgets = [*(cluster.budgets or ()), decode_budget(raw)]
        case _ if kind in ADMISSION_KINDS:
            cluster.admission.append({**msgspec.json.decode(raw), "kind": kind})
            if kind == "PriorityClass":
                cluster.watched.append(read_priority_class(raw))
        case _ if kind in DECODERS:
            cluster.watched.append(DECODERS[kind](raw))
        case _:
            described = describing(_outline(raw).api_version, kind)
            if described is not None:
                cluster.watched.append(described.decode(raw))


def _node(raw: bytes) -> Node:
    """Decode a node; without any conditions it counts as ready. Raise `ValueError` if it can't be read in full."""
    node, outline = decode_node(raw), _outline(raw)
    if node.problem:
        raise ValueError(node.problem)
    has_conditions = outline.status is not None and outline.status.conditions
    named = node if node.uid else replace(node, uid=f"node-{node.name}")
    return named if has_conditions else replace(named, ready=True)


def _name(raw: bytes) -> str:
    try:
        outline = _outline(raw)
    except msgspec.MsgspecError:
        return ""
    return outline.metadata.name if outline.metadata is not None else ""


def simulate_offline(
    manifests: bytes,
    cluster: ClusterObjects,
    resources: str,
    levels: Mapping[str, str],
    policy: str,
    source: str = "",
    trials: Trials = nullcontext,
) -> dict[str, Any]:
    """Return the answer of ``/v1/simulate`` to ``manifests`` on the cluster of these objects.

    ``resources`` is the text of resources.yaml and ``source`` its name in messages. Pods are tried by what ``trials``
    yields, without it by the admission of the embedded cluster. Raise `BadManifest`, `InvalidResourcesFile`, and what
    ``trials`` raises.
    """
    problems = check_against_cluster(
        parse_resources(resources, source), [node.name for node in cluster.nodes], levels
    )
    if problems:
        raise InvalidResourcesFile(problems)
    embedded = EmbeddedCluster(*cluster.watched, ResourcesFile(source or "resources.yaml", resources))
    embedded.objects = AdmissionObjects(cluster.admission)
    embedded.budgets = cluster.budgets
    settings = Settings(engine="embedded", policy=policy, port=0, api_port=0, levels=levels)

    async def ask() -> dict[str, Any]:
        async with trials() as try_pod:
            session = EmbeddedSession(embedded, try_pod)
            async with serving(settings, session, asyncio.Event()) as listeners:
                return await _answer(f"http://{listeners.api_address}", manifests)

    return asyncio.run(ask())


async def _answer(server: str, manifests: bytes) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.post(f"{server}/v1/simulate", data=manifests, headers=headers) as answer:
                document: dict[str, Any] = await answer.json(content_type=None)
                if answer.status == 200:
                    return document
                if answer.status != 503:
                    raise BadManifest(str(document.get("detail") or document))
            await asyncio.sleep(0.02)
