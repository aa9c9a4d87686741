"""Virtual devices: chosen by requirement, stamped with the Binding, held with the node or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    ATTRIBUTE_PREFIX,
    BACKEND_ANNOTATION,
    REQUIRE_PREFIX,
)
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, backends
from tests.e2e.workloads import ONE_DEVICE, QPU, RESOURCES, gang, labelled, ours

Write = Callable[[str], None]

ATTRIBUTES = {
    "ibm_fez": {"vendor": "ibm", "region": "us-east"},
    "rigetti_ankaa": {"vendor": "rigetti", "region": "us-west-1"},
}


def quantum(name: str, **requires: str) -> Manifest:
    """A pod of ours with one qpu and these ``require-`` annotations."""
    notes = {f"{REQUIRE_PREFIX}{key}": value for key, value in requires.items()}
    return ours(name, cpu="1", requests={QPU: 1}, annotations=notes)


def stamped(pod: Manifest) -> tuple[str, dict[str, str]]:
    """A pod's backend and the attributes written for it."""
    notes = annotations_of(pod)
    attributes = {
        key.removeprefix(ATTRIBUTE_PREFIX): value
        for key, value in notes.items()
        if key.startswith(ATTRIBUTE_PREFIX)
    }
    return notes.get(BACKEND_ANNOTATION, ""), attributes


def test_backend_and_attributes_come_with_the_binding(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, resources: Write, history: History
) -> None:
    (node,) = room(1, cpu="4")
    resources(RESOURCES)
    namespace.create(quantum("circuit"))
    namespace.wait_for_phase("circuit", "Running")
    history.wait(1)
    (first,) = history.first_states()
    assert node_of(first) == node
    backend, attributes = stamped(first)
    assert attributes == ATTRIBUTES[backend]
    record = json.loads(annotations_of(first)[ALLOCATION_ANNOTATION])
    assert record["node"] == node
    assert [(one["type"], one["amount"]) for one in record["devices"]] == [("qpu", 1)]
    (held,) = fluence.allocations(namespace.name)
    assert (held["backend"], held["devices"]) == (backend, {"qpu": 1})
    gang_view = fluence.wait_for_state(namespace.name, "circuit", "bound")
    assert gang_view["members"][0]["backend"] == backend


@pytest.mark.parametrize(
    ("requires", "backend"),
    [
        ({"vendor": "rigetti"}, "rigetti_ankaa"),
        ({"vendor": "ibm"}, "ibm_fez"),
        ({"backend": "rigetti_ankaa"}, "rigetti_ankaa"),
        ({"vendor": "ibm", "region": "us-east"}, "ibm_fez"),
    ],
)
def test_requirement_decides_the_backend(
    requires: dict[str, str],
    backend: str,
    fluence: Fluence,
    namespace: Namespace,
    room: NodeFactory,
    resources: Write,
) -> None:
    room(1, cpu="4")
    resources(RESOURCES)
    namespace.create(quantum("circuit", **requires))
    assert stamped(namespace.wait_for_phase("circuit", "Running")) == (backend, ATTRIBUTES[backend])
    # The device is taken: the same wish waits for it though another device is free.
    namespace.create(quantum("again", **requires))
    fluence.wait_for_reason(
        namespace.name, "again", f"busy: 1 qpu not free on any backend that matches ({backend})"
    )


@pytest.mark.parametrize("requires", [{"vendor": "dwave"}, {"vendor": "ibm", "region": "us-west-1"}])
def test_impossible_requirement_is_told_and_holds_nothing(
    requires: dict[str, str],
    fluence: Fluence,
    namespace: Namespace,
    room: NodeFactory,
    resources: Write,
    history: History,
) -> None:
    room(1, cpu="4")
    resources(RESOURCES)
    wait_for(lambda: backends(fluence) == set(ATTRIBUTES), what="the devices to be known")
    namespace.create(quantum("circuit", **requires))
    waiting = fluence.wait_for_reason(namespace.name, "circuit", "no backend")
    for key, value in requires.items():
        assert f"require-{key}={value}" in waiting["reason"]
    assert not fluence.allocations(namespace.name)
    assert not history.bound


