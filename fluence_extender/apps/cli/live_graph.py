"""The graph of a live cluster, for a look from outside: one list, no writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fluence_extender.cluster.port import Kind, ResourcesFile
from fluence_extender.cluster.watch import list_once
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.jgf import expand, sized, to_jgf
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.units import COARSE
from fluence_extender.model.node import Node


async def live_graph(
    kubeconfig: str | None, resources: str | Path, levels: Mapping[str, str], expanded: bool
) -> dict[str, Any]:
    """The graph as JGF, in whole cores and GiB; ``expanded`` makes a vertex of each.

    Raises `ClusterError`, `BadKubeconfig`, `ResourcesFileError`, `InvalidResourcesFile` and `GraphTooLarge`.
    """
    seen = await list_once(kubeconfig, resources, Kind.NODE, Kind.RESOURCES_FILE)
    nodes = [one for one in seen if isinstance(one, Node)]
    file = next((one for one in seen if isinstance(one, ResourcesFile)), ResourcesFile("", None))
    parsed = parse_resources(file.text or "", file.source)
    document = to_jgf(build_containment(nodes, parsed, units=COARSE, levels=levels))
    return expand(document) if expanded else sized(document)
