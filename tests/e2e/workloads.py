"""Manifests of what users hand to the service: single pods, gangs in each form, and their parents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, SCHEDULER_NAME
from tests.e2e.harness import Manifest, job, pod
from tests.localcluster.recipe import release

RESOURCES = """
resources:
  - type: qpu
    name: ibm_fez
    attributes: ibm
  - type: qpu
    name: rigetti_ankaa
    attributes: {vendor: rigetti, region: us-west-1}
attributes:
  ibm: {vendor: ibm, region: us-east}
"""
ONE_DEVICE = "resources: [{type: qpu, name: ibm_fez, attributes: {vendor: ibm}}]"
QPU = "fluxion.flux-framework.org/qpu"


def ours(name: str, *, filtered: bool = False, **shape: Any) -> Manifest:
    """A pod of our scheduler; see `pod`. If ``filtered``, kube-scheduler's filters judge it, and find nothing."""
    manifest = pod(name, scheduler=SCHEDULER_NAME, **shape)
    if filtered:
        manifest["spec"].setdefault("schedulingGates", []).append({"name": GATE})
    return manifest


def labelled(manifest: Manifest, group: str, size: object = None) -> Manifest:
    """``manifest`` as a member of the group of that name; ``size`` None leaves the size unsaid."""
    manifest["metadata"]["labels"][GROUP_LABEL] = group
    if size is not None:
        manifest["metadata"]["annotations"][GROUP_SIZE_ANNOTATION] = str(size)
    return manifest


def gang(name: str, count: int, *, size: object = None, first: int = 0, **shape: Any) -> list[Manifest]:
    """Members ``name``-``first`` and so on of a group by label; ``size`` is what they say, default ``count``."""
    return [
        labelled(ours(f"{name}-{number}", **shape), name, count if size is None else size)
        for number in range(first, first + count)
    ]


def grouped(manifest: Manifest, pod_group: str) -> Manifest:
    """``manifest`` as a member of a native PodGroup."""
    manifest["spec"]["schedulingGroup"] = {"podGroupName": pod_group}
    return manifest


def pod_group(name: str, min_count: int, topology: str = "") -> Manifest:
    """A native PodGroup with the gang policy; ``topology`` is the node label of which its pods share one value."""
    constraints = {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    return {
        "apiVersion": release().pod_groups,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **constraints},
    }


def indexed_job(name: str, template: Manifest, parallelism: int) -> Manifest:
    """An indexed Job whose pods are one gang of its parallelism."""
    return job(name, labelled(template, name), parallelism=parallelism, completionMode="Indexed")


def deployment(name: str, template: Manifest, replicas: int) -> Manifest:
    """An apps/v1 Deployment whose pods are made from ``template``."""
    labels: Mapping[str, str] = {**template["metadata"]["labels"], "app": name}
    metadata = {"labels": labels, "annotations": template["metadata"]["annotations"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }
