"""Every no has a reason, in the state API, in an Event on the pod, and in what kube-scheduler writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fluence_extender.model.names import GROUP_SIZE_ANNOTATION
from tests.e2e.deployed import Operations
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.e2e.history import History
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU, gang, indexed_job, labelled, ours
from tests.localcluster import ApiError


def events(namespace: Namespace, name: str) -> list[Manifest]:
    """The Events of ours about the pod that goes by this name now."""
    uid = namespace.pod(name)["metadata"]["uid"]
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events"
    return [
        one
        for one in namespace.api.get(path)["items"]
        if one["regarding"].get("uid") == uid
        and one["reportingController"] == "fluence.flux-framework.org/extender"
    ]


def wait_for_event(namespace: Namespace, name: str, reason: str) -> Manifest:
    """The one Event of this reason on the pod."""
    found = wait_for(
        lambda: [one for one in events(namespace, name) if one["reason"] == reason],
        what=f"an Event {reason} on {name}",
        seen=lambda: [(one["reason"], one["note"]) for one in events(namespace, name)],
    )
    assert len(found) == 1
    assert found[0]["type"] == "Warning"
    return found[0]


@pytest.mark.parametrize("size", ["many", "0", "-2", "1.5", "", "9999999999", "0x2", "2 2"])
def test_nonsense_size_is_told_and_can_be_corrected(
    size: str, fluence: Fluence, namespace: Namespace, nodes: NodeFactory, history: History
) -> None:
    nodes(1, cpu="4")
    namespace.create(*gang("odd", 2, size=size, cpu="1"), ours("marker", cpu="1"))
    namespace.wait_for_phase("marker", "Running")
    reason = f"annotation {GROUP_SIZE_ANNOTATION} is {size!r}: it must be a whole number from 1"
    seen = fluence.wait_for_reason(namespace.name, "odd", reason)
    assert seen["state"] == "waiting"
    assert [one["pod"] for one in fluence.allocations(namespace.name)] == ["marker"]
    history.wait(1)
    assert history.names() == ["marker"]
    for number in range(2):
        path = f"/api/v1/namespaces/{namespace.name}/pods/odd-{number}"
        namespace.api.patch(path, {"metadata": {"annotations": {GROUP_SIZE_ANNOTATION: "2"}}})
    namespace.wait_until_bound(3)


def test_members_that_disagree_on_the_size_wait(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="4")
    namespace.create(labelled(ours("a", cpu="1"), "pair", 2), labelled(ours("b", cpu="1"), "pair", 3))
    seen = fluence.wait_for_reason(namespace.name, "pair", "members of gang")
    key = "annotation fluence.flux-framework.org/group-size of pod"
    assert seen["reason"].endswith(f"disagree on its size: {key} a says 2, {key} b says 3")
    assert wait_for_event(namespace, "a", "InvalidRequest")["note"].endswith(seen["reason"])


Case = tuple[str, list[Manifest], str]


CASES: list[Case] = [
    ("WaitingForMembers", gang("case", 1, size=3, cpu="500m"), "waiting for members (1 of 3 exist)"),
    ("Unsatisfiable", gang("case", 1, cpu="2000"), "unsatisfiable: no node has 2000 cpu"),
    (
        "InvalidRequest",
        gang("case", 1, size="x", cpu="1"),
        "annotation fluence.flux-framework.org/group-size",
    ),
    ("NoBackend", gang("case", 1, requests={QPU: 1}), "no backend: no resource of type qpu is configured"),
]


@pytest.mark.parametrize(("kind", "members", "reason"), CASES, ids=[kind for kind, _, _ in CASES])
def test_reason_is_told_once_in_an_event(
    kind: str,
    members: list[Manifest],
    reason: str,
    fluence: Fluence,
    namespace: Namespace,
    nodes: NodeFactory,
) -> None:
    nodes(1, cpu="2")
    namespace.create(*members)
    text = fluence.wait_for_reason(namespace.name, "case", reason)["reason"]
    event = wait_for_event(namespace, "case-0", kind)
    assert event["note"] == f"gang {namespace.name}/case: {text}"
    # What else happens in the cluster doesn't make it be told again.
    namespace.create(ours("marker", cpu="1", run_for="100ms"))
    namespace.wait_for_pods(
        lambda pods: any(one["metadata"]["name"] == "marker" and one["spec"].get("nodeName") for one in pods),
        "the marker to be bound",
    )
    again = wait_for_event(namespace, "case-0", kind)
    assert "series" not in again
    assert again["metadata"]["uid"] == event["metadata"]["uid"]


def test_first_member_of_a_gang_too_large_for_the_cluster_is_told_at_once(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(*gang("five", 1, size=5, cpu="1"))
    fit = "unsatisfiable: 2 of 5 members would fit if nothing else ran, short of cpu"
    text = f"{fit}, unless members that are still to come ask for less than those that exist"
    assert fluence.wait_for_reason(namespace.name, "five", fit)["reason"] == text
    assert wait_for_event(namespace, "five-0", "Unsatisfiable")["note"].endswith(text)
    own_nodes(1, cpu="3")
    fluence.wait_for_reason(namespace.name, "five", "waiting for members (1 of 5 exist)")
    namespace.create(*gang("five", 4, first=1, size=5, cpu="1"))
    namespace.wait_until_bound(5)


def test_each_waiting_member_of_a_busy_gang_has_the_event(
    fluence: Fluence, namespace: Namespace, room: NodeFactory
) -> None:
    room(1, cpu="2")
    namespace.create(ours("runs", cpu="1"))
    namespace.wait_for_phase("runs", "Running")
    namespace.create(*gang("pair", 2, cpu="1"))
    for name in ("pair-0", "pair-1"):
        assert wait_for_event(namespace, name, "Busy")["note"].endswith("busy: 1 of 2 fit now, short of cpu")
    assert not events(namespace, "runs")


def test_kube_scheduler_repeats_the_reason_for_a_pod_without_the_gate(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, operations: Operations
) -> None:
    room(1, cpu="2")
    with operations.ungated():
        namespace.create(*gang("late", 1, size=2, cpu="1"))

        def told() -> str:
            conditions = namespace.pod("late-0")["status"].get("conditions") or ()
            return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

        wait_for(
            lambda: "waiting for members (1 of 2 exist)" in told(), what="the pod's condition", seen=told
        )


NO_BINDINGS = "Bindings are suspended"


@pytest.fixture
def no_bindings(namespace: Namespace) -> Iterator[Callable[[], None]]:
    """An admission policy that refuses all Bindings in the namespace; called, it ends."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    name = f"no-bindings-{namespace.name}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding"],
                    }
                ],
            },
            "validations": [{"expression": "false", "message": NO_BINDINGS}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }

    def told() -> str:
        try:
            namespace.bind("nobody", "nowhere")
        except ApiError as error:
            return str(error)
        raise AssertionError("a pod that isn't there was bound")

    def end() -> None:
        for path in (f"{policies}ybindings/{name}", f"{policies}ies/{name}"):
            with suppress(ApiError):
                namespace.api.delete(path)

    namespace.api.create(policy)
    namespace.api.create(binding)
    wait_for(lambda: NO_BINDINGS in told(), what="the policy to refuse Bindings", seen=told)
    yield end
    end()


def test_bindings_that_the_api_server_refuses_are_told(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, no_bindings: Callable[[], None]
) -> None:
    nodes(1, cpu="4")
    judged = indexed_job("judged", ours("x", cpu="500m", filtered=True), 2)
    namespace.create(judged, *gang("ours", 2, cpu="500m"))
    for name in ("judged", "ours"):
        seen = fluence.wait_for_reason(namespace.name, name, f"placed, but {name}-0")
        assert NO_BINDINGS in seen["reason"]
        assert (seen["state"], seen["why"]) == ("committed", "CannotBind")
    wait_for_event(namespace, "ours-0", "CannotBind")
    no_bindings()
    namespace.wait_until_bound(4)
