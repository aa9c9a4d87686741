"""Direct and filtered pods: which class the admission policy gives a pod, and who binds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fluence_extender.embeddedcluster.classes import is_filtered
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    DIRECT_SCHEDULER_NAME,
    GATE,
    GROUP_LABEL,
    SCHEDULER_NAME,
    USER_ANNOTATION,
)
from tests.core.classes import CONTROLLED, NEAR, PODS, REQUIRED, pod
from tests.e2e.expected_pods import refusal, tried
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, wait_for
from tests.e2e.installation import gates_of, scheduler_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU, gang, indexed_job, ours
from tests.localcluster import Api, ControlPlane

CLAIMED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def named_direct(body: Manifest, **meta: Any) -> Manifest:
    """The pod as a user writes it who names the other scheduler himself."""
    spec = {**body["spec"], "schedulerName": DIRECT_SCHEDULER_NAME}
    return {**body, "metadata": {**body["metadata"], **meta}, "spec": spec}


@pytest.mark.parametrize("what", PODS)
def test_policy_and_embedded_cluster_agree_on_the_class_of_a_pod(
    fluence: Fluence, namespace: Namespace, what: str
) -> None:
    body, filtered = PODS[what]
    stored = tried(namespace, body)
    assert is_filtered(body) is filtered
    assert scheduler_of(stored) == (SCHEDULER_NAME if filtered else DIRECT_SCHEDULER_NAME)
    assert (GATE in gates_of(stored)) is filtered
    owned = bool(body["metadata"].get("ownerReferences"))
    assert (USER_ANNOTATION in annotations_of(stored)) is not owned


@pytest.mark.parametrize("what", PODS)
def test_user_may_name_the_other_scheduler_for_a_direct_pod_and_for_no_other(
    fluence: Fluence, namespace: Namespace, what: str
) -> None:
    body, filtered = PODS[what]
    why = refusal(lambda: tried(namespace, named_direct(body)))
    if filtered:
        assert "kube-scheduler's filters have to judge it" in why
        assert "write schedulerName: fluence" in why
        # The template of a controller that names it is one of a filtered pod like others.
        owned = tried(namespace, named_direct(body, ownerReferences=[CONTROLLED]))
        assert (scheduler_of(owned), GATE in gates_of(owned)) == (SCHEDULER_NAME, True)
    else:
        assert not why
        assert scheduler_of(tried(namespace, named_direct(body))) == DIRECT_SCHEDULER_NAME


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
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("what", ["plain", "near others"])
def test_pod_is_patched_once_or_not_at_all(
    fluence: Fluence, control_plane: ControlPlane, what: str, settled: bool, controlled: bool
) -> None:
    body, filtered = PODS[what]
    if settled and filtered:
        body = {**body, "spec": {**body["spec"], "schedulingGates": [{"name": GATE}]}}
    elif settled:
        body = named_direct(body)
    if controlled:
        body = {**body, "metadata": {**body["metadata"], "ownerReferences": [CONTROLLED]}}
    # The patch of a pod that no controller owns also names its creator.
    wanted = int(not settled or not controlled)
    wait_for(lambda: patches_of(control_plane.api, body) == wanted, what=f"{wanted} patches")


def test_large_pod_is_filtered(fluence: Fluence, namespace: Namespace) -> None:
    """What an expression may cost is limited; beyond that the policy looks at nothing."""
    body = ours(
        "large",
        labels={f"example.org/{number}": "x" for number in range(500)} | {GROUP_LABEL: "g"},
        annotations={str(number): "" for number in range(20_000)},
    )
    (container,) = body["spec"]["containers"]
    body["spec"]["containers"] = [container | {"name": f"c{number}"} for number in range(40)]
    stored = tried(namespace, body)
    assert (scheduler_of(stored), gates_of(stored)) == (SCHEDULER_NAME, [GATE])


ADMISSION = "admissionregistration.k8s.io/v1"
ADDED_BY = ("one", "two", "three", "four", "five", "six")
"""Policies that add something: the API server has policies in no order, so that some come after ours."""


@contextmanager
def added(api: Api, path: str, value: str) -> Iterator[None]:
    """While this lasts, pods with the label ``added`` get ``value`` (CEL) at a path, each by the policy it names."""
    created = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    for name in ADDED_BY:
        spec = {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [created]},
            "matchConditions": [
                {
                    "name": "labelled",
                    "expression": f"object.metadata.?labels.?added.orValue('') == '{name}'",
                }
            ],
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": f"[JSONPatch{{op: 'add', path: '{path}', value: {value}}}]"},
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


@pytest.mark.parametrize("controlled", [False, True])
def test_pod_is_filtered_for_what_others_add_after_us(
    fluence: Fluence, namespace: Namespace, controlled: bool
) -> None:
    def stored(name: str) -> Manifest:
        meta = {"labels": {"added": name}, **({"ownerReferences": [CONTROLLED]} if controlled else {})}
        return tried(namespace, pod(meta))

    with added(namespace.api, "/spec/resourceClaims", "[{'name': 'gpu', 'resourceClaimName': 'gpu'}]"):
        # A policy counts a moment after it was created.
        wait_for(
            lambda: all("resourceClaims" in stored(name)["spec"] for name in ADDED_BY), what="them to count"
        )
        for name in ADDED_BY:
            found = stored(name)
            assert (scheduler_of(found), gates_of(found)) == (SCHEDULER_NAME, [GATE]), name


def device_class(name: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_pod_whose_extended_resource_is_a_device_is_filtered(fluence: Fluence, namespace: Namespace) -> None:
    def class_of(resource: str, **meta: Any) -> tuple[str, list[str]]:
        stored = tried(namespace, pod(meta or None, asks=resource))
        return scheduler_of(stored), gates_of(stored)

    classes = (device_class("classes-a", extendedResourceName="example.com/gpu"), device_class("classes-b"))
    try:
        for one in classes:
            namespace.api.apply(one)
        filtered = SCHEDULER_NAME, [GATE]
        wait_for(lambda: class_of("example.com/gpu") == filtered, what="the class to be read")
        wait_for(
            lambda: class_of("deviceclass.resource.kubernetes.io/classes-b") == filtered,
            what="the other class to be read",
        )
        assert class_of("example.com/gpu", ownerReferences=[CONTROLLED]) == filtered
        assert class_of("example.com/fpga") == (DIRECT_SCHEDULER_NAME, [])
    finally:
        for one in classes:
            namespace.api.delete(namespace.api.path_of(one))


def test_direct_pods_are_bound_by_us_and_filtered_ones_after_kube_scheduler(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(4, cpu="2")

    def asked(verb: str, outcome: str) -> float:
        return fluence.metric("fluence_extender_answers_total", verb=verb, outcome=outcome)

    before = asked("bind", "bound")
    namespace.create(indexed_job("ranks", ours("x", cpu="1"), 4), ours("alone", cpu="1"))
    assert all(node_of(one) for one in namespace.wait_until_bound(5))
    assert asked("bind", "bound") == before
    namespace.create(*gang("loose", 2, cpu="1", filtered=True))
    for one in [one for one in namespace.wait_until_bound(7) if one["metadata"]["name"].startswith("loose")]:
        assert scheduler_of(one) == SCHEDULER_NAME
        assert ALLOCATION_ANNOTATION in annotations_of(one)
    # A Binding is seen before its bind call is answered, and counted.
    wait_for(lambda: asked("bind", "bound") == before + 2, what="both calls to be counted")


def test_gang_of_a_claim_is_bound_together_with_those_that_have_none(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    """The member that lacks its claim is refused before any node is tried: the others aren't bound."""
    own_nodes(3, cpu="2")
    members = gang("mixed", 3, cpu="1")
    members[0]["spec"] |= CLAIMED
    namespace.create(*members)

    def name_of(one: Manifest) -> str:
        return str(one["metadata"]["name"])

    namespace.wait_for_pods(
        lambda pods: not any(gates_of(one) for one in pods if name_of(one) == "mixed-0"),
        "the one with a claim to be told its node",
    )
    classes = {name_of(one): scheduler_of(one) for one in namespace.pods()}
    assert classes == {
        "mixed-0": SCHEDULER_NAME,
        "mixed-1": DIRECT_SCHEDULER_NAME,
        "mixed-2": DIRECT_SCHEDULER_NAME,
    }
    assert not any(node_of(one) for one in namespace.pods())


def test_qpu_pod_is_direct_and_its_binding_has_its_device(fluence: Fluence, namespace: Namespace) -> None:
    stored = tried(namespace, ours("quantum", cpu="1", requests={QPU: 1}))
    assert (scheduler_of(stored), gates_of(stored)) == (DIRECT_SCHEDULER_NAME, [])


def test_direct_member_that_a_filtered_one_has_to_be_near_is_bound_before_it(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(3, cpu="2")
    members = gang("near", 3, cpu="1")
    term = {**NEAR, "labelSelector": {"matchLabels": {"role": "leader"}}}
    members[0]["spec"]["affinity"] = {"podAffinity": {REQUIRED: [term]}}
    members[0]["spec"]["schedulingGates"] = [{"name": GATE}]
    members[1]["metadata"]["labels"]["role"] = "leader"
    namespace.create(*members)
    bound = {one["metadata"]["name"]: one for one in namespace.wait_until_bound(3)}
    assert node_of(bound["near-0"]) == node_of(bound["near-1"])
    assert scheduler_of(bound["near-0"]) == SCHEDULER_NAME
    assert scheduler_of(bound["near-1"]) == DIRECT_SCHEDULER_NAME
