"""Gangs that make the cluster grow: which of them ask autoscalers for nodes, and which new nodes are held for them.

Where the API server serves ProvisioningRequests, a gang asks by one of them, which an autoscaler fulfills all at once.
Otherwise it asks by the conditions of its pods: Cluster Autoscaler and Karpenter add nodes for pods with the reason
Unschedulable, gated or not. A gang whose request is refused, or isn't taken up by any autoscaler, asks in the same
way. The request or the conditions state since when the gang asks, so a new leader continues where the last one stopped.
Nodes that join after that time are held for the gang; if several gangs ask, for the first in line. A gang that isn't
placed within a limit stops asking and gives up these nodes.

Invariants: a gang asks only if each of its members would fit on a node that is known or stated. It asks in one way at a
time. No node is held for a gang that doesn't ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fluence_extender.gangs.execution.actions import Action, RecordEvent, ReportPod, WithdrawRequest
from fluence_extender.gangs.lifecycle.births import Births
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.node_requests import NodeRequests, asks_itself, request_name
from fluence_extender.gangs.lifecycle.node_sizes import NodeSizes
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.turns import precedence, turn
from fluence_extender.gangs.reporting.announcements import events, report_pod
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import GangKey, GangState
from fluence_extender.model.names import CLASS_ANNOTATION, CONSUMES_ANNOTATION, GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.eligibility import EligibilityIndex, passes, refusal, signature

ASKED, NONE_YET, LET_GO = "AskedForNodes", "NoNodesYet", "NoNodesCame"

LACKING = (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE)
"""The reasons of a gang that more nodes may help."""

STILL_LACKING = (*LACKING, ReasonCode.BEHIND_RESERVATION, ReasonCode.QUEUED, ReasonCode.PREEMPTING)
"""The reasons with which a gang that already asks goes on asking."""

FORGOTTEN_AFTER = 60.0
"""Seconds for which a gang without pods is remembered as asking: a Job's pods may be yet to come."""


@dataclass(slots=True)
class Growing:
    """The state of a gang that lacks nodes.

    ``seen`` is when it was looked at last, and ``again_at`` when it may ask, on the controller's clock. It has asked
    since ``asks_since``, in seconds since the epoch, 0 if it doesn't ask. ``nodes`` are the new nodes held for it.
    ``request`` is the name of its ProvisioningRequest, "" if its pods ask. ``made`` says that the watch has shown
    the request, and ``accepted`` that an autoscaler has taken it up. ``refusal`` is the last reason that the autoscaler
    gave for its lack of capacity.
    """

    seen: float
    again_at: float
    asks_since: float = 0.0
    nodes: set[str] = field(default_factory=set)
    request: str = ""
    made: bool = False
    accepted: bool = False
    refusal: str = ""

    def end_request(self) -> None:
        """Forget the request."""
        self.request, self.made, self.accepted, self.refusal = "", False, False, ""


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
        quotas: NamespaceQuotas,
        limits: Limits,
        calendar: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._ledger = ledger
        self._eligibility = eligibility
        self._births = births
        self._quotas = quotas
        self._limits = limits
        self._calendar = calendar
        self.requests = NodeRequests(registry, births, limits.provisioning_class)
        self.sizes = NodeSizes(limits.largest_node)
        self._gangs: dict[GangKey, Growing] = {}
        self._handed_out: object = None
        self._by_pods_until = 0.0

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
        """Go on with the gangs that have asked under the last leader."""
        if self._limits.grow_after is None:
            return
        for gang in self._registry.gangs.values():
            since = min((one.pod.asks_since for one in gang.pending() if one.pod.asks_since), default=0.0)
            by_request = self._taken_over(gang, now)
            if by_request is not None:
                self._gangs[gang.key] = by_request
            elif since:
                gang.asks_since = since
                self._gangs[gang.key] = Growing(now, now, since)

    def forget(self) -> None:
        """Hold nothing any more, because another replica leads."""
        for key in list(self._gangs):
            self._end(key)

    def begin(self, now: float) -> None:
        """Begin a step: hold for each asking gang the nodes that have joined since it asked."""
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
            one, lacking = self._gangs[key], gangs[key].placeless()
            mine = {node.name for node in new if suits(node, one.asks_since, lacking)}
            new = [node for node in new if node.name not in mine]
            one.nodes |= mine
            self._ledger.preemptor_holds.keep(key, one.nodes)

    def orphans(self, now: float) -> list[WithdrawRequest]:
        """Return the withdrawals of requests whose gangs are gone."""
        return list(self.requests.orphans(now))

    def request_refused(self, key: GangKey, why: str) -> None:
        """Record that the API server refuses the gang's request."""
        one = self._gangs.get(key)
        if one is not None and one.request:
            self.requests.refused[key] = why
            self._registry.dirty.add(key)

    def due(self, gang: Gang, now: float) -> tuple[list[Action], float]:
        """Return the actions for a gang that was looked at, and when to look at it again."""
        one = self._gangs.get(gang.key)
        lacking = gang.placeless()
        if gang.reason is None and lacking:
            return [], NEVER
        wanting = bool(lacking and gang.reason and gang.reason.code in STILL_LACKING)
        if one is not None and not wanting:
            self._end(gang.key)
            one = None
        elif one is None and self._limits.grow_after is not None:
            one = self._taken_over(gang, now) if wanting else None
            if one is None and self._helps(gang, lacking):
                one = Growing(now, now + self._limits.grow_after)
            if one is not None:
                self._gangs[gang.key] = one
        actions: list[Action] = []
        look = NEVER
        if one is not None:
            one.seen = now
            actions += self._proceed(gang, one, lacking, now)
            look = self._until(one, now) if one.asks_since else one.again_at
        by_request = one is not None and bool(one.asks_since and one.request)
        gang.asks_since = one.asks_since if one is not None and not by_request else 0.0
        if not by_request:
            actions += self.requests.withdraw(gang, now)
        if one is not None and by_request:
            gang.consumes = {CONSUMES_ANNOTATION: one.request, CLASS_ANNOTATION: self.requests.class_name}
        elif gang.state is GangState.WAITING:
            gang.consumes = None
        self._quotas.note(gang)
        writes = list(self._wrong_conditions(gang, lacking, now))
        unsure = bool(writes) or by_request is (self.requests.find(gang.key) is None)
        return [*actions, *writes], min(look, now + self._limits.asked_again) if unsure else look

    def _taken_over(self, gang: Gang, now: float) -> Growing | None:
        """Return the state of a gang for which the last leader has made a request."""
        request = self.requests.find(gang.key)
        if request is None:
            return None
        return Growing(now, now, float(int(request.created)), request=request.name, made=True)

    def _until(self, one: Growing, now: float) -> float:
        """Return when to look next at a gang that asks, if nothing is observed of it."""
        waits = self._limits.taken_up if one.request and not one.accepted else self._limits.grow_within
        return self._on_our_clock(one.asks_since + waits, now)

    def _on_our_clock(self, when: float, now: float) -> float:
        """Convert a time since the epoch to the controller's clock."""
        return now + when - self._calendar()

    def _proceed(self, gang: Gang, one: Growing, lacking: list[Member], now: float) -> Iterator[Action]:
        """Let the gang begin or stop to ask; yield the actions and events for that."""
        why = self._why_stop(gang, one, now) if one.asks_since else ""
        if why:
            self._release(gang.key, one)
            one.end_request()
            one.asks_since, one.again_at = 0.0, now + self._limits.grow_again
            text = f"{why}; it asks for nodes again in {self._limits.grow_again / 60:g} minutes"
            yield from events(gang, self._limits, LET_GO, text, warning=True)
        if not one.asks_since and now >= one.again_at and self._helps(gang, lacking):
            one.asks_since = float(int(self._calendar()))
            if now >= self._by_pods_until and self.requests.possible(lacking):
                one.request = request_name(gang.key)
            subject = f"ProvisioningRequest {one.request} asks" if one.request else "its pods ask"
            yield from events(gang, self._limits, ASKED, f"{subject} autoscalers for nodes: {gang.reason}")
        if one.asks_since and one.request:
            yield from self._ask_by_request(gang, one, lacking, now)
        if one.asks_since and not one.request:
            self._births.need_pods(gang)

    def _why_stop(self, gang: Gang, one: Growing, now: float) -> str:
        """Return why the gang stops asking, "" if it goes on."""
        request = self.requests.find(gang.key) if one.request else None
        if request is not None and request.failure:
            return f"ProvisioningRequest {one.request} has failed: {request.failure}"
        if one.made and request is None and self.requests.served:
            return f"ProvisioningRequest {one.request} was deleted"
        if now >= self._on_our_clock(one.asks_since + self._limits.grow_within, now):
            return f"it isn't placed {self._limits.grow_within:g} s after it asked for nodes"
        return ""

    def _ask_by_request(
        self, gang: Gang, one: Growing, lacking: list[Member], now: float
    ) -> Iterator[Action]:
        """Make the gang's request, and follow it; have its pods ask instead if nobody takes it up."""
        request = self.requests.find(gang.key)
        refused = self.requests.refused.pop(gang.key, "")
        if request is not None and request.accepted:
            one.made = one.accepted = True
            self._by_pods_until = 0.0
            if request.refusal and request.refusal != one.refusal:
                one.refusal = request.refusal
                text = f"the autoscaler has no nodes for ProvisioningRequest {one.request} yet: {request.refusal}"
                yield from events(gang, self._limits, NONE_YET, text, warning=True)
        elif refused:
            yield from self._ask_by_pods(gang, one, f"is refused ({refused})")
        elif not self.requests.served:
            yield from self._ask_by_pods(
                gang, one, "can't be made, because the API server doesn't serve the kind any more"
            )
        elif now >= self._until(one, now):
            self._by_pods_until = now + self._limits.grow_again
            yield from self._ask_by_pods(
                gang, one, f"wasn't taken up by any autoscaler in {self._limits.taken_up:g} s"
            )
        elif request is not None:
            one.made = True
        else:
            yield from self.requests.ask(gang, lacking, now)

    def _ask_by_pods(self, gang: Gang, one: Growing, why: str) -> list[RecordEvent]:
        """Have the gang's pods ask in place of its request, within the same time."""
        text = f"ProvisioningRequest {one.request} {why}, so its pods ask autoscalers for nodes"
        one.end_request()
        return events(gang, self._limits, ASKED, text, warning=True)

    def _helps(self, gang: Gang, lacking: Sequence[Member]) -> bool:
        """Return whether more nodes may help the gang, and its user hasn't asked for them."""
        if not lacks_nodes(gang) or asks_itself((one.pod for one in lacking), request_name(gang.key)):
            return False
        if self._quotas.obstacle(gang, lacking) is not None:
            return False
        kinds = {one.pod.requests for one in lacking}
        return self.sizes.may_come(kinds, self._ledger.whole.now())

    def _wrong_conditions(self, gang: Gang, lacking: Iterable[Member], now: float) -> Iterator[ReportPod]:
        """Yield a report for each pod whose condition states another time since which its gang asks."""
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


def lacks_nodes(gang: Gang) -> bool:
    """Return whether a gang is whole and lacks only nodes for a place. New nodes bring no devices of ours."""
    reason: Reason | None = gang.reason
    if reason is None or reason.code not in LACKING or reason.gathering:
        return False
    if len(gang.alive()) + gang.ended < gang.size:
        return False
    return bool(reason.lacking) or not any(one.pod.devices for one in gang.placeless())


def suits(node: Node, asks_since: float, members: Iterable[Member]) -> bool:
    """Return whether a node has joined since a gang asked for nodes, and may run one of its members."""
    if node.created < int(asks_since):
        return False
    kinds: dict[object, Pod] = {(one.pod.requests, signature(one.pod)): one.pod for one in members}
    return any(passes(refusal(pod, node)) and pod.requests.fits(node.allocatable) for pod in kinds.values())
