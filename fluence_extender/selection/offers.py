"""What the cluster offers: the top-level devices of its resources.yaml, with the attributes they carry there.

Attributes are texts in that file; one that is a number is a number here, so that ``cost_usd: "0.30"`` can be ranked.
A device made of qubits has their number as ``qubits`` unless it says otherwise.
"""

from __future__ import annotations

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResource
from fluence_extender.selection.backend import QUBITS, Backend, parse_number

_QUBIT = "qubit"


def parse_offers(text: str, source: str) -> tuple[Backend, ...]:
    """The backends of a resources.yaml, by name. Raises `InvalidResourcesFile`."""
    offered: dict[str, Backend] = {}
    for resource in parse_resources(text, source).resources:
        for name in resource.names:
            offered.setdefault(name, _backend(name, resource))
    return tuple(offered[name] for name in sorted(offered))


def _backend(name: str, resource: VirtualResource) -> Backend:
    numbers: dict[str, float] = {}
    strings: dict[str, str] = {}
    for key, text in resource.attributes.items():
        number = parse_number(text)
        if number is None:
            strings[key] = text
        else:
            numbers[key] = number
    qubits = _qubits(resource)
    if qubits and QUBITS not in strings:
        numbers.setdefault(QUBITS, float(qubits))
    return Backend(name, numbers, strings)


def _qubits(resource: VirtualResource) -> int:
    """The qubits in one device."""
    if resource.is_leaf:
        return resource.count if resource.type == _QUBIT else 0
    return sum(len(child.names) * _qubits(child) for child in resource.children)
