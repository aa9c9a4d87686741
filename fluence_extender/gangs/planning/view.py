"""What a pass is decided from: all that it reads, as it is at one moment.

A pass runs in a thread, while the event loop goes on. So a view holds nothing that the loop may change. Taking a view
takes some milliseconds, however many gangs there are: only gangs that have changed since the last view are copied
again. A copy has the same members as the gang, because these are values. Only nodes that have changed are handed over.

Invariant: what is in a view stays as it is until the pass is over. Only the pass changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from fluence_extender.gangs.lifecycle.growth import ClusterGrowth
from fluence_extender.gangs.lifecycle.large_gangs import LargeGangs
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.cluster_timeline import ClusterTimeline
from fluence_extender.gangs.planning.known_ends import LeavingPods
from fluence_extender.gangs.planning.pass_memory import NodeChanges
from fluence_extender.gangs.planning.reservations import Blocked
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.preemption.preempting import PreemptionFacts
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.pool import SharedPool
from fluence_extender.gangs.queue.reclaims import Reclaims
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.turns import ToTry
from fluence_extender.model.gang import GangKey
from fluence_extender.placement.plan import Planner
from fluence_extender.queueing.order import Rank
from fluence_extender.queueing.policy import QueuePolicy
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.room import Room


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The queues as a pass reads them. The pass also counts its decisions in them.

    ``cut`` is the rank of the last gang that the queue's queueDepth lets a pass try, None if it lets all.
    """

    settings: Queues
    policy: QueuePolicy
    admission: QueueAdmission
    reclaims: Reclaims
    pool: SharedPool
    cut: Rank | None


@dataclass(frozen=True, slots=True)
class EndFacts:
    """When pods end, and what was found out from that before.

    ``leaving`` are the pods that hold something and have a known end, and ``any_known`` says whether any pod has one.
    ``own`` is what nodes have less what foreign pods use. ``blocked`` and ``cluster`` are those of the last pass. The
    timeline ``cluster`` is still right if it has the same ``revision``.
    """

    leaving: LeavingPods
    any_known: bool
    own: CapacityTable
    blocked: Mapping[GangKey, Blocked]
    cluster: ClusterTimeline | None
    revision: object


@dataclass(frozen=True, slots=True)
class View:
    """All that a pass reads.

    ``now`` is on the controller's clock, ``calendar`` in seconds since the epoch. ``grew`` says that
    room may have grown since the last pass, or that reasons are old, so all gangs are tried. ``line`` has the gangs to
    try, with their ranks, in order. The pass doesn't try the gangs in ``changing``, because the event loop has to
    evaluate them first. It always tries the gangs in ``changed``, which have changed since a pass last tried them.
    """

    now: float
    calendar: float
    grew: bool
    line: Sequence[ToTry]
    changing: Set[GangKey]
    changed: Set[GangKey]
    registry: Registry
    room: Room
    nodes: NodeChanges
    queues: QueueFacts
    ends: EndFacts
    preemption: PreemptionFacts
    quotas: NamespaceQuotas
    large: LargeGangs


@dataclass(frozen=True, slots=True)
class LiveParts:
    """What views are taken of."""

    registry: Registry
    ledger: Ledger
    planner: Planner
    queue: QueueBook
    preemption: PreemptionManager
    quotas: NamespaceQuotas
    growth: ClusterGrowth
    large: LargeGangs


