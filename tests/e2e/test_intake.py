"""A namespace may hand all its new pods to our scheduler."""

from __future__ import annotations

import pytest

from fluence_extender.model.names import DOMAIN, GATE, MARK_RESOURCE, SCHEDULER_NAME
from tests.e2e.harness import Manifest, Namespace, job, pod, wait_for
from tests.e2e.installation import gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU

pytestmark = pytest.mark.e2e

PROBE: Manifest = pod("probe", scheduler="default-scheduler")


@pytest.fixture
def taken_in(namespace: Namespace) -> Namespace:
    """A namespace with the label, once the API server goes by it."""
    label = {"metadata": {"labels": {f"{DOMAIN}/intake": "all"}}}
    namespace.api.patch(f"/api/v1/namespaces/{namespace.name}", label)
    wait_for(lambda: scheduler_of(probe(namespace)) == SCHEDULER_NAME, what="the intake to be in force")
    return namespace


def probe(namespace: Namespace, manifest: Manifest = PROBE) -> Manifest:
    """The pod as the API server would store it."""
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    return namespace.api.request("POST", path, manifest, query={"dryRun": "All"})


def scheduler_of(stored: Manifest) -> str:
    return str(stored["spec"]["schedulerName"])


def test_new_pods_are_placed_by_us_whatever_creates_them(
    fluence: Fluence, taken_in: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    taken_in.create(
        pod("bare", scheduler="default-scheduler", cpu="1"),
        job("batch", pod("x", scheduler="default-scheduler", cpu="1"), parallelism=2),
    )
    bound = taken_in.wait_until_bound(3)
    assert {scheduler_of(one) for one in bound} == {SCHEDULER_NAME}
    fluence.wait_for_state(taken_in.name, "bare", "bound")


def test_pod_that_is_taken_in_gets_its_gate_and_its_mark(taken_in: Namespace, fluence: Fluence) -> None:
    manifest = pod("quantum", scheduler="default-scheduler", cpu="1")
    resources = manifest["spec"]["containers"][0]["resources"]
    for kind in ("requests", "limits"):
        resources.setdefault(kind, {})[QPU] = "1"
    stored = probe(taken_in, manifest)
    assert GATE in gates_of(stored)
    assert stored["spec"]["containers"][0]["resources"]["requests"][MARK_RESOURCE] == "0"


def test_pods_of_other_schedulers_and_of_daemonsets_stay_as_they_are(
    taken_in: Namespace, fluence: Fluence
) -> None:
    assert scheduler_of(probe(taken_in, pod("theirs", scheduler="volcano"))) == "volcano"
    daemon = pod("daemon", scheduler="default-scheduler")
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
    ]
    assert scheduler_of(probe(taken_in, daemon)) == "default-scheduler"


def test_namespace_without_the_label_keeps_its_scheduler(namespace: Namespace, fluence: Fluence) -> None:
    assert scheduler_of(probe(namespace)) == "default-scheduler"
