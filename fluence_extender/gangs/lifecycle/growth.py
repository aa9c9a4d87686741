"""Gangs that make the cluster grow: which of them ask autoscalers for nodes, and which of the new nodes are theirs.

A gang asks by the conditions of its pods: with the reason Unschedulable, Cluster Autoscaler and Karpenter add nodes for
them, gated or not. Since when it asks stands in the conditions, so a new leader goes on where the last one was. Nodes
that join from then on are held for the gang, for the first in line if several ask. A gang that isn't placed within a
limit lets go of all of it.

Invariants: a gang asks only if each of its members would fit on a node that is known or stated; no node is held for a
gang that doesn't ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fluence_extender.gangs.execution.actions import Action, ReportPod
from fluence_extender.gangs.lifecycle.births import Births
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.turns import precedence, turn
from fluence_extender.gangs.reporting.announcements import events, report_pod
from fluence_extender.ledger.capacity import CapacityTable
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import EligibilityIndex, passes, refusal, signature

ASKED, LET_GO = "AskedForNodes", "NoNodesCame"

LACKING = (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE)
"""The reasons of a gang that more nodes may help."""

STILL = (*LACKING, ReasonCode.BEHIND_RESERVATION, ReasonCode.QUEUED, ReasonCode.PREEMPTING)
"""The reasons with which a gang that asks goes on to ask."""

FORGOTTEN_AFTER = 60.0
"""Seconds for which it is kept in mind that a gang has asked whose pods are gone: those of a Job may be yet to come."""


@dataclass(slots=True)
class Growing:
    """What is known of a gang that lacks nodes.

    ``since`` is when it was first seen to lack them, ``seen`` when it was looked at last, and ``again_at`` when it may
    ask, on the controller's clock. ``asks_since`` is `Gang.asks_since`; ``nodes`` are the new nodes held for it.
    """

    since: float
    seen: float
    again_at: float
    asks_since: float = 0.0
    nodes: set[str] = field(default_factory=set)


class ClusterGrowth:
    """Decides which gangs ask for nodes, and holds for them those that join.

    ``calendar`` is for times that others read, in seconds since the epoch.
    """

    def __init__(
        self,
        registry: Registry,
        ledger: Ledger,
        eligibility: EligibilityIndex,
        births: Births,
        limits: Limits,
        calendar: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._eligibility = eligibility
        self._births = births
        self._limits = limits
        self._calendar = calendar
        self._gangs: dict[GangKey, Growing] = {}
        self._largest = dict(limits.largest_node.items())
        self._handed_out: object = None

    def passes(self, gang: Gang) -> frozenset[object]:
        """Return the gangs that ask and that ``gang`` is ahead of: the nodes held for them are open to it."""
        gangs, order = self._registry.gangs, None
        found = set()
        for key, one in self._gangs.items():
            if one.nodes and key in gangs and key != gang.key:
                order = order or precedence(gang)
                if order < precedence(gangs[key]):
                    found.add(key)
        return frozenset(found)

    def take_over(self, now: float) -> None:
        """Go on with what the last leader has asked for."""
        for gang in self._registry.gangs.values():
            since = min((one.pod.asks_since for one in gang.pending() if one.pod.asks_since), default=0.0)
            if since:
                gang.asks_since = since
                self._gangs[gang.key] = Growing(now, now, now, since)

    def forget(self) -> None:
        """Hold nothing any more, because another replica leads."""
        for key in list(self._gangs):
            self._end(key)

    def begin(self, now: float) -> None:
        """Begin a step: hold the nodes that have joined since they were asked for."""
        gangs = self._registry.gangs
        for key in [key for key, one in self._gangs.items() if key not in gangs]:
            if now > self._gangs[key].seen + FORGOTTEN_AFTER:
                self._end(key)
        asking = [key for key, one in self._gangs.items() if one.asks_since and key in gangs]
        basis = self._eligibility.journal.now, tuple(asking)
        if not asking or basis == self._handed_out:
            return
        self._handed_out = basis
        nodes, taken = self._eligibility.nodes, set[str]()
        for key in sorted(asking, key=lambda key: turn(gangs[key])):
            one = self._gangs[key]
            one.nodes &= nodes.keys()
            taken |= one.nodes
        first = min(self._gangs[key].asks_since for key in asking)
        new = [node for node in nodes.values() if node.created >= int(first) and node.name not in taken]
        for key in sorted(asking, key=lambda key: turn(gangs[key])):
            one, lacking = self._gangs[key], _lacking(gangs[key])
            mine = {node.name for node in new if suits(node, one.asks_since, lacking)}
            new = [node for node in new if node.name not in mine]
            one.nodes |= mine
            self._ledger.preemptor_holds.keep(key, one.nodes)

    def due(self, gang: Gang, now: float) -> tuple[list[Action], float]:
        """Return what is to be done now for a gang that was looked at, and when to look at it again."""
        one = self._gangs.get(gang.key)
        lacking = _lacking(gang)
        if gang.reason is None and lacking:
            return [], NEVER
        told: list[Action] = []
        if one is None and self._limits.grow_after is not None and self._helps(gang, lacking):
            one = self._gangs[gang.key] = Growing(now, now, now + self._limits.grow_after)
        elif one is not None and not (lacking and gang.reason and gang.reason.code in STILL):
            self._end(gang.key)
            one = None
        look = NEVER
        if one is not None:
            one.seen = now
            told = self._proceed(gang, one, now)
            look = self._until(one, now) if one.asks_since else one.again_at
        gang.asks_since = one.asks_since if one is not None else 0.0
        writes = list(self._writes(gang, lacking, now))
        return [*told, *writes], min(look, now + self._limits.asked_again) if writes else look

    def _until(self, one: Growing, now: float) -> float:
        """Return when the gang lets go if it isn't placed."""
        return now + one.asks_since + self._limits.grow_within - self._calendar()

    def _proceed(self, gang: Gang, one: Growing, now: float) -> list[Action]:
        """Have the gang ask, or let go; return the Event that tells it."""
        if one.asks_since and now >= self._until(one, now):
            self._release(gang.key, one)
            one.asks_since, one.again_at = 0.0, now + self._limits.grow_again
            text = f"it isn't placed {self._limits.grow_within:g} s after it asked for nodes, and asks no more for now"
            return [*events(gang, self._limits, LET_GO, text, warning=True)]
        if not one.asks_since and now >= one.again_at and self._helps(gang, _lacking(gang)):
            one.asks_since = float(int(self._calendar()))
            text = f"its pods ask autoscalers for nodes: {gang.reason}"
            told: list[Action] = [*events(gang, self._limits, ASKED, text)]
        else:
            told = []
        if one.asks_since:
            self._births.need_pods(gang, "its pods have to exist, so that an autoscaler adds nodes for them")
        return told

    def _helps(self, gang: Gang, lacking: Iterable[Member]) -> bool:
        """Return whether more nodes may help the gang."""
        if not lacks_nodes(gang):
            return False
        for name, amount in largest(self._ledger.whole.now()).items():
            self._largest[name] = max(amount, self._largest.get(name, 0))
        kinds = {one.pod.requests for one in lacking}
        return all(may_come(requests, self._largest) for requests in kinds)

    def _writes(self, gang: Gang, lacking: Iterable[Member], now: float) -> Iterator[ReportPod]:
        """Yield the conditions that don't say what they should."""
        reason = gang.reason
        for member in lacking:
            pod = member.pod
            wrong = GATE in pod.gates and not pod.foreseen and pod.asks_since != gang.asks_since
            if wrong and reason is not None and now >= member.asked_at + self._limits.asked_again:
                member.asked_at = now
                yield report_pod(gang, reason, member)

    def _release(self, key: GangKey, one: Growing) -> None:
        """Open the nodes that were held for a gang to all others."""
        if one.nodes:
            self._ledger.preemptor_holds.keep(key, ())
            one.nodes.clear()
            self._ledger.changed()

    def _end(self, key: GangKey) -> None:
        self._release(key, self._gangs.pop(key))
        gang = self._registry.gangs.get(key)
        if gang is not None:
            gang.asks_since = 0.0


