"""Autoscalers: which gangs ask them for nodes, which new nodes are held for these, and which nodes have to stay.

A gang asks by the conditions of its pods: Cluster Autoscaler and Karpenter add nodes for pods with the reason
Unschedulable, gated or not. The conditions state since when the gang asks, so a new leader continues where the last one
stopped. Nodes that join after that time are held for the gang; if several gangs ask, for the first in line. A gang that
isn't placed within a limit stops asking and gives up these nodes.

Nodes that are held keep other gangs waiting, even if they aren't enough. So no node is held for a gang that new nodes
can't complete: for one with a member that fits on no node, or for one that needs more nodes than its namespace's share.
If no further node joins for a while, or the last ones take too long, the held nodes become open to all gangs. For some
time after that, no node is held for gangs of that namespace.

Invariants: a gang asks only if each of its members would fit on a node that is known or stated. No node is held for a
gang that doesn't ask.

**Nodes that stay.** An autoscaler doesn't see plans; to it, a node without running pods is empty. So a node that is
held for a while gets the annotations that autoscalers respect, and loses them once nothing has held it for a while. A
plan that lasts only a moment isn't worth a write.

Invariant: the service changes no annotation that it hasn't set. The node itself records which ones it has set, so each
leader knows them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.gangs.execution.actions import Action, KeepNode, ReportPod
from fluence_extender.gangs.lifecycle.expected_pods import ExpectedPods
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.namespace_quotas import NamespaceQuotas
from fluence_extender.gangs.lifecycle.places import CoreParts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.queue.book import QueueBook
from fluence_extender.gangs.queue.submissions import precedence, turn
from fluence_extender.gangs.reporting.announcements import events, report_pod
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import KEEPING
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.placement.eligibility import passes, refusal, signature
from fluence_extender.room.capacity import CapacityTable
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger

# Nodes that stay.

LOOK_EVERY = 5.0
"""Seconds between two looks; a node is annotated if two looks in a row find it held."""

FREE_FOR = 60.0
"""Seconds after which a node that nothing holds loses its annotations; a new leader has made its plans by then."""

AGAIN = 30.0
"""Seconds after which a write that has shown no effect is made again."""


class NodeHolds:
    """Decides which nodes autoscalers may not remove: none unless ``growing``."""

    def __init__(self, ledger: Ledger, queue: QueueBook, growing: bool) -> None:
        self._ledger = ledger
        self._queue = queue
        self._growing = growing
        self._nodes: dict[str, Node] = {}
        self._due: dict[tuple[str, tuple[str, ...]], float] = {}
        """When to write a node whose annotations aren't as they should be, by its name and the annotations to set."""
        self._look_at = 0.0

    def put(self, node: Node) -> None:
        """Take in a node that is new or has changed."""
        self._nodes[node.name] = node

    def drop(self, name: str) -> None:
        """Forget a node."""
        self._nodes.pop(name, None)

    def forget(self) -> None:
        """Forget which writes are due, because another replica leads."""
        self._due.clear()

    def due(self, now: float) -> list[KeepNode]:
        """Return the writes to nodes that are due."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY
        held = self._held() if self._growing else frozenset[str]()
        before, self._due = self._due, {}
        actions = []
        for name, node in self._nodes.items():
            keys = tuple(key for key in KEEPING if key not in node.guards) if name in held else ()
            if bool(node.kept) is (name in held) or not (keys or node.kept):
                continue
            wanted = name, keys
            self._due[wanted] = before.get(wanted, now + (LOOK_EVERY if keys else FREE_FOR))
            if now >= self._due[wanted]:
                self._due[wanted] = now + AGAIN
                actions.append(KeepNode(node, keys))
        return sorted(actions, key=lambda action: action.node.name)

    def _held(self) -> set[str]:
        """Return the nodes of plans that aren't bound, of reservations, of preemptors and of gangs that ask."""
        planned = {
            holding.assignment.node
            for holding in self._ledger.holdings.values()
            if holding.firmness is not Firmness.BOUND
        }
        return planned | self._ledger.held_nodes.all_nodes() | self._queue.reserved_nodes()


