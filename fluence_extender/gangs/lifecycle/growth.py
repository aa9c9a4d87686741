"""Gangs that make the cluster grow: which of them ask autoscalers for nodes, and which new nodes are held for them.

A gang asks by the conditions of its pods: Cluster Autoscaler and Karpenter add nodes for pods with the reason
Unschedulable, gated or not. The conditions state since when the gang asks, so a new leader continues where the last one
stopped. Nodes that join after that time are held for the gang; if several gangs ask, for the first in line. A gang that
isn't placed within a limit stops asking and gives up these nodes.

Nodes that are held keep other gangs waiting, even if they aren't enough. So no node is held for a gang that new nodes
can't complete: one with a member that fits on no node, or that needs more nodes than its namespace's share. If no
further node joins for a while, or the last ones take too long, the held nodes open to all. For some time after that, no
node is held for that namespace.

Invariants: a gang asks only if each of its members would fit on a node that is known or stated. No node is held for a
gang that doesn't ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.gangs.execution.actions import Action, ReportPod
from fluence_extender.gangs.lifecycle.core_parts import CoreParts
from fluence_extender.gangs.lifecycle.expected_pods import ExpectedPods
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.queue.turns import precedence, turn
from fluence_extender.gangs.reporting.announcements import events, report_pod
from fluence_extender.model.gang import GangKey
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import passes, refusal, signature
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.holds import HoldKind

ASKED, LET_GO = "AskedForNodes", "NoNodesCame"

LACKING = (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE)
"""The reasons of a gang that more nodes may help."""

STILL_LACKING = (*LACKING, ReasonCode.BEHIND_RESERVATION, ReasonCode.QUEUED, ReasonCode.PREEMPTING)
"""The reasons with which a gang that already asks goes on asking."""

HOLD_LASTS = 120.0
LONGEST_HOLD = 300.0
"""Held nodes that don't complete a gang open to all this many seconds after the last joined, or after the first."""

HOLDS_AGAIN = 600.0
"""Seconds after that during which new nodes aren't held for gangs of that namespace."""

LEAST_SHARE = 32
"""The most nodes held for the gangs of one namespace: this number, or half of the cluster's nodes if that is more."""

MOST_KINDS = 16
"""No node is held for a gang with more kinds of members: each kind is compared with each node."""

MOST_JUDGED = 8
"""Once so many gangs of a namespace prove impossible to complete, its others get no node until nodes change again."""

FORGOTTEN_AFTER = 60.0
"""Seconds for which a gang without pods is remembered as asking: a Job's pods may be yet to come."""


@dataclass(slots=True)
class Growing:
    """The state of a gang that lacks nodes.

    ``seen`` is when it was looked at last, and ``again_at`` when it may ask, on the controller's clock. It has asked
    since ``asks_since``, in seconds since the epoch, 0 if it doesn't ask. Of the new nodes that are held for it, the
    first joined at ``first`` and the last at ``last``, on the controller's clock; both are `NEVER` if none is held.
    """

    seen: float
    again_at: float
    asks_since: float = 0.0
    first: float = NEVER
    last: float = NEVER

    @property
    def lapses(self) -> float:
        """When the nodes that are held are open to all, on the controller's clock."""
        return min(self.last + HOLD_LASTS, self.first + LONGEST_HOLD)


