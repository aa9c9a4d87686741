"""Who binds which pod: the mark that the admission policy puts on, and kube-scheduler's binder for all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fluence_extender.embeddedcluster.mark import needs_mark
from fluence_extender.model.names import ALLOCATION_ANNOTATION, GATE, GROUP_LABEL, MARK_RESOURCE
from tests.core.marks import DEVICE, PODS
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, wait_for
from tests.e2e.installation import gates_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU, gang, indexed_job, ours
from tests.localcluster import Api, ControlPlane


def test_policy_and_webhook_mark_the_same_pods(
    fluence: Fluence, namespace: Namespace, control_plane: ControlPlane
) -> None:
    # Where the webhook is called, it puts pods that name a group into a native one; so this is for the policy alone.
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    for what, (body, marked) in PODS.items():
        created = namespace.api.request("POST", path, body, query={"dryRun": "All"})
        resources = created["spec"]["containers"][0].get("resources") or {}
        said = [MARK_RESOURCE in resources.get(kind, {}) for kind in ("requests", "limits")]
        assert said == [marked, marked], what
        assert needs_mark(body) is marked, what


def patches_of(api: Api, pod: Manifest, policy: str = "fluence-gate") -> int:
    """How often the policy patches such a pod while it is created, if nobody else creates one meanwhile."""

    def patches() -> int:
        counted = "apiserver_mutating_admission_policy_check_total{"
        lines = (line for line in api.get("/metrics")["text"].splitlines() if line.startswith(counted))
        return sum(int(line.rpartition(" ")[2]) for line in lines if f'policy="{policy}"' in line)

    before = patches()
    api.request("POST", "/api/v1/namespaces/default/pods", pod, query={"dryRun": "All"})
    return patches() - before


@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("what", ["plain", "with a device"])
def test_pod_is_patched_once_or_not_at_all(
    fluence: Fluence, control_plane: ControlPlane, what: str, gated: bool, controlled: bool
) -> None:
    body, marked = PODS[what]
    if gated:
        body = body | {"spec": body["spec"] | {"schedulingGates": [{"name": GATE}]}}
    if controlled:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "x", "controller": True}
        body = body | {"metadata": body["metadata"] | {"ownerReferences": [owner]}}
    # The patch of a pod that no controller owns also names its creator.
    wanted = int(marked or not gated or not controlled)
    wait_for(lambda: patches_of(control_plane.api, body) == wanted, what=f"{wanted} patches")


def test_large_pod_is_gated_and_marked(fluence: Fluence, namespace: Namespace) -> None:
    """What an expression may cost is limited; beyond that the policy does nothing."""
    body = ours(
        "large",
        labels={f"example.org/{number}": "x" for number in range(500)} | {GROUP_LABEL: "g"},
        annotations={str(number): "" for number in range(20_000)},
    )
    (container,) = body["spec"]["containers"]
    body["spec"]["containers"] = [container | {"name": f"c{number}"} for number in range(40)]
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    created = namespace.api.request("POST", path, body, query={"dryRun": "All"})
    assert gates_of(created) == [GATE]
    assert MARK_RESOURCE in created["spec"]["containers"][0]["resources"]["requests"]


ADMISSION = "admissionregistration.k8s.io/v1"
ADDED_BY = ("one", "two", "three", "four", "five", "six")
"""Policies that add a sidecar: the API server has policies in no order, so that some come after ours."""


@contextmanager
def sidecars_added(api: Api) -> Iterator[None]:
    """While this lasts, pods with the label ``sidecar`` get a container with a device, each by the policy it names."""
    created = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    resources = f"dyn({{'limits': {{'{DEVICE}': '1'}}}})"
    patch = f"value: {{'name': dyn('sidecar'), 'image': dyn('app'), 'resources': {resources}}}"
    for name in ADDED_BY:
        spec = {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [created]},
            "matchConditions": [
                {
                    "name": "labelled",
                    "expression": f"object.metadata.?labels.?sidecar.orValue('') == '{name}'",
                }
            ],
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": f"[JSONPatch{{op: 'add', path: '/spec/containers/-', {patch}}}]"
                    },
                }
            ],
        }
        head = {"apiVersion": ADMISSION, "metadata": {"name": name}}
        api.apply(head | {"kind": "MutatingAdmissionPolicy", "spec": spec})
        api.apply(head | {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}})
    try:
        yield
    finally:
        for name in ADDED_BY:
            for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
                api.delete(f"/apis/{ADMISSION}/{kind}/{name}")


def test_pod_is_marked_for_what_others_add_after_us(
    fluence: Fluence, namespace: Namespace, control_plane: ControlPlane
) -> None:
    path = f"/api/v1/namespaces/{namespace.name}/pods"

    def created(name: str) -> list[Manifest]:
        body = ours("x", labels={"sidecar": name})
        admitted = namespace.api.request("POST", path, body, query={"dryRun": "All"})
        containers: list[Manifest] = admitted["spec"]["containers"]
        return containers

    with sidecars_added(namespace.api):
        # A policy counts a moment after it was created.
        wait_for(lambda: all(len(created(name)) == 2 for name in ADDED_BY), what="the policies to count")
        for name in ADDED_BY:
            first, _ = created(name)
            assert MARK_RESOURCE in first["resources"].get("requests", {}), name
            assert MARK_RESOURCE in first["resources"].get("limits", {}), name


def test_marked_pods_are_bound_by_us_and_all_others_by_kube_scheduler(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(4, cpu="2")

    def bound_by_us() -> float:
        return fluence.metric("fluence_extender_answers_total", verb="bind", outcome="bound")

    before = bound_by_us()
    namespace.create(indexed_job("ranks", ours("x", cpu="1"), 4), ours("alone", cpu="1"))
    for one in namespace.wait_until_bound(5):
        assert node_of(one)
        assert ALLOCATION_ANNOTATION not in annotations_of(one)
    assert bound_by_us() == before
    namespace.create(*gang("loose", 2, cpu="1"))
    for one in [one for one in namespace.wait_until_bound(7) if one["metadata"]["name"].startswith("loose")]:
        assert ALLOCATION_ANNOTATION in annotations_of(one)
    # A Binding is seen before its bind call is answered, and counted.
    wait_for(lambda: bound_by_us() == before + 2, what="both calls to be counted", seen=bound_by_us)


def test_gang_of_a_claim_is_bound_together_with_those_that_have_none(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    """The member that lacks its claim is refused before any node is tried: the others keep their gates."""
    own_nodes(3, cpu="2")
    needs = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    members = gang("mixed", 3, cpu="1")
    members[0]["spec"] |= needs
    for one in members[1:]:
        one["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "users"
    namespace.create(*members)
    namespace.wait_for_pods(
        lambda pods: (
            not next(one for one in pods if one["metadata"]["name"] == "mixed-0")["spec"].get(
                "schedulingGates"
            )
        ),
        "the one with a claim to be told its node",
    )
    waiting = [one for one in namespace.pods() if one["metadata"]["name"] != "mixed-0"]
    assert all(one["spec"].get("schedulingGates") for one in waiting)
    assert not any(node_of(one) for one in namespace.pods())


def test_qpu_pod_is_bound_by_us(fluence: Fluence, namespace: Namespace) -> None:
    body = ours("quantum", cpu="1", requests={QPU: 1})
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    created = namespace.api.request("POST", path, body, query={"dryRun": "All"})
    assert MARK_RESOURCE in created["spec"]["containers"][0]["resources"]["requests"]


def test_unmarked_member_that_a_marked_one_has_to_be_near_is_bound_before_it(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(3, cpu="2")
    members = gang("near", 3, cpu="1")
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"role": "leader"}},
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    members[0]["spec"]["affinity"] = {"podAffinity": {required: [term]}}
    for one in members[1:]:
        one["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "users"
    members[1]["metadata"]["labels"]["role"] = "leader"
    namespace.create(*members)
    bound = {one["metadata"]["name"]: one for one in namespace.wait_until_bound(3)}
    assert node_of(bound["near-0"]) == node_of(bound["near-1"])
    assert ALLOCATION_ANNOTATION in annotations_of(bound["near-0"])
    assert ALLOCATION_ANNOTATION not in annotations_of(bound["near-1"])
