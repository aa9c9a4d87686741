"""What `simulate` predicts of manifests, and what then happens to them."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any
from urllib.request import Request, urlopen

from fluence_extender.model.coordination import COORDINATION_ANNOTATION, PRODUCER_SUFFIX, SHARED
from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.service import Fluence
from tests.localcluster import ApiError

QUIET = 1.5
"""Seconds for which nothing more is bound, before a manifest counts as one that doesn't fit."""


def bound_at_first(manifests: list[Manifest], said: dict[str, Any]) -> int:
    """How many pods are bound if what ``simulate`` says is true.

    Nobody submits the task of a shared job here, so only its producer is.
    """
    annotations = manifests[0].get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
    shared = annotations.get(COORDINATION_ANNOTATION) == SHARED and manifests[0]["spec"]["parallelism"] > 1
    fitting = (one for one in said["gangs"] if one["fits"])
    return sum(one["members"] for one in fitting if not shared or one["gang"].endswith(PRODUCER_SUFFIX))


def asked(installation: Installation, namespace: Namespace, manifests: list[Manifest]) -> dict[str, Any]:
    """What the service says of the manifests."""
    url = f"{installation.stack.api_url}/v1/simulate?namespace={namespace.name}"
    request = Request(url, json.dumps(manifests).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


def bound_in_the_end(namespace: Namespace, expected: int) -> int:
    """How many pods are bound, once it is as many as ``expected`` or no more have come for a while."""
    most, since = 0, time.monotonic()
    while time.monotonic() < since + QUIET or (most < expected and time.monotonic() < since + 20):
        bound = sum(bool(node_of(pod)) for pod in namespace.pods())
        if bound > most:
            most, since = bound, time.monotonic()
        time.sleep(0.1)
    return most


def created(namespace: Namespace, manifests: list[Manifest]) -> bool:
    """Create the manifests as kubectl does; return whether the API server took them."""
    for manifest in manifests:
        collection = namespace.api.path_of(manifest, namespace.name).rpartition("/")[0]
        try:
            namespace.api.request("POST", collection, manifest, query={"fieldValidation": "Strict"})
        except ApiError as error:
            if error.status not in (400, 403, 422):
                raise
            return False
    return True


COLLECTIONS = (
    "apis/jobset.x-k8s.io/v1alpha2/{}/jobsets",
    "apis/batch/v1/{}/jobs",
    "apis/apps/v1/{}/deployments",
    "apis/apps/v1/{}/statefulsets",
    "api/v1/{}/limitranges",
    "api/v1/{}/pods",
)


def deleted(namespace: Namespace, fluence: Fluence) -> None:
    """Delete all workloads and wait until nothing is held."""
    query = {"propagationPolicy": "Background", "gracePeriodSeconds": "0"}
    for path in COLLECTIONS:
        # JobSets aren't served everywhere.
        with suppress(ApiError):
            namespace.api.request("DELETE", f"/{path.format(f'namespaces/{namespace.name}')}", query=query)
    wait_for(lambda: not namespace.pods() and not fluence.allocations(namespace.name), what="all to be gone")
    wait_for(lambda: not fluence.gangs(namespace.name), what="no gang to be left")
