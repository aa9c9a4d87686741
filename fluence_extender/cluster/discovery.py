"""Where the kinds are served that a cluster may have or not, and in which version.

PodGroup went through v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37), each behind a switch and without
conversion between the first two, so the version is asked for (KEP-4671). The kinds of custom resources come and go with
their definitions. For all of them together one question is asked now and then: which groups are there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from fluence_extender.cluster.connection import Connection, Request
from fluence_extender.cluster.port import Gone, Kind

GROUPS = "/apis"
ATTEMPT = "find out what is served"


@dataclass(frozen=True, slots=True)
class OptionalKind:
    """A kind that may be served: its API group, its plural, and the versions understood, the best first."""

    group: str
    resource: str
    versions: tuple[str, ...]

    @property
    def name(self) -> str:
        """How messages and RBAC name it."""
        return f"{self.resource}.{self.group}"


OPTIONAL: dict[Kind, OptionalKind] = {
    Kind.POD_GROUP: OptionalKind("scheduling.k8s.io", "podgroups", ("v1", "v1beta1", "v1alpha3", "v1alpha2")),
    Kind.COSCHEDULING_GROUP: OptionalKind("scheduling.x-k8s.io", "podgroups", ("v1alpha1",)),
    Kind.JOB_SET: OptionalKind("jobset.x-k8s.io", "jobsets", ("v1", "v1beta1", "v1alpha2")),
    Kind.LEADER_WORKER_SET: OptionalKind("leaderworkerset.x-k8s.io", "leaderworkersets", ("v1",)),
    Kind.MPI_JOB: OptionalKind("kubeflow.org", "mpijobs", ("v2beta1",)),
    Kind.RAY_CLUSTER: OptionalKind("ray.io", "rayclusters", ("v1",)),
}


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_Version] = []


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class Discovery:
    """Asks the API server what it serves; for ``fresh`` seconds the list of groups answers all who ask."""

    def __init__(self, connection: Connection, fresh: float = 0.0) -> None:
        self._connection = connection
        self._fresh = fresh
        self._asking = asyncio.Lock()
        self._asked = float("-inf")
        self._versions: dict[str, frozenset[str]] = {}

    async def find(self, kind: Kind) -> str | None:
        """The path under which all objects of the kind are listed; None where there is none. Raises `ClusterError`."""
        wanted = OPTIONAL[kind]
        served = (await self._groups()).get(wanted.group, frozenset())
        for version in wanted.versions:
            path = f"{GROUPS}/{wanted.group}/{version}"
            if version in served and await self._has(path, wanted.resource):
                return f"{path}/{wanted.resource}"
        return None

    async def _groups(self) -> dict[str, frozenset[str]]:
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now - self._asked >= self._fresh:
                self._versions = await self._ask()
                self._asked = now
            return self._versions

    async def _ask(self) -> dict[str, frozenset[str]]:
        try:
            answer = await self._connection.call(Request("GET", GROUPS, ATTEMPT))
            groups = msgspec.json.decode(answer, type=_Groups).groups
        except (Gone, msgspec.MsgspecError):
            return {}
        return {group.name: frozenset(one.version for one in group.versions) for group in groups}

    async def _has(self, path: str, resource: str) -> bool:
        try:
            answer = await self._connection.call(Request("GET", path, ATTEMPT))
            return any(one.name == resource for one in msgspec.json.decode(answer, type=_Resources).resources)
        except (Gone, msgspec.MsgspecError):
            return False