def _lacking(gang: Gang) -> list[Member]:
    return [one for one in gang.pending() if one.assignment is None]


def lacks_nodes(gang: Gang) -> bool:
    """Return whether a gang is whole and has no place for want of nodes; nodes that come bring no devices of ours."""
    reason: Reason | None = gang.reason
    if reason is None or reason.code not in LACKING or reason.gathering:
        return False
    if len(gang.alive()) + gang.ended < gang.size:
        return False
    return bool(reason.lacking) or not any(one.pod.devices for one in _lacking(gang))


def may_come(requests: Resources, most: Mapping[str, int]) -> bool:
    """Return whether a node that autoscalers add may have room for a pod; ``most`` is what the largest one has.

    A resource that no node has may come with nodes of which there are none yet.
    """
    return all(amount <= most[name] for name, amount in requests.items() if most.get(name, 0) > 0)


def largest(whole: CapacityTable) -> dict[str, int]:
    """Return the most that one node has of each resource."""
    if not whole.names:
        return {}
    most = whole.free.max(axis=0).tolist()
    return {name: most[column] for name, column in whole.columns.items()}


def suits(node: Node, asks_since: float, members: Iterable[Member]) -> bool:
    """Return whether a node has come since a gang asked for nodes, and one of its members may run there."""
    if node.created < int(asks_since):
        return False
    kinds: dict[object, Pod] = {(one.pod.requests, signature(one.pod)): one.pod for one in members}
    return any(passes(refusal(pod, node)) and pod.requests.fits(node.allocatable) for pod in kinds.values())
