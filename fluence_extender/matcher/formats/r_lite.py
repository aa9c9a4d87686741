"""R_lite (RFC 20): which cores and gpus of which ranks a resource set holds.

Only ids of ``core`` and ``gpu`` are told, under the next ``node`` or ``storage_node`` that follows them; whatever has
none of them below it isn't mentioned (fluxion reference 2.2).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fluence_extender.matcher.formats.hostnames import encode_hosts
from fluence_extender.model.notation import encode_idset

_REDUCED = ("core", "gpu")
_RANKED = frozenset({"node", "storage_node"})
_LARGEST = 2**32 - 2


@dataclass(slots=True)
class RLite:
    """``children``, as JSON text, -> the ranks and names of the nodes that have exactly them; property -> ranks."""

    nodes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    properties: dict[str, list[int]] = field(default_factory=dict)

    def execution(self, starttime: int, expiration: int) -> dict[str, Any]:
        """The ``execution`` object of an R. Raises ValueError for a rank or id below 0, a name no hostlist holds."""
        ranked = [(children, sorted(self.nodes[children], key=_rank)) for children in sorted(self.nodes)]
        hosts = sorted((node for _, nodes in ranked for node in nodes), key=_rank)
        execution: dict[str, Any] = {
            "R_lite": [
                {"rank": _idset((rank for rank, _ in nodes), "rank"), "children": json.loads(children)}
                for children, nodes in ranked
            ],
            "nodelist": [encode_hosts(name for _, name in hosts)],
        }
        if self.properties:
            execution["properties"] = {
                name: _idset(self.properties[name], "rank")
                for name in sorted(self.properties, key=str.encode)
            }
        return execution | {"starttime": starttime, "expiration": expiration}


def r_lite_of(vertices: Iterable[dict[str, Any]]) -> RLite:
    """Reduce the metadata of a resource set's vertices, children before their parents."""
    reduced = RLite()
    ids: dict[str, list[int]] = {name: [] for name in _REDUCED}
    for vertex in vertices:
        kind = vertex["type"]
        if kind in ids:
            ids[kind].append(vertex["id"])
        elif kind in _RANKED and any(ids.values()):
            children = {name: _idset(found, name) for name, found in ids.items() if found}
            reduced.nodes.setdefault(json.dumps(children), []).append((vertex["rank"], name_of(vertex)))
            for key, value in vertex.get("properties", {}).items():
                reduced.properties.setdefault(f"{key}={value}" if value else key, []).append(vertex["rank"])
            ids = {name: [] for name in _REDUCED}
    return reduced


def name_of(vertex: dict[str, Any]) -> str:
    """The vertex's name, which JGF leaves out where it is basename and id."""
    return vertex.get("name") or f"{vertex.get('basename', vertex['type'])}{vertex['id']}"


def _rank(node: tuple[int, str]) -> int:
    return node[0]


def _idset(numbers: Iterable[int], what: str) -> str:
    distinct = set(numbers)
    for number in distinct:
        if not 0 <= number <= _LARGEST:
            raise ValueError(f"a {what} of {number} can't be written in an idset")
    return encode_idset(distinct)
