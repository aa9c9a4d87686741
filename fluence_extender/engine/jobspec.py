"""Requests as jobspecs (RFC 14), in the form that fits this graph.

Compute requests are slots of leaves on physical nodes. A device with children is requested whole, as a node-typed
vertex below the vertices above it; a leaf type is requested as units of one pool. Devices are selected by rank: a
constraint is tested on every node-typed vertex on the way down, and ranks can name those too.

Invariant: a jobspec has plain JSON values and nothing that libreapi_cli refuses. A duration of
0 means "until cancelled".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fluence_extender.graph.catalogue import Device
from fluence_extender.graph.vertex import NODE_TYPE, PHYSICAL
from fluence_extender.model.notation import encode_idset

Jobspec = dict[str, Any]

_VERSION = 9999
_LABEL = "default"


def compute_jobspec(counts: Mapping[str, int], slots: int, ranks: Iterable[int] | None = None) -> Jobspec:
    """Return the request for ``slots`` times ``counts`` (leaf type -> leaves) on physical nodes.

    ``ranks`` restrict it to those nodes. Raises `ValueError` when ``counts`` is empty:
    such a pod takes no leaf and needs no match.
    """
    leaves = [{"type": leaf, "count": count} for leaf, count in counts.items() if count > 0]
    if not leaves or slots < 1:
        raise ValueError(f"nothing to match in {slots} slots of {dict(counts)}")
    physical: dict[str, Any] = {"properties": [PHYSICAL]}
    constraint = physical if ranks is None else {"and": [physical, _ranks(ranks)]}
    return _jobspec(_slot(slots, leaves), constraint)


def jobspecs_for(devices: Iterable[Device], count: int) -> tuple[Jobspec, ...]:
    """Return requests for ``count`` of ``devices``, which have one type; none when there are no devices.

    The requests are alternatives, to be tried in order: one for each depth, outer devices first, then pools.
    """
    if count < 1:
        raise ValueError(f"a request for {count} devices")
    by_shape: dict[tuple[bool, int], list[Device]] = {}
    for device in devices:
        # A slot of leaves finds its pool at any depth.
        by_shape.setdefault((device.leaf, 0 if device.leaf else device.depth), []).append(device)
    return tuple(_device_jobspec(by_shape[shape], *shape, count) for shape in sorted(by_shape))


def _device_jobspec(devices: list[Device], leaf: bool, depth: int, count: int) -> Jobspec:
    resource = _slot(1, [{"type": devices[0].type if leaf else NODE_TYPE, "count": count}])
    for _ in range(depth):
        resource = {"type": NODE_TYPE, "count": 1, "with": [resource]}
    ranks = {device.rank for device in devices}
    return _jobspec(resource, _ranks(ranks.union(*(device.ancestors for device in devices))))


def _slot(count: int, leaves: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "slot", "count": count, "label": _LABEL, "with": leaves}


def _ranks(ranks: Iterable[int]) -> dict[str, Any]:
    idset = encode_idset(ranks)
    return {"ranks": [idset] if idset else []}


def _jobspec(resource: dict[str, Any], constraint: dict[str, Any]) -> Jobspec:
    return {
        "version": _VERSION,
        "resources": [resource],
        "attributes": {"system": {"duration": 0, "constraints": constraint}},
        "tasks": [{"command": ["gang"], "slot": _LABEL, "count": {"per_slot": 1}}],
    }