# Gangs that ask for nodes, and the nodes that are held for them.

ASKED, LET_GO = "AskedForNodes", "NoNodesCame"

LACKING = (ReasonCode.BUSY, ReasonCode.UNSATISFIABLE)
"""The reasons of a gang that more nodes may help."""

STILL_LACKING = (*LACKING, ReasonCode.BEHIND_RESERVATION, ReasonCode.QUEUED, ReasonCode.PREEMPTING)
"""The reasons with which a gang that already asks goes on asking."""

HOLD_LASTS = 120.0
LONGEST_HOLD = 300.0
"""Held nodes that don't complete a gang open to all so many seconds after the last of them joined, or the first."""

HOLDS_AGAIN = 600.0
"""For how many seconds after that no new nodes are held for gangs of that namespace."""

LEAST_SHARE = 32
"""The most nodes that are held for the gangs of one namespace, or half of the cluster's nodes if that is more."""

MOST_KINDS = 16
"""No node is held for a gang with more kinds of members, because each kind is compared with each node."""

MOST_JUDGED = 8
"""Once new nodes can't complete so many gangs of a namespace, its other gangs get none until nodes change again."""

FORGOTTEN_AFTER = 60.0
"""Seconds for which a gang without pods is remembered as asking: a Job's pods may be yet to come."""


