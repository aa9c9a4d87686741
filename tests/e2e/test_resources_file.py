"""resources.yaml while the service runs, and when it starts: good edits count, bad ones change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.e2e.commands import run
from tests.e2e.harness import Manifest, Namespace, annotations_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, backends
from tests.e2e.workloads import ONE_DEVICE, QPU, RESOURCES, ours

Write = Callable[[str], None]

BROKEN = "backends: [{name: ibm_fez}]"
HALF_EDITED = ONE_DEVICE[:-3]
REJECTED = "fluence_extender_resources_rejected_total"


def wait_for_backends(fluence: Fluence, *names: str) -> None:
    """Wait until the graph has exactly these."""
    wait_for(
        lambda: backends(fluence) == set(names), what=f"backends {names}", seen=lambda: backends(fluence)
    )


def quantum(name: str) -> Manifest:
    """A pod of ours with one qpu."""
    return ours(name, cpu="1", requests={QPU: 1})


def refusals(installation: Installation) -> Counter[str]:
    """What Events say about refused edits, and how often; what is told again is counted."""
    path = "/apis/events.k8s.io/v1/namespaces/fluence-system/events"
    found: Counter[str] = Counter()
    for one in installation.plane.api.get(path)["items"]:
        if one["reason"] == "ResourcesRefused" and one["regarding"]["name"] == "fluence-resources":
            found[one["note"]] += (one.get("series") or {}).get("count", 1)
    return found


def test_device_added_by_an_edit_is_used(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    wait_for_backends(fluence, "ibm_fez")
    namespace.create(quantum("first"))
    namespace.wait_for_phase("first", "Running")
    namespace.create(quantum("second"))
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")
    resources(RESOURCES)
    backend = "fluence.flux-framework.org/backend"
    assert annotations_of(namespace.wait_for_phase("second", "Running"))[backend] == "rigetti_ankaa"
    assert annotations_of(namespace.pod("first"))[backend] == "ibm_fez"
    held = {one["pod"]: one["backend"] for one in fluence.allocations(namespace.name)}
    assert held == {"first": "ibm_fez", "second": "rigetti_ankaa"}


def test_broken_edit_keeps_the_old_graph_and_is_told_in_event_and_metric(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    wait_for_backends(fluence, "ibm_fez")
    before, told = fluence.metric(REJECTED), refusals(installation)
    often = told.total()

    def counted(wanted: float) -> bool:
        return fluence.metric(REJECTED) >= wanted

    def announced(wanted: int) -> bool:
        return refusals(installation).total() >= wanted

    for number, text in enumerate((BROKEN, HALF_EDITED), 1):
        resources(text)
        wait_for(partial(counted, before + number), what="the edit to be counted")
        wait_for(
            partial(announced, often + number),
            what="the Event",
            seen=lambda: refusals(installation),
        )
        assert backends(fluence) == {"ibm_fez"}
    notes = refusals(installation) - told
    assert any("expected a top-level 'resources:' list" in note for note in notes)
    assert all("fluence-system/fluence-resources" in note for note in notes)
    namespace.create(quantum("circuit"))
    namespace.wait_for_phase("circuit", "Running")
    # A good edit is taken after bad ones.
    resources(RESOURCES)
    wait_for_backends(fluence, "ibm_fez", "rigetti_ankaa")


def test_removed_config_leaves_running_pods_and_places_no_new_ones(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    resources: Write,
    installation: Installation,
) -> None:
    own_nodes(1, cpu="4")
    resources(ONE_DEVICE)
    namespace.create(quantum("first"))
    namespace.wait_for_phase("first", "Running")
    installation.plane.api.delete("/api/v1/namespaces/fluence-system/configmaps/fluence-resources")
    wait_for_backends(fluence)
    namespace.create(quantum("second"), ours("classical", cpu="1"))
    namespace.wait_for_phase("classical", "Running")
    fluence.wait_for_reason(namespace.name, "second", "no backend: no resource of type qpu is configured")
    resources(ONE_DEVICE)
    # The device is the first pod's again.
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")


def test_broken_config_refuses_the_start_with_its_message(
    fluence: Fluence, resources: Write, installation: Installation
) -> None:
    before = fluence.metric(REJECTED)
    resources(BROKEN)
    wait_for(lambda: fluence.metric(REJECTED) > before, what="the edit to be counted")
    serve = run("serve", "--kubeconfig", str(installation.kubeconfig), "--port", "0", "--api-port", "0")
    assert serve.returncode == 1
    assert "resources.yaml can't be used" in serve.stderr
    assert "fluence-system/fluence-resources" in serve.stderr
    assert "expected a top-level 'resources:' list" in serve.stderr
    assert "Traceback" not in serve.stderr


def test_local_file_is_followed_live(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(1, cpu="4")
    file = tmp_path / "resources.yaml"

    def write(text: str) -> None:
        # A file that is being written is empty for a moment, which means no devices.
        draft = tmp_path / "draft"
        draft.write_text(text)
        draft.replace(file)

    write(ONE_DEVICE)
    with installation.other("--resources", str(file)):
        wait_for_backends(fluence, "ibm_fez")
        write(BROKEN)
        wait_for(lambda: fluence.metric(REJECTED) >= 1, what="the broken edit to be counted")
        assert backends(fluence) == {"ibm_fez"}
        write(RESOURCES)
        wait_for_backends(fluence, "ibm_fez", "rigetti_ankaa")
        namespace.create(quantum("one"), quantum("two"))
        namespace.wait_until_bound(2)
        for name in ("one", "two"):
            namespace.delete_pod(name)
