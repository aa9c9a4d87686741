"""The state that a watcher has reported, for tests that compare it with the API server's state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.pacing import Timing
from fluence_extender.cluster.port import (
    WATCHED,
    Changed,
    Deleted,
    Kind,
    Listed,
    Observation,
    ResourcesFile,
    Sink,
    Watched,
)
from fluence_extender.cluster.watch import Watcher
from fluence_extender.model.pod import Pod

QUICK = Timing(heartbeat=0.3, retry_cap=0.5, page=3)


class Mirror:
    """A sink; ``lists`` counts the lists of each kind."""

    def __init__(self) -> None:
        self.state: dict[Kind, dict[str, Watched]] = {kind: {} for kind in WATCHED}
        self.lists: dict[Kind, int] = dict.fromkeys(WATCHED, 0)

    def __call__(self, observation: Observation) -> None:
        kept = self.state[observation.kind]
        match observation:
            case Listed(objects=objects):
                self.lists[observation.kind] += 1
                kept.clear()
                kept.update({_name(one): one for one in objects})
            case Changed(object=one):
                kept[_name(one)] = one
            case Deleted(object=one):
                kept.pop(_name(one), None)

    def pod(self, name: str) -> Pod | None:
        """The pod of that name, None if there is none."""
        found = self.state[Pod].get(name)
        return found if isinstance(found, Pod) else None

    def names(self, kind: Kind, prefix: str = "") -> set[str]:
        """The names of a kind that begin so."""
        return {name for name in self.state[kind] if name.startswith(prefix)}

    def file(self) -> str | None:
        """The text of resources.yaml."""
        (found,) = self.state[ResourcesFile].values()
        assert isinstance(found, ResourcesFile)
        return found.text


def _name(one: Watched) -> str:
    return "" if isinstance(one, ResourcesFile) else one.name


@asynccontextmanager
async def mirrored(
    kubeconfig: Path, timing: Timing = QUICK, sink: Callable[[Mirror], Sink] | None = None
) -> AsyncIterator[tuple[Watcher, Mirror]]:
    """A watcher of the cluster and the state that it has reported; ``sink`` may be inserted between the two."""
    mirror = Mirror()
    async with connect(str(kubeconfig)) as connection:
        watcher = Watcher(connection, sink(mirror) if sink else mirror, "default", timing)
        task = asyncio.create_task(watcher.run())
        try:
            async with asyncio.timeout(90):
                await watcher.synced()
            yield watcher, mirror
        finally:
            task.cancel()
            await asyncio.wait([task])


async def eventually(condition: Callable[[], bool], seconds: float = 90) -> None:
    """Wait until ``condition()`` holds."""
    ends = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < ends, "it never came true"
        await asyncio.sleep(0.01)