@dataclass(slots=True)
class Growing:
    """The state of a gang that lacks nodes.

    It was last looked at at ``looked_at``, and it may ask from ``again_at`` on, on the controller's clock. It has asked
    since ``asks_since``, in seconds since the epoch, 0 if it doesn't ask. Of the new nodes that are held for it, the
    first joined at ``first_joined`` and the last at ``last_joined``, on the controller's clock. Both are `NEVER` if
    none is held.
    """

    looked_at: float
    again_at: float
    asks_since: float = 0.0
    first_joined: float = NEVER
    last_joined: float = NEVER

    @property
    def held_until(self) -> float:
        """When the nodes that are held for it become open to all gangs, on the controller's clock."""
        return min(self.last_joined + HOLD_LASTS, self.first_joined + LONGEST_HOLD)


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

    def overtaken_by(self, gang: Gang) -> frozenset[object]:
        """Return the asking gangs behind ``gang`` in line: the nodes that are held for them are open to it."""
        return self.overtaken_among(self._registry.gangs)(gang)

    def overtaken_among(self, gangs: Mapping[GangKey, Gang]) -> Callable[[Gang], frozenset[object]]:
        """Return `overtaken_by` for ``gangs`` and the nodes that are held now."""
        asking = [key for key in self._gangs if key in gangs and self._held(key)]

        def overtaken_by(gang: Gang) -> frozenset[object]:
            order = precedence(gang) if asking else ()
            return frozenset(key for key in asking if key != gang.key and order < precedence(gangs[key]))

        return overtaken_by

    def take_over(self, now: float) -> None:
        """Go on with the gangs that have asked under the last leader."""
        if self._limits.grow_after is None:
            return
        for gang in self._registry.gangs.values():
            pods = (member.pod for member in gang.pending())
            since = min((pod.asks_since for pod in pods if pod.asks_since), default=0.0)
            if since:
                gang.remember(asks_since=since)
                self._gangs[gang.key] = Growing(now, now, since)

    def forget(self) -> None:
        """Hold no nodes, because another replica leads."""
        self._not_before.clear()
        for key in list(self._gangs):
            self._end(key)

    # The nodes that are held.

    def begin(self, now: float) -> None:
        """Begin a step: hold for each asking gang the nodes that have joined since it asked."""
        gangs, calendar = self._registry.gangs, self._calendar()
        for key, growing in list(self._gangs.items()):
            if key not in gangs and now > growing.looked_at + FORGOTTEN_AFTER:
                self._end(key)
            elif now >= growing.held_until:
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
        held, failed = Counter[str](), Counter[str]()
        for key in asking:
            self._hold(key, self._held(key) & nodes.keys())
            held[key.namespace] += len(self._held(key))
        taken = frozenset().union(*map(self._held, asking))
        first = min(self._gangs[key].asks_since for key in asking)
        new = [node for node in nodes.values() if node.created >= int(first) and node.name not in taken]
        for key in asking:
            if not new:
                return
            growing, placeless = self._gangs[key], gangs[key].placeless()
            since = max(growing.asks_since, self._not_before.get(key.namespace, 0.0))
            fitting = [node for node in new if _suits(node, since, placeless)]
            own = {node.name for node in fitting[: max(share - held[key.namespace], 0)]}
            if not own or failed[key.namespace] >= MOST_JUDGED:
                continue
            if not self._may_complete(placeless, share):
                failed[key.namespace] += 1
                continue
            new = [node for node in new if node.name not in own]
            held[key.namespace] += len(own)
            growing.first_joined, growing.last_joined = min(growing.first_joined, now), now
            self._hold(key, self._held(key) | own)

    def _may_complete(self, placeless: Sequence[Member], share: int) -> bool:
        """Return whether ``share`` new nodes may be enough for these members, and each of them fits on some node."""
        kinds, nodes = _kinds(placeless), self._eligibility.nodes
        if len(kinds) > MOST_KINDS or not all(
            any(pod.requests.fits(nodes[name].allocatable) for name in self._eligibility.possible(pod))
            for pod in kinds
        ):
            return False
        free = self._ledger.free.now()
        wanted = Resources.total(member.pod.requests for member in placeless)
        for name in {kind for pod in kinds for kind in pod.requests}:
            column = free.columns.get(name)
            free_now = int(free.free[:, column].clip(0).sum()) if column is not None else 0
            largest = max((node.allocatable[name] for node in nodes.values()), default=0)
            if wanted[name] > free_now + share * largest:
                return False
        return True

    def _held(self, key: GangKey) -> frozenset[str]:
        return self._ledger.held_nodes.nodes(HoldKind.NEW_NODES, key)

    def _hold(self, key: GangKey, nodes: Collection[str]) -> None:
        """Hold exactly these new nodes for a gang."""
        self._ledger.held_nodes.hold(HoldKind.NEW_NODES, key, nodes)
        if not nodes:
            self._gangs[key].first_joined = self._gangs[key].last_joined = NEVER

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
        growing, placeless = self._gangs.get(gang.key), gang.placeless()
        if gang.reason is None and placeless:
            return [], NEVER
        lacks_nodes_still = bool(placeless and gang.reason and gang.reason.code in STILL_LACKING)
        if growing is not None and not lacks_nodes_still:
            self._end(gang.key)
            growing = None
        elif (
            growing is None and self._limits.grow_after is not None and self._nodes_may_help(gang, placeless)
        ):
            growing = self._gangs[gang.key] = Growing(now, now + self._limits.grow_after)
        actions: list[Action] = []
        look = NEVER
        if growing is not None:
            growing.looked_at = now
            actions += self._proceed(gang, growing, placeless, now)
            asks_until = min(self._asks_until(growing, now), growing.held_until)
            look = asks_until if growing.asks_since else growing.again_at
        gang.remember(asks_since=growing.asks_since if growing is not None else 0.0)
        writes = list(self._wrong_conditions(gang, placeless, now))
        return [*actions, *writes], min(look, now + self._limits.told_again) if writes else look

    def _asks_until(self, growing: Growing, now: float) -> float:
        """Return when a gang that asks gives up, on the controller's clock."""
        return now + growing.asks_since + self._limits.grow_within - self._calendar()

    def _proceed(self, gang: Gang, growing: Growing, placeless: list[Member], now: float) -> Iterator[Action]:
        """Let the gang begin to ask or stop asking, if it is time; yield the events for that."""
        limits = self._limits
        if growing.asks_since and now >= self._asks_until(growing, now):
            self._release(gang.key)
            growing.asks_since, growing.again_at = 0.0, now + limits.grow_again
            text = (
                f"it isn't placed {limits.grow_within:g} s after it asked for nodes; "
                f"it asks for nodes again in {limits.grow_again / 60:g} minutes"
            )
            yield from events(gang, limits, LET_GO, text, warning=True)
        if not growing.asks_since and now >= growing.again_at and self._nodes_may_help(gang, placeless):
            growing.asks_since = float(int(self._calendar()))
            yield from events(gang, limits, ASKED, f"its pods ask autoscalers for nodes: {gang.reason}")
        if growing.asks_since:
            self._expected_pods.need_pods(gang)

    def _nodes_may_help(self, gang: Gang, placeless: Sequence[Member]) -> bool:
        """Return whether new nodes may help the gang."""
        if not lacks_nodes(gang) or self._quotas.obstacle(gang, placeless) is not None:
            return False
        requests = {member.pod.requests for member in placeless}
        return fit_known_nodes(requests, self._limits.largest_node, self._ledger.whole.now())

    def _wrong_conditions(self, gang: Gang, placeless: Iterable[Member], now: float) -> Iterator[ReportPod]:
        """Yield a report for each pod whose condition states wrongly since when its gang asks."""
        reason = gang.reason
        for member in placeless:
            pod = member.pod
            wrong = pod.withheld and not pod.expected and pod.asks_since != gang.asks_since
            if wrong and reason is not None and now >= member.told_at + self._limits.told_again:
                gang.change(pod.uid, told_at=now)
                yield report_pod(gang, reason, member)