def test_device_that_nobody_configured_is_told(
    fluence: Fluence, namespace: Namespace, room: NodeFactory
) -> None:
    room(1, cpu="4")
    namespace.create(quantum("circuit"))
    assert "qpu" in fluence.wait_for_reason(namespace.name, "circuit", "no backend")["reason"]


def test_cores_are_not_held_while_the_device_is_busy(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, resources: Write
) -> None:
    room(1, cpu="3")
    resources(ONE_DEVICE)
    namespace.create(quantum("first"))
    namespace.wait_for_phase("first", "Running")
    namespace.create(quantum("second"))
    fluence.wait_for_reason(namespace.name, "second", "busy: 1 qpu not free")
    assert [one["pod"] for one in fluence.allocations(namespace.name)] == ["first"]
    namespace.create(ours("classical", cpu="2"))
    namespace.wait_for_phase("classical", "Running")


def test_device_is_not_held_while_cores_are_busy(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, resources: Write
) -> None:
    room(1, cpu="3")
    resources(ONE_DEVICE)
    namespace.create(ours("classical", cpu="2"))
    namespace.wait_for_phase("classical", "Running")
    namespace.create(ours("circuit", cpu="2", requests={QPU: 1}))
    fluence.wait_for_reason(namespace.name, "circuit", "busy: 0 of 1 fit now, short of cpu")
    assert [one["pod"] for one in fluence.allocations(namespace.name)] == ["classical"]
    # Asks for no core, or for what the webhook's containers do, and so can have the device at once.
    free = ours("free", requests={QPU: 1})
    namespace.create(free)
    assert stamped(namespace.wait_for_phase("free", "Running"))[0] == "ibm_fez"
    namespace.delete_pod("classical")
    fluence.wait_for_reason(namespace.name, "circuit", "busy: 1 qpu not free")


def test_gang_of_quantum_and_classical_pods_starts_together(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, resources: Write, history: History
) -> None:
    room(2, cpu="2")
    resources(ONE_DEVICE)
    namespace.create(quantum("holder"))
    namespace.wait_for_phase("holder", "Running")
    namespace.create(labelled(quantum("vqe-0"), "vqe", 3), *gang("vqe", 2, first=1, size=3, cpu="1"))
    fluence.wait_for_reason(namespace.name, "vqe", "busy: 2 of 3 fit now, short of qpu")
    assert [one["pod"] for one in fluence.allocations(namespace.name)] == ["holder"]
    history.wait(1)
    assert history.names() == ["holder"]
    namespace.delete_pod("holder")
    pods = namespace.wait_until_bound(3)
    assert [stamped(one)[0] for one in pods] == ["ibm_fez", "", ""]


def test_requests_meet_pools_and_whole_devices_at_any_level(
    fluence: Fluence, namespace: Namespace, room: NodeFactory, resources: Write
) -> None:
    room(1, cpu="8")
    resources(
        "resources: [{type: qdevice, name: eagle, with: [{type: qpu, with: [{type: qubit, count: 100}]}]}]"
    )
    qubits = {"fluxion.flux-framework.org/qubit": 60}
    namespace.create(ours("sixty", requests=qubits))
    namespace.wait_for_phase("sixty", "Running")
    namespace.create(
        ours("whole", requests={"fluxion.flux-framework.org/qdevice": 1}), ours("next", requests=qubits)
    )
    fluence.wait_for_reason(namespace.name, "whole", "busy: 1 qdevice not free")
    fluence.wait_for_reason(namespace.name, "next", "busy: 60 qubit not free")
    namespace.create(ours("forty", requests={"fluxion.flux-framework.org/qubit": 40}))
    namespace.wait_for_phase("forty", "Running")
    held = {one["pod"]: (one["backend"], one["devices"]) for one in fluence.allocations(namespace.name)}
    assert held == {"sixty": ("eagle", {"qubit": 60}), "forty": ("eagle", {"qubit": 40})}
    for name in ("sixty", "forty", "next"):
        namespace.delete_pod(name)
    namespace.wait_for_phase("whole", "Running")
