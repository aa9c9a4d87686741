"""The ProvisioningRequests by which gangs ask for nodes: one for a whole gang, made, followed and withdrawn.

A request names the members of the gang that have no place, one set of pods for each shape. It belongs to the workloads
of the gang's pods, or to the pods themselves, so that it never outlives them, even if the service ends.

Invariant: a request of ours is withdrawn once its gang is gone, is bound, or asks no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from fluence_extender.cluster.port import Deleted, Listed, Observation
from fluence_extender.gangs.execution.actions import RequestNodes, WithdrawRequest
from fluence_extender.gangs.lifecycle.births import Births
from fluence_extender.gangs.membership.foreseen import role
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.model.gang import GangKey, GangState
from fluence_extender.model.names import CONSUMES_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.provisioning import NodeRequest, PodSet, ProvisioningRequest
from fluence_extender.placement.eligibility import signature

MOST_SETS = 32
"""Sets of pods that one request may have (autoscaling.x-k8s.io v1)."""

MOST_OWNERS = 32
"""The most owners of one request. It is deleted once all of them are gone."""

ORPHANED_AFTER = 60.0
"""Seconds after which a request without a gang is withdrawn: after a restart, the pods of a Job may be yet to come."""

AGAIN = 5.0
"""Seconds after which a write that has shown no effect is made again."""

READABLE = 40
"""The most characters of a gang's name that are in the name of its request."""

Id = tuple[str, str]


def request_name(key: GangKey) -> str:
    """Return the name of the gang's request, which is the same whoever leads."""
    readable = re.sub("[^a-z0-9]+", "-", key.name.lower())[:READABLE].strip("-")
    return f"{readable or 'gang'}-{sha256(repr(tuple(key)).encode()).hexdigest()[:8]}"


class NodeRequests:
    """The requests as the watch shows them; ``served`` says whether the API server serves the kind."""

    def __init__(self, registry: Registry, births: Births, class_name: str) -> None:
        self._registry = registry
        self._births = births
        self.class_name = class_name
        self.served = False
        self._requests: dict[Id, ProvisioningRequest] = {}
        self._gangs: dict[Id, GangKey | None] = {}
        self._without_gang: dict[Id, float] = {}
        self._written: dict[Id, float] = {}
        self.refused: dict[GangKey, str] = {}
        """Why the API server refuses the gang's request, until the refusal is passed on."""

    def observe(self, seen: Observation) -> None:
        """Take in an observation of a request, and mark its gang to be looked at."""
        match seen:
            case Listed(_, objects, served):
                self.served = served
                found = [one for one in objects if isinstance(one, ProvisioningRequest) and one.ours]
                present = {(one.namespace, one.name) for one in found}
                for at in [at for at in self._requests if at not in present]:
                    self._drop(at)
                for one in found:
                    self._put(one)
            case Deleted(_, ProvisioningRequest() as one):
                self._drop((one.namespace, one.name))
            case _ if isinstance(seen.object, ProvisioningRequest) and seen.object.ours:
                self._put(seen.object)

    def _put(self, one: ProvisioningRequest) -> None:
        at = one.namespace, one.name
        self._requests[at] = one
        if self._gangs.get(at) is None:
            mine = (
                key for key in self._registry.gangs if key.namespace == at[0] and request_name(key) == at[1]
            )
            self._gangs[at] = next(mine, None)
        self._look(at)

    def _drop(self, at: Id) -> None:
        self._requests.pop(at, None)
        self._look(at)
        self._gangs.pop(at, None)
        self._without_gang.pop(at, None)

    def _look(self, at: Id) -> None:
        key = self._gangs.get(at)
        if key in self._registry.gangs:
            self._registry.dirty.add(key)

    def find(self, key: GangKey) -> ProvisioningRequest | None:
        """Return the gang's request."""
        if not self._requests:
            return None
        at = key.namespace, request_name(key)
        found = self._requests.get(at)
        if found is not None:
            self._gangs[at] = key
        return found

    def possible(self, lacking: Sequence[Member]) -> bool:
        """Return whether one request can ask for all these members.

        Claims of devices can't be asked for: Cluster Autoscaler makes none for the pods of a request.
        """
        pods = [one.pod for one in lacking]
        return self.served and not any(pod.claim_refs for pod in pods) and len(_alike(pods)) <= MOST_SETS

    def ask(self, gang: Gang, lacking: Sequence[Member], now: float) -> Iterator[RequestNodes]:
        """Yield the request to make, unless it was made a moment ago."""
        at = gang.key.namespace, request_name(gang.key)
        if now < self._written.get(at, 0.0) + AGAIN:
            return
        self._written[at] = now
        self._gangs[at] = gang.key
        jobs = (
            {job.uid: job for job in self._births.jobs()} if any(one.pod.foreseen for one in lacking) else {}
        )
        sets = []
        for pods in _alike([one.pod for one in lacking]):
            first = pods[0]
            sets.append(
                PodSet(first, len(pods), jobs.get(first.uid.rpartition("/")[0]) if first.foreseen else None)
            )
        owners = tuple(_owners(one.pod for one in lacking))
        yield RequestNodes(gang.key, NodeRequest(*at, self.class_name, tuple(sets), owners))

    def withdraw(self, gang: Gang, now: float) -> Iterator[WithdrawRequest]:
        """Yield the withdrawal of the gang's request, unless its pods are on their way to the nodes."""
        request = self.find(gang.key)
        if request is not None and gang.state not in (GangState.PLANNED, GangState.COMMITTED):
            yield from self._end(request, now)

    def _end(self, request: ProvisioningRequest, now: float) -> Iterator[WithdrawRequest]:
        at = request.namespace, request.name
        if now >= self._written.get(at, 0.0) + AGAIN:
            self._written[at] = now
            yield WithdrawRequest(request)

    def orphans(self, now: float) -> Iterator[WithdrawRequest]:
        """Yield the withdrawals of requests whose gangs are gone."""
        gangs = self._registry.gangs
        for at, request in self._requests.items():
            if self._gangs.get(at) in gangs:
                self._without_gang.pop(at, None)
            elif now >= self._without_gang.setdefault(at, now) + ORPHANED_AFTER:
                yield from self._end(request, now)
        for at in [
            at for at, when in self._written.items() if at not in self._requests and now > when + AGAIN
        ]:
            del self._written[at]


def asks_itself(pods: Iterable[Pod], own: str) -> bool:
    """Return whether some of the pods name a request of their user, which isn't ``own``."""
    return any(pod.annotations.get(CONSUMES_ANNOTATION, own) != own for pod in pods)


def _alike(pods: Iterable[Pod]) -> list[list[Pod]]:
    """Return the pods in groups that look alike to schedulers."""
    found: dict[object, list[Pod]] = {}
    for pod in pods:
        labels = (pod.owner, role(pod)) if pod.interdependent else ()
        found.setdefault((pod.amounts, signature(pod), pod.host_ports, labels), []).append(pod)
    return list(found.values())


def _owners(pods: Iterable[Pod]) -> list[Owner]:
    owners = {pod.owner or Owner("Pod", pod.name, pod.uid, "v1"): None for pod in pods}
    return list(owners)[:MOST_OWNERS]
