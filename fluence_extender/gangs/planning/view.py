"""What a pass reads, and what it decides: the view, the order of the gangs in it, and the plan.

A pass runs in a thread, while the event loop goes on. So a view holds nothing that the loop may change. Taking a view
takes some milliseconds, however many gangs there are: only gangs that have changed since the last view are copied
again. A copy has the same members as the gang, because these are values. Only nodes that have changed are handed over.

Invariant: what is in a view stays as it is until the pass is over. Only the pass changes it.

Decisions are values. They are carried out afterwards, as far as they still hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.lifecycle.deadlines import LargeGangs
from fluence_extender.gangs.lifecycle.growth import ClusterGrowth
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.cluster_timeline import ClusterTimeline
from fluence_extender.gangs.planning.known_ends import LeavingPods
from fluence_extender.gangs.planning.known_reasons import NodeChanges
from fluence_extender.gangs.planning.reservations import Blocked
from fluence_extender.gangs.preemption.manager import PreemptionManager
from fluence_extender.gangs.preemption.preempting import Considered, PreemptionFacts
from fluence_extender.gangs.queue.admission import QueueAdmission
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.guarantees import Reclaims, SharedPool
from fluence_extender.gangs.queue.settings import Queues
from fluence_extender.gangs.queue.submissions import RANK, ToTry, turn, waits
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason
from fluence_extender.placement.plan import Planner
from fluence_extender.queueing.entry import EQUAL, Entitlement, QueuePolicy, Rank
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
    """When pods end, and what the last pass has found out from that.

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

    ``now`` is on the controller's clock, ``calendar`` in seconds since the epoch. ``grew`` says that room may have
    grown since the last pass, or that reasons are old, so that all gangs are tried. ``line`` has the gangs to try, with
    their ranks, in order. The pass doesn't try the gangs in ``unevaluated``, because the event loop has to evaluate
    them first. It always tries the gangs in ``untried``, which have changed since a pass last tried them.
    """

    now: float
    calendar: float
    grew: bool
    line: Sequence[ToTry]
    unevaluated: Set[GangKey]
    untried: Set[GangKey]
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
    """The parts of the service that a view copies."""

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
        parts.registry.uncopied.update(parts.registry.gangs)
        parts.ledger.hand_out_anew()

    def take(self, line: list[ToTry], grew: bool, now: float) -> View:
        """Return a view for a pass that tries the gangs of a ``line``."""
        parts = self._parts
        self.follow()
        registry = parts.registry.frozen(self._gangs, parts.queue.now())
        view = self._view(registry, self._leaving, self._changed_nodes(), now)
        return replace(view, line=line, grew=grew, untried=frozenset(parts.queue.untried))

    def follow(self) -> None:
        """Take in which gangs and pods have changed since the last view; no pass may be under way."""
        parts, ends, registry = self._parts, self._parts.queue.known_ends, self._parts.registry
        _copy_changed(registry, self._gangs)
        registry.uncopied.clear()
        self._leaving.follow(ends.take_changed() | parts.ledger.take_changed(), ends, parts.ledger)

    def for_simulation(self, now: float) -> View:
        """Return a view without gangs in line, for a simulation. Passes may begin and end while it is used."""
        parts, ends = self._parts, self._parts.queue.known_ends
        gangs = self._gangs.copy()
        _copy_changed(parts.registry, gangs)
        leaving = self._leaving.copy()
        leaving.follow(ends.changed | parts.ledger.changed_pods, ends, parts.ledger)
        nodes = NodeChanges(tuple(parts.planner.eligibility.nodes.values()), None)
        return self._view(parts.registry.frozen(gangs, parts.queue.now()), leaving, nodes, now)

    def _view(self, registry: Registry, leaving: LeavingPods, nodes: NodeChanges, now: float) -> View:
        """Return a view of the parts, in which no gang is in line, with copies that no other view changes."""
        parts, queue, ledger = self._parts, self._parts.queue, self._parts.ledger
        room = ledger.snapshot()
        queues = self._queue_facts(registry, room)
        ends = EndFacts(
            leaving,
            queue.known_ends.any,
            ledger.without_foreign.now().copy(),
            {blocked.key: blocked for blocked in queue.blocked if queue.turns.find(blocked.key) is not None},
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
            unevaluated=parts.registry.dirty.keys(),
            untried=frozenset(),
            registry=registry,
            room=room,
            nodes=nodes,
            queues=queues,
            ends=ends,
            preemption=parts.preemption.facts(room, parts.growth.overtaken_among(registry.gangs)),
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
    for key in registry.uncopied:
        gang = registry.gangs.get(key)
        if gang is None:
            copies.pop(key, None)
        else:
            copies[key] = gang.copy()


@dataclass(slots=True)
class Decided:
    """What a pass has decided about a gang that it has tried.

    ``after`` is a copy of the gang with the decision in it. Its members in ``placed`` get places. ``became_whole``
    is what its history says if the gang has just become whole, "" if it hasn't. ``withdrawn`` says that the members
    give their places back. ``again`` says that the gang has to be looked at again. ``considered`` has the decisions
    about preemption. ``without_preemption`` is why the gang has no places if no other gang makes room. It is None
    unless the gang was planned in vain.
    """

    after: Gang
    placed: list[Member] = field(default_factory=list)
    became_whole: str = ""
    withdrawn: bool = False
    again: bool = False
    considered: list[Considered] = field(default_factory=list)
    without_preemption: Reason | None = None

    @property
    def key(self) -> GangKey:
        """The key of the gang."""
        return self.after.key


@dataclass(slots=True)
class Plan:
    """What a pass has decided on a ``view``.

    ``decided`` has the decisions, in order. ``explained`` has the gangs of which only the reason has changed, with the
    new reason. The pass has tried the gangs in ``tried``. It has skipped those in ``skipped``, which back off. Those
    in ``postponed`` are large gangs that were tried too often lately. ``large`` has the large gangs that were tried:
    their namespaces, and how many members they have. The gangs in ``deferred`` are left for the next pass, because too
    many others of their namespace were planned without finding places. ``blocked`` has the gangs that lack capacity,
    with what is reserved for them on the timeline ``cluster``. ``entitled`` has the gangs with a changed entitlement,
    with the new one. ``cut`` is where the pass has cut the line (see `Order`). ``unsettled`` says that the pass's own
    decisions may have changed the order of the gangs.
    """

    view: View
    decided: list[Decided] = field(default_factory=list)
    explained: list[tuple[GangKey, Reason]] = field(default_factory=list)
    tried: set[GangKey] = field(default_factory=set)
    skipped: set[GangKey] = field(default_factory=set)
    postponed: list[GangKey] = field(default_factory=list)
    deferred: list[GangKey] = field(default_factory=list)
    large: list[tuple[str, int]] = field(default_factory=list)
    blocked: Sequence[Blocked] = ()
    cluster: ClusterTimeline | None = None
    entitled: Sequence[tuple[GangKey, Entitlement]] = ()
    cut: Rank | None = None
    unsettled: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """The gangs to try, in order as ``line``, and what was found out about that order.

    ``cut`` is the rank of the last gang that the queue's queueDepth lets a pass try, None if it lets all. ``entitled``
    has the gangs whose entitlement has changed, with the new one. ``moved`` says whether the order differs from that in
    the view.
    """

    line: Sequence[ToTry]
    cut: Rank | None
    entitled: Sequence[tuple[GangKey, Entitlement]] = ()
    moved: bool = False


def ranked(view: View) -> Order:
    """Return the order in which gangs are tried."""
    queues, gangs = view.queues, view.registry.gangs
    shares = queues.admission.shares
    if not shares.active and shares.ranking is None:
        return Order(view.line, queues.cut)
    before = {key: rank for rank, key in view.line}
    waiting = [gang for gang in gangs.values() if waits(gang)]
    entitlements = shares.entitlements(waiting, before)
    entitled = [
        (gang.key, entitlements.get(gang.key, EQUAL))
        for gang in waiting
        if gang.entitlement != entitlements.get(gang.key, EQUAL)
    ]
    line = [ToTry(_with_entitlement(rank, entitlements.get(key, EQUAL)), key) for rank, key in view.line]
    line.sort(key=RANK)
    moved = [key for _, key in line] != [key for _, key in view.line]
    depth, cut = queues.policy.queue_depth, None
    if depth is not None and len(waiting) > depth:
        ranks = (
            _with_entitlement(before.get(gang.key) or turn(gang), entitlements.get(gang.key, EQUAL))
            for gang in waiting
        )
        cut = sorted(ranks)[depth - 1]
    return Order(line, cut, entitled, moved)


def _with_entitlement(rank: Rank, entitlement: Entitlement) -> Rank:
    """Return a rank with another entitlement."""
    return (rank[0], entitlement, *rank[2:])
