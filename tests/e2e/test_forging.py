"""What users write on their own pods gains them nothing, also over a restart."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fluence_extender.model.names import ALLOCATION_ANNOTATION, BACKEND_ANNOTATION
from tests.e2e.harness import Manifest, Namespace, annotations_of, documents, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import BASE, Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU, RESOURCES, gang, ours
from tests.localcluster import ApiError

Write = Callable[[str], None]

POLICY_BINDING = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/fluence-stamps"


def quantum(name: str) -> Manifest:
    """A pod of ours with one qpu."""
    return ours(name, cpu="1", requests={QPU: 1})


def annotate(namespace: Namespace, name: str, **annotations: str | None) -> None:
    """Edit the annotations of ours that a pod has, as a user may."""
    named = {f"fluence.flux-framework.org/{key}": value for key, value in annotations.items()}
    namespace.api.patch(
        f"/api/v1/namespaces/{namespace.name}/pods/{name}", {"metadata": {"annotations": named}}
    )


def backends_held(fluence: Fluence, namespace: Namespace) -> dict[str, str]:
    """The backend of each pod that holds something."""
    return {one["pod"]: one["backend"] for one in fluence.allocations(namespace.name)}


def test_stamps_of_a_running_pod_cannot_be_edited(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    namespace.create(quantum("first"))
    written = annotations_of(namespace.wait_for_phase("first", "Running"))

    def refused(**annotations: str | None) -> bool:
        try:
            annotate(namespace, "first", **annotations)
        except ApiError as error:
            return "stay as they are" in str(error)
        return False

    # A policy counts a moment after it was created.
    wait_for(lambda: refused(backend="mine"), what="the policy to count")
    assert refused(allocation="{}")
    assert refused(backend=None)
    assert refused(**{"attr-new": "x"})
    annotate(namespace, "first", anything="else")
    after = annotations_of(namespace.pod("first"))
    assert after.pop("fluence.flux-framework.org/anything") == "else"
    assert after == written


def test_pod_that_brings_a_node_of_its_own_brings_no_stamp(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    (node,) = own_nodes(1, cpu="4")
    resources(RESOURCES)
    forged = json.dumps({"devices": [{"path": "/cluster/ibm_fez", "type": "qpu", "amount": 1}]})
    stamped = ours("stamped", cpu="1", nodeName=node, annotations={ALLOCATION_ANNOTATION: forged})
    path = f"/api/v1/namespaces/{namespace.name}/pods"

    def refused() -> bool:
        try:
            namespace.api.request("POST", path, stamped, query={"dryRun": "All"})
        except ApiError as error:
            return "stay as they are" in str(error)
        return False

    # A policy counts a moment after it was created.
    wait_for(refused, what="the policy to count")
    with pytest.raises(ApiError, match="stay as they are"):
        namespace.create(stamped)
    namespace.create(ours("plain", cpu="1", nodeName=node))
    namespace.wait_for_phase("plain", "Running")
    wait_for(lambda: backends_held(fluence, namespace) == {"plain": ""}, what="the pod to be counted")


def test_forged_stamp_gives_no_device_away_twice_over_a_restart(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    installation: Installation,
    history: History,
) -> None:
    (node,) = own_nodes(1, cpu="8")
    resources(RESOURCES)
    namespace.create(quantum("first"), quantum("second"))
    namespace.wait_until_bound(2)
    before = backends_held(fluence, namespace)
    assert set(before.values()) == {"ibm_fez", "rigetti_ankaa"}
    path = json.loads(annotations_of(namespace.pod("second"))[ALLOCATION_ANNOTATION])["devices"][0]["path"]
    forged = json.dumps({"devices": [{"path": path, "type": "qpu", "amount": 2}] * 3})
    # As in a cluster without the policy: one pod's stamp names the other's device.
    namespace.api.delete(POLICY_BINDING)
    try:

        def forge() -> bool:
            try:
                annotate(namespace, "first", allocation=forged, backend=before["second"])
            except ApiError as error:
                if "stay as they are" not in str(error):
                    raise
                return False
            return True

        wait_for(forge, what="the policy to end")
        installation.crash()
        installation.revive()
        held = backends_held(fluence, namespace)
        assert set(held) == {"first", "second"}
        assert set(held.values()) == set(before.values())
        namespace.create(quantum("third"), ours("marker", cpu="1"))
        namespace.wait_for_phase("marker", "Running")
        fluence.wait_for_reason(namespace.name, "third", "busy: 1 qpu not free")
        assert "third" not in history.names()
        # The truth again, for the comparison after the test.
        for name in ("first", "second"):
            annotate(namespace, name, backend=held[name], allocation=json.dumps({"node": node}))
    finally:
        for document in documents(BASE / "stamps.yaml"):
            installation.plane.api.apply(document)


def test_results_that_a_user_wrote_beforehand_are_overwritten(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(RESOURCES)
    forged = {BACKEND_ANNOTATION: "mine", ALLOCATION_ANNOTATION: "{}"}
    namespace.create(ours("first", cpu="1", annotations=forged))
    notes = annotations_of(namespace.wait_for_phase("first", "Running"))
    assert notes[BACKEND_ANNOTATION] == ""
    assert json.loads(notes[ALLOCATION_ANNOTATION])["devices"] == []


def test_member_that_ungates_and_nominates_itself_waits_for_its_gang(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    (node,) = own_nodes(1, cpu="4")
    namespace.create(*gang("eager", 1, size=2, cpu="1", filtered=True))
    path = f"/api/v1/namespaces/{namespace.name}/pods/eager-0"
    namespace.api.patch(path, {"spec": {"schedulingGates": None}})
    namespace.api.patch(f"{path}/status", {"status": {"nominatedNodeName": node}})

    def cleared() -> bool:
        return not namespace.pod("eager-0")["status"].get("nominatedNodeName")

    wait_for(cleared, what="the nomination to be taken back")
    fluence.wait_for_reason(namespace.name, "eager", "waiting for members (1 of 2 exist)")
    assert not history.bound
    namespace.create(*gang("eager", 1, first=1, size=2, cpu="1", filtered=True))
    assert {node_of(one) for one in namespace.wait_until_bound(2)} == {node}
