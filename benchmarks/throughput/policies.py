"""Our admission policies, in the API server while ours is measured: a cluster of another scheduler hasn't got them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.throughput.workloads import LABELLED, Manifest, job, pod
from fluence_extender.demo.manifests import read
from fluence_extender.model.names import SCHEDULER_NAME
from tests.localcluster import ControlPlane

BASE = Path(__file__).parents[2] / "deploy" / "base"

ACCOUNT = ("namespace", "serviceaccount", "rbac")
POLICIES = ("gate", "deviceclasses", "suspend", "groups", "intake", "stamps", "submitters", "accounts")
"""The files of deploy/base that count here: the service's account and rights, and the policies for each pod and Job."""

POLICY_LAG = 3.0
"""Seconds until the API server follows a policy that is new, or forgets one that is gone."""


def shipped(*names: str) -> list[Manifest]:
    """Return the objects of these files of ``deploy/base`` (``gate``: an admission policy with its binding)."""
    return [document for name in names for document in read(BASE / f"{name}.yaml")]


@contextmanager
def policies(plane: ControlPlane, wanted: bool) -> Iterator[None]:
    """Have our policies in force while this lasts, if they are ``wanted``."""
    found = shipped(*POLICIES) if wanted else []
    for manifest in found:
        plane.api.apply(manifest)
    time.sleep(POLICY_LAG)
    if found:
        _try(plane, pod("try", SCHEDULER_NAME), job("try", 2, LABELLED))
    try:
        yield
    finally:
        for manifest in found:
            plane.api.delete(plane.api.path_of(manifest))


def _try(plane: ControlPlane, *manifests: Manifest) -> None:
    """Create these as dry runs: at the first patch of a kind by a policy the API server reads that kind's schema.

    That takes it up to a second, once in its life.
    """
    for manifest in manifests:
        collection = plane.api.path_of(manifest, "default").rpartition("/")[0]
        plane.api.request("POST", collection, manifest, query={"dryRun": "All"})
