"""Claims that are hard to serve, and reasons why they can't be, cost a limited number of comparisons with devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.devices import allocator, selectors
from fluence_extender.devices.allocator import COMPARED_PER_STATE, work
from fluence_extender.devices.hosting import MOST_STATES, failure, most_hosted
from fluence_extender.model.claims import AttributeConstraint, Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import NodeDevice
from fluence_extender.model.node import Node
from fluence_extender.room.claims import WORK_OF_A_REASON, ClaimRooms
from tests.core.values import node

DRIVER = "gpu.example.com"
ANY = f'device.driver == "{DRIVER}"'


def different(name: str, devices: int) -> Node:
    """Return a node whose devices are all different."""
    attributes = range(8)
    made = tuple(
        NodeDevice(
            DRIVER, name, f"g{at}", {f"{DRIVER}/a{k}": f"{(at * 7 + k * 3) % (k + 2)}" for k in attributes}
        )
        for at in range(devices)
    )
    return replace(node(name), devices=made)


def hard(variant: int = 0) -> ClaimSpec:
    """Return a claim of 8 requests with 8 choices each, which constrain each other."""
    requests = tuple(
        DeviceRequest(
            f"r{at}",
            tuple(Choice("gpus", (ANY,), 2 + (variant + at + k) % 3, name=f"s{k}") for k in range(8)),
        )
        for at in range(8)
    )
    constraints = tuple(
        AttributeConstraint(
            f"{DRIVER}/a{k}",
            frozenset({f"r{k}", f"r{(k + 1 + variant) % 8}"}),
            distinct=bool((k + variant) % 2),
        )
        for k in range(8)
    )
    return ClaimSpec(requests, constraints)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the devices that are compared with constraints, and those compared with selectors, which all select."""
    found: Counter[str] = Counter()
    agreed, selects = allocator._Serving._agreed, selectors.selects

    def counted(self: Any, *given: Any) -> Any:
        found["constraints"] += 1
        return agreed(self, *given)

    def selected(expressions: Sequence[str], device: NodeDevice) -> Any:
        found["selectors"] += 1
        return selects(tuple(expressions), device)

    monkeypatch.setattr(selectors, "verdict", lambda expression, device: True)
    monkeypatch.setattr(allocator._Serving, "_agreed", counted)
    monkeypatch.setattr("fluence_extender.devices.hosting.selects", selected)
    return found


@pytest.mark.parametrize("waiting", [0, 1000])
def test_search_for_devices_is_limited_however_many_pods_wait(waiting: int, compared: Counter[str]) -> None:
    pods = (((hard(1),), waiting),) if waiting else ()
    before = work.done
    most_hosted(different("n1", 32), pods, (hard(),), 128)
    assert work.done - before <= 2 * MOST_STATES + 32 * 128
    assert compared["constraints"] <= 2 * MOST_STATES * COMPARED_PER_STATE


def test_choices_with_the_same_selectors_are_compared_once(compared: Counter[str]) -> None:
    assert failure(different("n2", 32), (hard(),)) == ""
    assert compared["selectors"] == 32


def test_reason_for_claims_on_many_nodes_is_limited(compared: Counter[str]) -> None:
    nodes = {name: different(name, 32) for name in (f"m{number}" for number in range(50))}
    requests = tuple(DeviceRequest(f"r{at}", (Choice("gpus", (f"{ANY} || {at} < 0",)),)) for at in range(60))
    assert ClaimRooms(nodes).failure((ClaimSpec(requests),), nodes) == ""
    assert compared["selectors"] <= WORK_OF_A_REASON + 32 * 60