class ClusterGrowth:
    """Decides which gangs ask for nodes, and holds for them those that join."""

    def __init__(self, core: CoreParts, expected_pods: ExpectedPods, quotas: NamespaceQuotas) -> None:
        self._registry = core.registry
        self._ledger = core.ledger
        self._eligibility = core.planner.eligibility
        self._limits = core.limits
        self._calendar = core.registry.gone.clock
        self._expected_pods = expected_pods
        self._quotas = quotas
        self._gangs: dict[GangKey, Growing] = {}
        self._handed_out: object = None
        self._not_before: dict[str, float] = {}
        """By namespace: no new node is held for its gangs until then, in seconds since the epoch."""

    def passes(self, gang: Gang) -> frozenset[object]:
        """Return the gangs that ask and that ``gang`` is ahead of: the nodes held for them are open to it."""
        return self.passes_among(self._registry.gangs)(gang)

    def passes_among(self, gangs: Mapping[GangKey, Gang]) -> Callable[[Gang], frozenset[object]]:
        """Return `passes` for ``gangs`` and the nodes that are held now."""
        asking = [key for key in self._gangs if key in gangs and self._held(key)]

        def passes(gang: Gang) -> frozenset[object]:
            order = precedence(gang) if asking else ()
            return frozenset(key for key in asking if key != gang.key and order < precedence(gangs[key]))

        return passes

    def take_over(self, now: float) -> None:
        """Go on with the gangs that have asked under the last leader."""
        if self._limits.grow_after is None:
            return
        for gang in self._registry.gangs.values():
            since = min((one.pod.asks_since for one in gang.pending() if one.pod.asks_since), default=0.0)
            if since:
                gang.remember(asks_since=since)
                self._gangs[gang.key] = Growing(now, now, since)

    def forget(self) -> None:
        """Hold nothing any more, because another replica leads."""
        self._not_before.clear()
        for key in list(self._gangs):
            self._end(key)

    # The nodes that are held.

    def begin(self, now: float) -> None:
        """Begin a step: hold for each asking gang the nodes that have joined since it asked."""
        gangs, calendar = self._registry.gangs, self._calendar()
        for key, growing in list(self._gangs.items()):
            if key not in gangs and now > growing.seen + FORGOTTEN_AFTER:
                self._end(key)
            elif now >= growing.lapses:
                self._release(key)
                self._not_before[key.namespace] = calendar + HOLDS_AGAIN
        asking = [key for key, growing in self._gangs.items() if growing.asks_since and key in gangs]
        namespaces = {key.namespace for key in asking}
        self._not_before = {
            name: until for name, until in self._not_before.items() if until >= calendar or name in namespaces
        }
        basis = self._eligibility.journal.now, tuple(asking)
        if asking and basis != self._handed_out:
            self._handed_out = basis
            self._hand_out(sorted(asking, key=lambda key: turn(gangs[key])), now)

    def _hand_out(self, asking: Sequence[GangKey], now: float) -> None:
        """Hold the nodes that are new for the gangs ``asking``, which are in the order of their turns."""
        gangs, nodes = self._registry.gangs, self._eligibility.nodes
        share = max(LEAST_SHARE, -(-len(nodes) // 2))
        kept, failed = Counter[str](), Counter[str]()
        for key in asking:
            self._hold(key, self._held(key) & nodes.keys())
            kept[key.namespace] += len(self._held(key))
        taken = frozenset().union(*map(self._held, asking))
        first = min(self._gangs[key].asks_since for key in asking)
        new = [node for node in nodes.values() if node.created >= int(first) and node.name not in taken]
        for key in asking:
            if not new:
                return
            growing, lacking = self._gangs[key], gangs[key].placeless()
            since = max(growing.asks_since, self._not_before.get(key.namespace, 0.0))
            fitting = [node for node in new if _suits(node, since, lacking)]
            mine = {node.name for node in fitting[: max(share - kept[key.namespace], 0)]}
            if not mine or failed[key.namespace] >= MOST_JUDGED:
                continue
            if not self._may_complete(lacking, share):
                failed[key.namespace] += 1
                continue
            new = [node for node in new if node.name not in mine]
            kept[key.namespace] += len(mine)
            growing.first, growing.last = min(growing.first, now), now
            self._hold(key, self._held(key) | mine)

    def _may_complete(self, lacking: Sequence[Member], share: int) -> bool:
        """Return whether ``share`` further nodes may be enough for these members, each of which fits on some node."""
        kinds, nodes = _kinds(lacking), self._eligibility.nodes
        if len(kinds) > MOST_KINDS or not all(
            any(pod.requests.fits(nodes[name].allocatable) for name in self._eligibility.possible(pod))
            for pod in kinds
        ):
            return False
        free = self._ledger.free.now()
        wanted = Resources.total(one.pod.requests for one in lacking)
        for name in {kind for pod in kinds for kind in pod.requests}:
            column = free.columns.get(name)
            there = int(free.free[:, column].clip(0).sum()) if column is not None else 0
            largest = max((node.allocatable[name] for node in nodes.values()), default=0)
            if wanted[name] > there + share * largest:
                return False
        return True

    def _held(self, key: GangKey) -> frozenset[str]:
        return self._ledger.held_nodes.nodes(HoldKind.NEW_NODES, key)

    def _hold(self, key: GangKey, nodes: Collection[str]) -> None:
        """Hold exactly these new nodes for a gang."""
        self._ledger.held_nodes.hold(HoldKind.NEW_NODES, key, nodes)
        if not nodes:
            self._gangs[key].first = self._gangs[key].last = NEVER

    def _release(self, key: GangKey) -> None:
        """Open the nodes that were held for a gang to all others."""
        if self._held(key):
            self._hold(key, ())
            self._ledger.changed()

    def _end(self, key: GangKey) -> None:
        self._release(key)
        del self._gangs[key]
        gang = self._registry.gangs.get(key)
        if gang is not None:
            gang.remember(asks_since=0.0)

    # The gangs that ask.

    def due(self, gang: Gang, now: float) -> tuple[list[Action], float]:
        """Return the actions for a gang that was looked at, and when to look at it again."""
        growing, lacking = self._gangs.get(gang.key), gang.placeless()
        if gang.reason is None and lacking:
            return [], NEVER
        wanting = bool(lacking and gang.reason and gang.reason.code in STILL_LACKING)
        if growing is not None and not wanting:
            self._end(gang.key)
            growing = None
        elif growing is None and self._limits.grow_after is not None and self._helps(gang, lacking):
            growing = self._gangs[gang.key] = Growing(now, now + self._limits.grow_after)
        actions: list[Action] = []
        look = NEVER
        if growing is not None:
            growing.seen = now
            actions += self._proceed(gang, growing, lacking, now)
            asks_until = min(self._asks_until(growing, now), growing.lapses)
            look = asks_until if growing.asks_since else growing.again_at
        gang.remember(asks_since=growing.asks_since if growing is not None else 0.0)
        writes = list(self._wrong_conditions(gang, lacking, now))
        return [*actions, *writes], min(look, now + self._limits.told_again) if writes else look

    def _asks_until(self, growing: Growing, now: float) -> float:
        """Return when a gang that asks gives up, on the controller's clock."""
        return now + growing.asks_since + self._limits.grow_within - self._calendar()

    def _proceed(self, gang: Gang, growing: Growing, lacking: list[Member], now: float) -> Iterator[Action]:
        """Let the gang begin or stop to ask; yield the events for that."""
        limits = self._limits
        if growing.asks_since and now >= self._asks_until(growing, now):
            self._release(gang.key)
            growing.asks_since, growing.again_at = 0.0, now + limits.grow_again
            text = (
                f"it isn't placed {limits.grow_within:g} s after it asked for nodes; "
                f"it asks for nodes again in {limits.grow_again / 60:g} minutes"
            )
            yield from events(gang, limits, LET_GO, text, warning=True)
        if not growing.asks_since and now >= growing.again_at and self._helps(gang, lacking):
            growing.asks_since = float(int(self._calendar()))
            yield from events(gang, limits, ASKED, f"its pods ask autoscalers for nodes: {gang.reason}")
        if growing.asks_since:
            self._expected_pods.need_pods(gang)

    def _helps(self, gang: Gang, lacking: Sequence[Member]) -> bool:
        """Return whether more nodes may help the gang."""
        if not lacks_nodes(gang) or self._quotas.obstacle(gang, lacking) is not None:
            return False
        requests = {one.pod.requests for one in lacking}
        return may_come(requests, self._limits.largest_node, self._ledger.whole.now())

    def _wrong_conditions(self, gang: Gang, lacking: Iterable[Member], now: float) -> Iterator[ReportPod]:
        """Yield a report for each pod whose condition states another time since which its gang asks."""
        reason = gang.reason
        for member in lacking:
            pod = member.pod
            wrong = pod.withheld and not pod.expected and pod.asks_since != gang.asks_since
            if wrong and reason is not None and now >= member.told_at + self._limits.told_again:
                gang.change(pod.uid, told_at=now)
                yield report_pod(gang, reason, member)


def lacks_nodes(gang: Gang) -> bool:
    """Return whether a gang is whole and lacks only nodes for a place. New nodes bring no devices of ours."""
    reason: Reason | None = gang.reason
    if reason is None or reason.code not in LACKING or reason.gathering:
        return False
    if len(gang.alive()) + gang.ended < gang.size:
        return False
    return bool(reason.lacking) or not any(one.pod.devices for one in gang.placeless())


def may_come(requests: Iterable[Resources], stated: Resources, present: CapacityTable) -> bool:
    """Return whether each of these requests fits on a node like one that is ``present``, or like the ``stated`` one.

    Only the cloud knows the templates of its node groups. So a pod that fits on no known node is assumed to fit on no
    future one. But a resource that no known node has is ignored, because nodes of a new kind may bring it. The stated
    node has as much as the largest other one of what it doesn't name.
    """
    largest = {name: int(present.free[:, at].max(initial=0)) for name, at in present.columns.items()}
    largest_stated = {**largest, **dict(stated.items())}
    for request in requests:
        known = {name: amount for name, amount in request.items() if largest_stated.get(name, 0) > 0}
        if not known or (stated and all(amount <= largest_stated[name] for name, amount in known.items())):
            continue
        if not known.keys() <= largest.keys():
            return False
        amounts = present.free[:, [present.columns[name] for name in known]]
        if not (amounts >= list(known.values())).all(axis=1).any():
            return False
    return True


def _suits(node: Node, asks_since: float, members: Iterable[Member]) -> bool:
    """Return whether a node has joined since a gang asked for nodes, and may run one of its members."""
    return node.created >= int(asks_since) and any(
        passes(refusal(pod, node)) and pod.requests.fits(node.allocatable) for pod in _kinds(members)
    )


def _kinds(members: Iterable[Member]) -> Collection[Pod]:
    """Return a pod for each kind of members; a node takes either all of a kind or none."""
    return {(one.pod.requests, signature(one.pod)): one.pod for one in members}.values()
