"""Nobody preempts others by the PriorityClass for consumers, except consumers of a producer that holds a device.

The attacker has the ClusterRole `edit` in one namespace. That lets it write any pod there and act as any account there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fluence_extender.model.coordination import (
    CONSUMER_PRIORITY_CLASS,
    PRODUCER_SEEN_ANNOTATION,
    QUANTUM_JOB_ID_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
    ROLE_ANNOTATION,
)
from fluence_extender.model.names import GROUP_LABEL
from tests.e2e.admitted import gates_of, quantum
from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.workloads import ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.stack import Webhook

STRATEGIC = "application/strategic-merge-patch+json"
UNGATED = {"spec": {"schedulingGates": [{"$patch": "delete", "name": READY_GATE}]}}


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    return control_plane


@pytest.fixture
def attacker(plane: ControlPlane, namespace: Namespace, installation: Installation) -> Iterator[Api]:
    """A user who may edit one namespace."""
    namespace.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "mallory"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}],
        }
    )
    api = Api(plane.kubeconfig_for("mallory"))

    def allowed() -> bool:
        return answer_to(api, namespace, ours("probe")) == ""

    wait_for(allowed, what="the rights to be in force")
    yield api
    api.close()


def answer_to(api: Api, namespace: Namespace, pod: Manifest) -> str:
    """What the API server says to the creation of a pod; "" if it would accept it."""
    try:
        api.request("POST", f"/api/v1/namespaces/{namespace.name}/pods", pod, query={"dryRun": "All"})
    except ApiError as error:
        return error.message
    return ""


def privileged(name: str, **fields: Any) -> Manifest:
    return ours(name, priorityClassName=CONSUMER_PRIORITY_CLASS, **fields)


def consumer(name: str = "consumer") -> Manifest:
    """A consumer of group ``g`` as the webhook leaves it, or as a user forges it."""
    made = privileged(name, schedulingGates=[{"name": READY_GATE}])
    made["metadata"]["labels"] |= {GROUP_LABEL: "g"}
    made["metadata"]["annotations"] |= {
        ROLE_ANNOTATION: "consumer",
        "fluence.flux-framework.org/depends-on-producer": "g-producer",
    }
    return made


def test_other_pods_do_not_get_the_priority_while_the_webhook_is_away(
    attacker: Api, namespace: Namespace
) -> None:
    def refused(pod: Manifest) -> bool:
        return "PriorityClass fluence-quantum-classical" in answer_to(attacker, namespace, pod)

    wait_for(lambda: refused(privileged("plain")), what="the policy to be in force")
    other = consumer("other")
    other["spec"]["schedulerName"] = "default-scheduler"
    assert refused(other)
    ready = consumer("ready")
    del ready["spec"]["schedulingGates"]
    assert refused(ready)
    recorded = consumer("recorded")
    recorded["metadata"]["annotations"][PRODUCER_SEEN_ANNOTATION] = "true"
    assert "written by the webhook" in answer_to(attacker, namespace, recorded)
    assert answer_to(attacker, namespace, consumer()) == ""
    assert answer_to(namespace.api, namespace, privileged("administrators")) == ""


def test_users_and_sidecars_can_not_release_a_consumer_with_the_priority(
    attacker: Api, namespace: Namespace, plane: ControlPlane
) -> None:
    wait_for(lambda: answer_to(attacker, namespace, privileged("plain")), what="the policy to be in force")
    core = f"/api/v1/namespaces/{namespace.name}"
    attacker.request("POST", f"{core}/pods", consumer())
    attacker.request(
        "POST",
        f"{core}/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "fluence-sidecar"}},
    )
    for change in (UNGATED, {"metadata": {"annotations": {PRODUCER_SEEN_ANNOTATION: "true"}}}):
        with pytest.raises(ApiError) as refused:
            attacker.patch(f"{core}/pods/consumer", change, STRATEGIC)
        assert "fluence-quantum-classical" in refused.value.message
    assert READY_GATE in gates_of(namespace.pod("consumer"))


def test_forged_producer_releases_no_consumer_with_the_priority(
    attacker: Api, namespace: Namespace, webhook: Webhook
) -> None:
    """The webhook's process sees both, and releases the one that preempts nobody."""
    wait_for(lambda: answer_to(attacker, namespace, privileged("plain")), what="the policy to be in force")
    core = f"/api/v1/namespaces/{namespace.name}"
    lead = ours(
        "lead", cpu="9000", labels={GROUP_LABEL: "g-producer"}, annotations={ROLE_ANNOTATION: "producer"}
    )
    stored = attacker.request("POST", f"{core}/pods", lead)
    attacker.request("POST", f"{core}/pods", consumer())
    harmless = quantum("harmless", "g", mode="shared", index="1", priorityClassName="system-node-critical")
    namespace.create(harmless)
    why = f"task t is running (pod {stored['metadata']['uid']})"
    decided = {"metadata": {"annotations": {RELEASED_ANNOTATION: why, QUANTUM_JOB_ID_ANNOTATION: "t"}}}
    attacker.patch(f"{core}/pods/lead", decided)
    wait_for(lambda: READY_GATE not in gates_of(namespace.pod("harmless")), what="the other to be released")
    now = namespace.pod("consumer")
    assert READY_GATE in gates_of(now)
    assert not node_of(now)