def lacks_nodes(gang: Gang) -> bool:
    """Return whether only nodes are missing for the gang: it has its members, and lacks none of our devices.

    New nodes bring no such devices.
    """
    reason: Reason | None = gang.reason
    if reason is None or reason.code not in LACKING or reason.assembling:
        return False
    if len(gang.alive()) + gang.ended < gang.size:
        return False
    return bool(reason.lacking) or not any(member.pod.devices for member in gang.placeless())


def fit_known_nodes(requests: Iterable[Resources], stated: Resources, present: CapacityTable) -> bool:
    """Return whether each of these requests fits on a node like one that is ``present``, or like the ``stated`` one.

    Only the cloud knows the templates of its node groups. So a pod that fits on no known node is assumed to fit on no
    future one. But a resource that no known node has is ignored, because nodes of a new kind may bring it. Of a
    resource that the stated node doesn't name, it has as much as the largest node that is present.
    """
    largest = {name: int(present.free[:, at].max(initial=0)) for name, at in present.columns.items()}
    largest_stated = {**largest, **dict(stated.items())}
    for request in requests:
        asked = {name: amount for name, amount in request.items() if largest_stated.get(name, 0) > 0}
        if not asked or (stated and all(amount <= largest_stated[name] for name, amount in asked.items())):
            continue
        if not asked.keys() <= largest.keys():
            return False
        amounts = present.free[:, [present.columns[name] for name in asked]]
        if not (amounts >= list(asked.values())).all(axis=1).any():
            return False
    return True


def _suits(node: Node, asks_since: float, members: Iterable[Member]) -> bool:
    """Return whether a node has joined since a gang asked for nodes, and may run one of its members."""
    return node.created >= int(asks_since) and any(
        passes(refusal(pod, node)) and pod.requests.fits(node.allocatable) for pod in _kinds(members)
    )


def _kinds(members: Iterable[Member]) -> Collection[Pod]:
    """Return one pod of each kind of members. A node suits either all members of a kind or none."""
    pods = (member.pod for member in members)
    return {(pod.requests, signature(pod)): pod for pod in pods}.values()