class Views:
    """Takes views of ``parts``, and keeps the copies of gangs from one view to the next."""

    def __init__(self, parts: LiveParts) -> None:
        self._parts = parts
        self._gangs: dict[GangKey, Gang] = {}
        """The copies of all gangs."""
        self._leaving = LeavingPods()
        self._queues: Queues | None = None
        self._pool = parts.queue.pool
        self._nodes_seen: int | None = None
        # Nothing has been copied yet, so the first view copies everything.
        parts.registry.changed.update(parts.registry.gangs)
        parts.ledger.hand_out_anew()

    def take(self, line: list[ToTry], grew: bool, now: float) -> View:
        """Return a view for a pass that tries the gangs of a ``line``."""
        parts = self._parts
        self.follow()
        registry = parts.registry.frozen(self._gangs, parts.queue.now())
        view = self._view(registry, self._leaving, self._changed_nodes(), now)
        return replace(view, line=line, grew=grew, changed=frozenset(parts.queue.untried))

    def follow(self) -> None:
        """Take in which gangs and pods have changed since the last view; no pass may be under way."""
        parts, known, registry = self._parts, self._parts.queue.known_ends, self._parts.registry
        _copy_changed(registry, self._gangs)
        registry.changed.clear()
        self._leaving.follow(known.take_changed() | parts.ledger.take_changed(), known, parts.ledger)

    def aside(self, now: float) -> View:
        """Return a view with nobody in line, for a simulation. Passes may begin and end while it is used."""
        parts, known = self._parts, self._parts.queue.known_ends
        gangs = self._gangs.copy()
        _copy_changed(parts.registry, gangs)
        leaving = self._leaving.copy()
        leaving.follow(known.changed | parts.ledger.changed_pods, known, parts.ledger)
        nodes = NodeChanges(tuple(parts.planner.eligibility.nodes.values()), None)
        return self._view(parts.registry.frozen(gangs, parts.queue.now()), leaving, nodes, now)

    def _view(self, registry: Registry, leaving: LeavingPods, nodes: NodeChanges, now: float) -> View:
        parts, queue, ledger = self._parts, self._parts.queue, self._parts.ledger
        room = ledger.snapshot()
        queues = self._queue_facts(registry, room)
        ends = EndFacts(
            leaving,
            queue.known_ends.any,
            ledger.without_foreign.now().copy(),
            {one.key: one for one in queue.blocked if queue.turns.find(one.key) is not None},
            queue.cluster,
            (
                ledger.journal.now,
                queue.known_ends.revision,
                parts.planner.eligibility.journal.now,
                ledger.graph.catalogue,
            ),
        )
        return View(
            now=now,
            calendar=queue.now(),
            grew=False,
            line=(),
            changing=parts.registry.dirty.keys(),
            changed=frozenset(),
            registry=registry,
            room=room,
            nodes=nodes,
            queues=queues,
            ends=ends,
            preemption=parts.preemption.facts(room, parts.growth.passes_among(registry.gangs)),
            quotas=parts.quotas.for_pass(now),
            large=parts.large.copy(now),
        )

    def _queue_facts(self, registry: Registry, room: Room) -> QueueFacts:
        queue = self._parts.queue
        if self._queues is None or self._queues.revision != queue.settings.revision:
            self._queues = queue.settings.copy()
        admission = queue.admission.for_pass(registry, self._queues)
        counted = admission.quotas, admission.usage
        self._pool = self._pool.for_pass(registry, *counted, lambda: room.facts.holdings)
        reclaims = queue.reclaims.for_pass(registry, self._queues, admission)
        return QueueFacts(self._queues, self._queues.policy, admission, reclaims, self._pool, queue.cut())

    def _changed_nodes(self) -> NodeChanges:
        """Return what has changed about the nodes since the last view."""
        eligibility, seen = self._parts.planner.eligibility, self._nodes_seen
        self._nodes_seen = eligibility.journal.now
        changed = None if seen is None else eligibility.journal.since(seen)
        if changed is None:
            return NodeChanges(tuple(eligibility.nodes.values()), None)
        present = [node for name in changed if (node := eligibility.nodes.get(name)) is not None]
        if len(present) > 1:
            order = {name: at for at, name in enumerate(eligibility.names)}
            present.sort(key=lambda node: order[node.name])
        return NodeChanges(tuple(present), frozenset(changed - eligibility.nodes.keys()))


def _copy_changed(registry: Registry, copies: dict[GangKey, Gang]) -> None:
    """Replace the ``copies`` of the gangs that have changed since the last view."""
    for key in registry.changed:
        gang = registry.gangs.get(key)
        if gang is None:
            copies.pop(key, None)
        else:
            copies[key] = gang.copy()
