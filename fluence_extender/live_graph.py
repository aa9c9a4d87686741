"""The graph of a live cluster, for a look from outside: one list, no writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.port import ClusterError, Kind, Listed, Observation, ResourcesFile
from fluence_extender.cluster.watch import Watcher
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.jgf import expand, to_jgf
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.shown import sized
from fluence_extender.graph.units import COARSE
from fluence_extender.model.node import Node

PATIENCE = 15.0
"""Seconds to wait for the lists."""


async def live_graph(
    kubeconfig: str | None, resources: str | Path, levels: Mapping[str, str], expanded: bool
) -> dict[str, Any]:
    """The graph as JGF, in whole cores and GiB; ``expanded`` makes a vertex of each.

    Raises `ClusterError`, `BadKubeconfig`, `ResourcesFileError`, `InvalidResourcesFile` and `GraphTooLarge`.
    """
    nodes: list[Node] = []
    files: list[ResourcesFile] = []

    def sink(seen: Observation) -> None:
        if isinstance(seen, Listed):
            nodes.extend(one for one in seen.objects if isinstance(one, Node))
            files.extend(one for one in seen.objects if isinstance(one, ResourcesFile))

    async with connect(kubeconfig) as connection:
        watcher = Watcher(connection, sink, resources)
        watching = asyncio.create_task(watcher.run())
        listed = asyncio.create_task(watcher.synced(Kind.NODE, Kind.RESOURCES_FILE))
        done, _ = await asyncio.wait(
            {watching, listed}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        failures = "; ".join(watcher.failures().values())
        for task in (watching, listed):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(watching, listed, return_exceptions=watching not in done)
    if listed not in done:
        raise ClusterError(f"the cluster was not listed within {PATIENCE:g} s: {failures or 'no answer'}")
    file = files[-1] if files else ResourcesFile("", None)
    parsed = parse_resources(file.text or "", file.source)
    document = to_jgf(build_containment(nodes, parsed, units=COARSE, levels=levels))
    return expand(document) if expanded else sized(document)
