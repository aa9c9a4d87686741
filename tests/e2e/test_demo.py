"""The examples end in the same table on the demo's embedded cluster and on a real control plane."""

from __future__ import annotations

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fluence_extender.demo.embedded import NODE, EmbeddedSite
from fluence_extender.demo.manifests import devices_file, examples, read
from fluence_extender.demo.run import demonstrate
from fluence_extender.demo.view import PodView, Row, rows, watch
from fluence_extender.model.names import DEFAULT_NAMESPACE, RESOURCES_CONFIGMAP, RESOURCES_KEY
from tests.e2e.harness import documents
from tests.localcluster import ControlPlane
from tests.localcluster.stack import Stack, Webhook

pytestmark = pytest.mark.e2e

BASE = Path(__file__).parents[2] / "deploy" / "base"
NODES = 6
PODS = "/api/v1/namespaces/default/pods"

Ending = tuple[str, str, str, str, str]


def endings(final: list[Row]) -> Counter[Ending]:
    """How often each combination of gang, state, phase, backend and reason is in the final table."""
    return Counter((gang_name(row), row.state, row.phase, row.backend, row.reason) for row in final)


def gang_name(row: Row) -> str:
    """The gang's name without a random part. A gang of one pod has the pod's name, which may end at random."""
    return re.sub(r"-[a-z0-9]{5}$", "", row.gang) if row.gang == row.pod else row.gang


def rows_on_the_embedded_cluster() -> list[Row]:
    final: list[Row] = []
    with EmbeddedSite(NODES, "lonode") as site:
        demonstrate(Console(file=io.StringIO()), site, final.extend)
    return final


def rows_on_a_real_control_plane() -> list[Row]:
    with ControlPlane() as plane:
        for name in ("namespace", "queues", "gate", "suspend", "groups"):
            for manifest in read(BASE / f"{name}.yaml"):
                plane.api.apply(manifest)
        plane.api.apply(devices())
        plane.add_nodes(NODES, prefix="node", **NODE)
        plane.start_scheduler(name="kube-scheduler-default")
        webhook = Webhook(plane)
        with Stack(plane, arguments=("--engine", "embedded")) as stack, webhook:
            for manifest in documents(*examples()):
                plane.api.apply(manifest, "default")

            def look() -> list[Row]:
                return rows(
                    stack.get("/v1/gangs")["items"], [view(pod) for pod in plane.api.get(PODS)["items"]]
                )

            return watch(Console(file=io.StringIO()), look)


def devices() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RESOURCES_CONFIGMAP, "namespace": DEFAULT_NAMESPACE},
        "data": {RESOURCES_KEY: devices_file().read_text()},
    }


def view(pod: dict[str, Any]) -> PodView:
    spec = pod["spec"]
    metadata, phase = pod["metadata"], pod["status"].get("phase", "")
    return PodView(metadata["uid"], metadata["name"], spec["schedulerName"], spec.get("nodeName", ""), phase)


@pytest.mark.timeout(900)
def test_examples_end_the_same_on_both_clusters() -> None:
    embedded = endings(rows_on_the_embedded_cluster())
    assert sum(embedded.values()) == 31
    assert embedded == endings(rows_on_a_real_control_plane())
