"""A namespace may hand all its new pods to our scheduler."""

from __future__ import annotations

import pytest

from fluence_extender.model.names import (
    DIRECT_SCHEDULER_NAME,
    DOMAIN,
    NODES_ANNOTATION,
    SCHEDULER_NAME,
    USER_ANNOTATION,
)
from tests.core.classes import CONTROLLED, PODS
from tests.e2e.harness import Manifest, Namespace, annotations_of, job, pod, wait_for
from tests.e2e.installation import gates_of, scheduler_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence

pytestmark = pytest.mark.e2e

PROBE: Manifest = pod("probe", scheduler="default-scheduler")


@pytest.fixture
def taken_in(fluence: Fluence, namespace: Namespace) -> Namespace:
    """A namespace with the label, once the API server goes by it."""
    label = {"metadata": {"labels": {f"{DOMAIN}/intake": "all"}}}
    namespace.api.patch(f"/api/v1/namespaces/{namespace.name}", label)
    wait_for(
        lambda: scheduler_of(probe(namespace)) == DIRECT_SCHEDULER_NAME, what="the intake to be in force"
    )
    return namespace


def probe(namespace: Namespace, manifest: Manifest = PROBE) -> Manifest:
    """The pod as the API server would store it."""
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    return namespace.api.request("POST", path, manifest, query={"dryRun": "All"})


def test_new_pods_are_placed_by_us_whatever_creates_them(
    fluence: Fluence, taken_in: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    taken_in.create(
        pod("bare", scheduler="default-scheduler", cpu="1"),
        job("batch", pod("x", scheduler="default-scheduler", cpu="1"), parallelism=2),
    )
    bound = taken_in.wait_until_bound(3)
    assert {scheduler_of(one) for one in bound} == {DIRECT_SCHEDULER_NAME}
    fluence.wait_for_state(taken_in.name, "bare", "bound")


@pytest.mark.parametrize("what", PODS)
def test_pod_that_is_taken_in_is_direct_or_filtered_as_if_it_named_us(
    taken_in: Namespace, fluence: Fluence, what: str
) -> None:
    body, filtered = PODS[what]
    if "kueue.x-k8s.io/queue-name" in (body["metadata"].get("labels") or {}):
        return
    spec = {key: value for key, value in body["spec"].items() if key != "schedulerName"}
    stored = probe(taken_in, {**body, "spec": spec})
    assert scheduler_of(stored) == (SCHEDULER_NAME if filtered else DIRECT_SCHEDULER_NAME)
    assert gates_of(stored) == gates_of(probe(taken_in, body))
    controlled = body["metadata"].get("ownerReferences")
    assert bool(controlled) is (USER_ANNOTATION not in annotations_of(stored))


def test_nodes_that_a_template_names_are_taken_off(taken_in: Namespace) -> None:
    """A user may write them on the template of a Job of another scheduler, which nobody judges."""
    forged = pod(
        "forged", scheduler="default-scheduler", annotations={NODES_ANNOTATION: "a,b", "kept": "yes"}
    )
    for owners in ([], [CONTROLLED]):
        forged["metadata"]["ownerReferences"] = owners
        stored = probe(taken_in, forged)
        assert not stored["spec"].get("nodeName")
        assert NODES_ANNOTATION not in annotations_of(stored)
        assert annotations_of(stored)["kept"] == "yes"


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
