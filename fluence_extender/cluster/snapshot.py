"""The cluster listed once, for a look from outside: nothing is written and nothing is followed."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.port import ClusterError, Kind, Listed, Observation, Watched
from fluence_extender.cluster.resources_file import read_resources_file
from fluence_extender.cluster.watch import Watcher

PATIENCE = 30.0
"""Seconds to wait for the lists."""


async def listed_once(kubeconfig: str | None, resources: str | Path, *kinds: Kind) -> list[Watched]:
    """All objects of ``kinds`` that there are now, resources.yaml as `ResourcesFile` among them if asked for.

    ``resources`` is a local file or the namespace of the ConfigMap. Raises `ClusterError`, `BadKubeconfig` and
    `ResourcesFileError`.
    """
    found: dict[Kind, tuple[Watched, ...]] = {}

    def sink(seen: Observation) -> None:
        if isinstance(seen, Listed) and seen.kind in kinds:
            found[seen.kind] = seen.objects

    if isinstance(resources, Path):
        await asyncio.to_thread(read_resources_file, resources)
    async with connect(kubeconfig) as connection:
        watcher = Watcher(connection, sink, resources)
        watching = asyncio.create_task(watcher.run())
        listed = asyncio.create_task(watcher.synced(*kinds))
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
    return [one for objects in found.values() for one in objects]
