"""StatefulSets that create their pods one by one: what their author is told, and what becomes of the pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fluence_extender.kinds.replicas import decode_stateful_set, replica_pods
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.reason import Reason
from tests.core.manifests import decoded
from tests.e2e.harness import Namespace, node_of
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import user_shell
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, ours
from tests.unit.gangs.memberships import index

SIZE = {GROUP_SIZE_ANNOTATION: "3"}
GROUP = {GROUP_LABEL: "g"}
COSCHEDULED = {"scheduling.x-k8s.io/pod-group": "g"}


def stateful_set(
    labels: dict[str, str], notes: dict[str, str], replicas: int = 3, policy: str = ""
) -> dict[str, Any]:
    made = deployment("db", ours("x", cpu="1"), replicas) | {"kind": "StatefulSet"}
    made["spec"]["serviceName"] = "db"
    if policy:
        made["spec"]["podManagementPolicy"] = policy
    template = made["spec"]["template"]["metadata"]
    template["labels"] = {**(template.get("labels") or {}), **labels}
    template["annotations"] = notes
    return made


CASES = {
    "a size": stateful_set({}, SIZE),
    "a size beyond the replicas": stateful_set({}, {GROUP_SIZE_ANNOTATION: "9"}),
    "the policy is named": stateful_set({}, SIZE, policy="OrderedReady"),
    "the size of flux-k8s": stateful_set({"fluence.group-size": "3"}, {}),
    "a named group": stateful_set(GROUP, SIZE),
    "a group of coscheduling": stateful_set({**COSCHEDULED, "fluence.group-size": "3"}, {}),
    "at once": stateful_set({}, SIZE, policy="Parallel"),
    "one replica": stateful_set({}, SIZE, replicas=1),
    "no size": stateful_set(GROUP, {}),
    "the size of flux-k8s in a group of ours": stateful_set({**GROUP, "fluence.group-size": "3"}, {}),
    "a size of one": stateful_set(GROUP, {GROUP_SIZE_ANNOTATION: "1"}),
    "a larger group": stateful_set(GROUP, {GROUP_SIZE_ANNOTATION: "4"}),
    "no number": stateful_set({}, {GROUP_SIZE_ANNOTATION: "three"}),
}
REFUSED = 6
"""How many of them, from the first on, are refused."""


def refusal(body: dict[str, Any]) -> str:
    """What the service says of the gang that never assembles, "" of any other gang."""
    stored = {**body, "metadata": {**body["metadata"], "uid": "u"}}
    known = index(decode_stateful_set(json.dumps(stored).encode()))
    (pods,) = replica_pods(stored)
    size = known.membership(decoded(next(iter(pods.pods(body["metadata"]["namespace"]))))).size
    return size.text if isinstance(size, Reason) and "StatefulSet" in size.text else ""


def test_author_is_told_what_the_service_will_say(
    installation: Installation, fluence: Fluence, namespace: Namespace, tmp_path: Path
) -> None:
    shell = user_shell(installation.plane.kubeconfig, namespace.name, tmp_path)
    for number, (what, case) in enumerate(CASES.items()):
        body = {**case, "metadata": {**case["metadata"], "namespace": namespace.name}}
        told = shell.run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(body))
        assert told.returncode == 0, told.stderr
        said = refusal(body)
        assert bool(said) is (number < REFUSED), what
        assert (said in told.stderr) if said else ("never a gang" not in told.stderr), what


@pytest.mark.usefixtures("webhook")
def test_pods_that_are_created_one_by_one_are_not_placed_and_say_why(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(stateful_set({}, SIZE))
    told = "StatefulSet db creates each pod once the one before is ready, so its pods are never a gang of 3"
    fluence.wait_for_reason(
        namespace.name,
        "db",
        f"{told}: create it anew with podManagementPolicy: Parallel, or without a size",
    )
    (first,) = namespace.pods()
    assert not node_of(first)
