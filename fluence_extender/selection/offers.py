"""What the cluster offers: the top-level devices of its resources.yaml, with the attributes that they have there.

They are read from that file, or from the service's list of devices, which has the same content.

Attributes are texts there. A text that is a number becomes a number, so that ``cost_usd: "0.30"`` can be ranked. A
device made of qubits has their number as ``qubits``, unless an attribute says otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResource
from fluence_extender.selection.backend import QUBITS, Backend, parse_number

_QUBIT = "qubit"


def parse_offers(text: str, source: str) -> tuple[Backend, ...]:
    """Return the backends of a resources.yaml, by name. Raise `InvalidResourcesFile`."""
    offered: dict[str, Backend] = {}
    for resource in parse_resources(text, source).resources:
        for name in resource.names:
            offered.setdefault(name, _backend(name, resource.attributes, _qubits(resource)))
    return tuple(offered[name] for name in sorted(offered))


def offers_of_devices(devices: Iterable[Mapping[str, Any]]) -> tuple[Backend, ...]:
    """Return the backends of the service's ``/v1/backends``, by name, without those that aren't in the graph."""
    attributes: dict[str, Mapping[str, str]] = {}
    qubits: Counter[str] = Counter()
    for device in sorted(devices, key=lambda one: len(one["path"])):
        if device["total"]:
            attributes.setdefault(device["backend"], device["attributes"])
            qubits[device["backend"]] += device["total"] if device["type"] == _QUBIT else 0
    return tuple(_backend(name, attributes[name], qubits[name]) for name in sorted(attributes))


def _backend(name: str, attributes: Mapping[str, str], qubits: int) -> Backend:
    numbers: dict[str, float] = {}
    strings: dict[str, str] = {}
    for key, text in attributes.items():
        number = parse_number(text)
        if number is None:
            strings[key] = text
        else:
            numbers[key] = number
    if qubits and QUBITS not in strings:
        numbers.setdefault(QUBITS, float(qubits))
    return Backend(name, numbers, strings)


def _qubits(resource: VirtualResource) -> int:
    """Return the number of qubits in one device."""
    if resource.is_leaf:
        return resource.count if resource.type == _QUBIT else 0
    return sum(len(child.names) * _qubits(child) for child in resource.children)
