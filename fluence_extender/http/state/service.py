"""The state of the service: everything that the state API and the metrics show of it.

Everything here runs on the event loop that also feeds the controller, so an answer never mixes old and new state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fluence_extender.api.gangs import Allocation, Gang, GangDetail
from fluence_extender.api.nodes import Backend, Node, NodeDetail
from fluence_extender.api.past import WorkRecord
from fluence_extender.api.queues import QueueEntry, QueueSummary, ReservedNodes
from fluence_extender.gangs.controller import Controller
from fluence_extender.http.metrics import QueueCount
from fluence_extender.http.readiness import Readiness
from fluence_extender.http.state.backends import backend_listing
from fluence_extender.http.state.gangs import (
    allocation_listing,
    find_gang,
    gang_detail,
    gang_listing,
    named_namespaces,
)
from fluence_extender.http.state.graph import graph
from fluence_extender.http.state.listings import GraphExport, Listing, Single
from fluence_extender.http.state.nodes import node_detail, node_listing
from fluence_extender.http.state.queue import line_listing, queue_listing, reservation_listing
from fluence_extender.model.access import CallerSight
from fluence_extender.model.accounting import Grouping, Reader, RunQuestion, UsedAmount
from fluence_extender.whatif.simulator import Permit, See, Simulator


class AccountReader(Protocol):
    """Answers questions about past work. Each method raises `AccountUnavailable`."""

    async def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have an account."""
        ...

    async def usage(self, by: Grouping, since: int, namespace: str, reader: Reader) -> Sequence[UsedAmount]:
        """Return what was used since the day (UTC) of ``since``, in one namespace or in all ("")."""
        ...

    async def runs(self, question: RunQuestion, reader: Reader) -> Sequence[WorkRecord]:
        """Return up to ``limit`` runs, the newest first."""
        ...


class ServiceState:
    """The state of the service of ``controller``.

    ``simulator`` answers what-if questions. ``account`` answers questions about past work, None if no account is kept.
    """

    account: AccountReader | None = None

    def __init__(
        self,
        controller: Controller,
        readiness: Readiness,
        simulator: Simulator,
        account: AccountReader | None = None,
    ) -> None:
        self.account = account
        self.readiness = readiness
        self._controller = controller
        self._simulator = simulator

    def gangs(self, gone: bool, sight: CallerSight) -> Listing[Gang]:
        """Return all gangs by namespace and name, with those that went lately if ``gone``, in words for ``sight``."""
        return gang_listing(self._controller, gone, sight)

    def gang(
        self, namespace: str, name: str, convention: str, sight: CallerSight
    ) -> Single[GangDetail] | None:
        """Return one gang, or the last one of that name to go; ``convention`` distinguishes several of one name."""
        found = find_gang(self._controller, namespace, name, convention)
        return None if found is None else gang_detail(self._controller, found, sight, self.readiness.leading)

    def named_about(self, namespace: str, name: str, convention: str) -> frozenset[str]:
        """Return the namespaces of all objects that the reason and the history of a gang name."""
        found = find_gang(self._controller, namespace, name, convention)
        return frozenset() if found is None else named_namespaces(found)

    def allocations(self) -> Listing[Allocation]:
        """Return the allocations of our pods by namespace and pod, including planned and committed ones."""
        return allocation_listing(self._controller)

    def nodes(self) -> Listing[Node]:
        """Return all nodes by name."""
        return node_listing(self._controller)

    def node(self, name: str) -> Single[NodeDetail] | None:
        """Return one node with the pods that use it."""
        return node_detail(self._controller, name, self.readiness.leading)

    def backends(self) -> Listing[Backend]:
        """Return all virtual devices by backend and path."""
        return backend_listing(self._controller)

    def queues(self) -> Listing[QueueSummary]:
        """Return all queues by name."""
        return queue_listing(self._controller)

    def line(self, sight: CallerSight) -> Listing[QueueEntry]:
        """Return the gangs in line, in the order in which they are served, in words for ``sight``."""
        return line_listing(self._controller, sight)

    def reservations(self, with_nodes: bool) -> Listing[ReservedNodes]:
        """Return what is kept free for gangs, and by administrators, these ``with_nodes`` or only counted."""
        return reservation_listing(self._controller, with_nodes)

    def graph(self) -> GraphExport:
        """Return the graph as JGF in whole cores and GiB; equal leaves are one vertex with a size."""
        return graph(self._controller)

    def counts(self) -> tuple[Mapping[str, int], int]:
        """Return how many gangs there are in each state, and how many pods have an allocation."""
        states = Counter(gang.state.value for gang in self._controller.registry.gangs.values())
        return states, len(self._controller.ledger.holdings)

    def queue_counts(self) -> dict[str, QueueCount]:
        """Return how many gangs of each queue wait and run, and for how many seconds the oldest waits."""
        usage, now = self._controller.lifecycle.admission.usage, self._controller.registry.gone.clock()
        waiting, oldest = self._controller.queue.waiting(), self._controller.queue.oldest()
        return {
            queue: QueueCount(
                waiting[queue], usage.running((queue, None)), max(now - oldest.get(queue, now), 0.0)
            )
            for queue in {*self._controller.queue.settings.queues, *usage.queues()}
        }

    def untried_for(self) -> float:
        """Return for how many seconds a gang that may start has waited for an attempt at most; 0 if others lead."""
        return self._controller.lifecycle.untried_for() if self._controller.leading else 0.0

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of all gangs, with those that went lately, and of all pods that hold something."""
        registry = self._controller.registry
        gone = (one.gang.key.namespace for one in registry.gone)
        return self.holding_namespaces().union((key.namespace for key in registry.gangs), gone)

    def holding_namespaces(self) -> frozenset[str]:
        """Return the namespaces of all pods that hold something."""
        return frozenset(held.namespace for held in self._controller.ledger.holdings.values())

    async def simulate(
        self, manifests: bytes, namespace: str, client: str, permit: Permit, see: See
    ) -> dict[str, Any]:
        """Return what would happen to the gangs of ``manifests``. Raises as `Simulator.answer` does."""
        return await self._simulator.answer(manifests, namespace, client, permit, see)
