"""The queue's laws under arbitrary histories.

Gangs come and go, pods end early and late, nodes are cordoned and lost, other schedulers' pods and Reservations appear.
Before each decision a second core is started on what the API server has, as after a restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fluence_extender.gangs.queue.book import BLOCKED
from fluence_extender.gangs.queue.submissions import turn
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import NodeReservation, PolicyName, Queue
from fluence_extender.queueing.entry import NEVER, QueuePolicy, Rank
from tests.queueing.cluster import EPOCH, Cluster, Slot, machine, rules
from tests.queueing.values import left_at

WHOLE = (4, 2)
"""Cores and gpus of each node."""

NODES = machine(*[WHOLE] * 4)
LEFT = ("n0", "n1")
TEAM = Queue("team", uid="t")

sizes = st.sampled_from([(1, 0), (2, 0), (4, 0), (1, 1), (3, 2)])
equal = st.builds(lambda count, size: [Slot(size)] * count, st.integers(1, 4), sizes)
confined = st.builds(lambda count, size: [Slot(size, LEFT)] * count, st.integers(1, 2), sizes)
mixed = st.builds(lambda one, other: [Slot(one), Slot(other), Slot(other)], sizes, sizes)
durations = st.sampled_from([5.0, 10.0, 30.0, 100.0, NEVER])
pauses = st.sampled_from([0.0, 1.0, 5.0, 30.0, 200.0])
asked = st.tuples(
    st.one_of(equal, equal, mixed, confined),
    durations,
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from(["", "team"]),
)
nodes = st.sampled_from([node.name for node in NODES])
choice = st.integers(0, 10**6)


class Laws(RuleBasedStateMachine):
    """Rules are what users, pods, nodes and operators do; after each decision the laws are checked."""

    @initialize(
        policy=st.sampled_from(list(PolicyName)),
        depth=st.sampled_from([None, 2]),
        starvation=st.sampled_from([20.0, 1e9]),
        running=st.lists(st.tuples(nodes, st.integers(1, 4), durations), min_size=1, max_size=6),
        some=st.lists(asked, min_size=2, max_size=6),
    )
    def begin(
        self,
        policy: PolicyName,
        depth: int | None,
        starvation: float,
        running: list[tuple[str, int, float]],
        some: list[tuple[list[Slot], float, int, str]],
    ) -> None:
        self.number = 0
        self.starvation = starvation
        self.queue = rules(policy, depth, starvation_after=starvation)
        self.operators: list[NodeReservation] = []
        self.happened: set[str] = set()
        self.changed = False
        self.w = Cluster(NODES, self.queue, TEAM)
        self.submitted: dict[str, int] = {}
        self.started: set[str] = set()
        left = dict.fromkeys(self.w.nodes, WHOLE[0])
        for node, cores, end in running:
            if cores <= left[node]:
                left[node] -= cores
                self.w.run(self._name("r"), {node: (cores, 0)}, end)
        self.submit(some)
        self._decide(1.0)

    def _name(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number:03}"

    # Users.

    @rule(some=st.lists(asked, min_size=1, max_size=4))
    def submit(self, some: list[tuple[list[Slot], float, int, str]]) -> None:
        for slots, duration, priority, queue in some:
            name = self._name("g")
            self.submitted[name] = len(slots)
            self.w.submit_slots(name, slots, duration, priority=priority, queue=queue)

    @rule(pick=choice)
    def withdraw(self, pick: int) -> None:
        name = self._pick(sorted(self.submitted.keys() - self.started), pick)
        if name:
            self.w.withdraw(name)
            del self.submitted[name]

    # Pods.

    @rule(pick=choice)
    def end(self, pick: int) -> None:
        name = self._pick([name for name, pods in self.w.pods.items() if pods[0].node], pick)
        if name:
            self.w.end(name)
            self._gone(name)

    @rule(node=nodes, amount=st.integers(1, 3), end=st.sampled_from([7.0, 50.0, NEVER]))
    def foreign_pod(self, node: str, amount: int, end: float) -> None:
        if node in self.w.nodes:
            self.w.run(self._name("f"), {node: (amount, 0)}, self.w.now + end, foreign=True)
            self.happened.add(node)

    # Nodes and operators.

    @rule(node=nodes, closed=st.booleans())
    def cordon(self, node: str, closed: bool) -> None:
        if node in self.w.nodes:
            self.w.put_node(replace(self.w.nodes[node], unschedulable=closed))
            self.happened.add(node)

    @rule(node=nodes)
    def lose_node(self, node: str) -> None:
        if node in self.w.nodes and len(self.w.nodes) > 1:
            before = set(self.w.pods)
            self.w.drop_node(node)
            for name in before - self.w.pods.keys():
                self._gone(name)
            self.happened.add(node)

    @rule(node=nodes)
    def node_joins(self, node: str) -> None:
        if node not in self.w.nodes:
            self.w.put_node(next(one for one in NODES if one.name == node))
            self.happened.add(node)

    @rule(
        some=st.sets(nodes, min_size=1),
        start=pauses,
        length=st.sampled_from([10.0, 60.0]),
        team=st.booleans(),
    )
    def reserve_nodes(self, some: set[str], start: float, length: float, team: bool) -> None:
        users = frozenset(["team"] if team else [])
        since = EPOCH + self.w.now + start
        name = self._name("o")
        self.operators.append(NodeReservation(name, since, length, frozenset(some), queues=users, uid=name))
        self._configure()

    @rule()
    def forget_operators(self) -> None:
        if self.operators:
            self.operators = []
            self._configure()

    @rule(policy=st.sampled_from(list(PolicyName)), depth=st.sampled_from([None, 1, 3]))
    def change_policy(self, policy: PolicyName, depth: int | None) -> None:
        self.queue = rules(policy, depth, starvation_after=self.starvation)
        self._configure()

    def _configure(self) -> None:
        self.changed = True
        self.w.configure(self.queue, TEAM, *self.operators)

    # Decisions.

    @rule(pause=pauses)
    def decide(self, pause: float) -> None:
        self._decide(self.w.now + pause)

    @rule(late=st.sampled_from([0.0, 1.0]))
    def decide_when_something_is_due(self, late: float) -> None:
        times = [
            *self.w.promised().values(),
            *(one.started + one.duration - EPOCH for one in self._running() if one.duration is not None),
            *(one.end - EPOCH for one in self.operators),
        ]
        due = [time for time in times if self.w.now < time < NEVER]
        if due:
            self._decide(min(due) + late)

    def _decide(self, now: float) -> None:
        promised, told = self._promises(self.w), self._told()
        for pod in self._running():
            if pod.duration is not None and pod.started + pod.duration <= EPOCH + now:
                self.happened.add(pod.node)
        again = self.w.restarted()
        found = self.w.decide(now)
        self._check_starts(found)
        self._check_restart(again, found, again.decide(now))
        self._check_reservations()
        self._check_promises(promised, told)
        self._check_policy(found)
        self.happened = set()
        self.changed = False

    # Laws.

    @invariant()
    def nothing_is_lost_or_started_twice(self) -> None:
        if hasattr(self, "submitted"):
            assert self.submitted.keys() <= self.w.pods.keys()
            assert all(all(self.w.nodes_of(name)) for name in self.started)
            assert not any(any(self.w.nodes_of(name)) for name in self.submitted.keys() - self.started)

    def _check_restart(self, again: Cluster, found: list[str], others: list[str]) -> None:
        """A restart decides the same.

        What is promised already stays where it is while that is as early as anywhere, so other nodes may be reserved
        than were found anew. The first in line is promised the same start nevertheless.
        """
        assert [one for one in again.waiting if one not in found] == [
            one for one in self.w.waiting if one not in others
        ]
        kept, anew = self._promises(self.w), self._promises(again)
        if all(anew[name] == kept[name] for name in kept.keys() & anew.keys()):
            assert (others, anew) == (found, kept)
            assert all(again.nodes_of(name) == self.w.nodes_of(name) for name in found)
        elif found == others:
            assert next(iter(kept.items()))[1][0] == next(iter(anew.items()))[1][0]

    def _check_starts(self, found: list[str]) -> None:
        """What starts has room, on nodes that are open to it for as long as it runs."""
        for name in found:
            assert name not in self.started
            self.started.add(name)
            assert len(self.w.pods[name]) == self.submitted[name]
            for pod in self.w.pods[name]:
                ends = pod.started + (NEVER if pod.duration is None else pod.duration)
                for one in self.operators:
                    free = one.end <= pod.started or one.start >= ends
                    assert free or pod.node not in one.names or self._queue(pod) in one.queues
        for node in {pod.node for name in found for pod in self.w.pods[name]}:
            used: Counter[str] = Counter()
            for pod in self._running():
                if pod.node == node:
                    used.update(pod.requests)
            # What other schedulers have taken too much of is still too much, but nobody was added there.
            ours = {pod.node for name in found for pod in self.w.pods[name]}
            room = self.w.nodes[node].allocatable
            assert node in ours
            for kind in ("cpu", "nvidia.com/gpu"):
                asked = any(
                    pod.requests[kind] for name in found for pod in self.w.pods[name] if pod.node == node
                )
                assert not asked or used[kind] <= room[kind]

    def _check_reservations(self) -> None:
        """At each start, on each node of the reservation: what is held and reserved is no more than there is."""
        cluster = self.w.controller.queue.cluster
        if cluster is None:
            assert not self.w.promises
            return
        timeline = cluster.timeline
        for head in self.w.promises.values():
            promise = head.reservation
            assert promise is not None
            if promise.draining:
                continue
            assert promise.start > timeline.now
            left = left_at(timeline, promise.start)[promise.places.rows]
            assert (left[promise.places.amounts > 0] >= 0).all(), head.key

    def _check_promises(self, before: dict[str, tuple[float, list[str]]], told: dict[str, int]) -> None:
        """A promised start moves later only if something has happened, and the gang is told."""
        now = self._promises(self.w)
        for name, (start, places) in before.items():
            if name not in self.w.pods or name in self.started:
                continue
            gang, new = self.w.gang(name), self.w.delays(name) - told[name]
            if gang.reason is not None and gang.reason.code not in BLOCKED:
                assert gang.starts_about is None
                continue
            later = now.get(name, (NEVER, []))[0] > start
            assert bool(new) == later, (name, start, now.get(name), new)
            assert not later or self._may_start_later(name, set(places))

    def _may_start_later(self, name: str, there: set[str]) -> bool:
        """Whether the queue, the nodes ``there`` or the gangs ahead have changed since the last decision."""
        if self.changed or there & self.happened:
            return True
        own = self._rank(name)
        ahead = [other for other in self._promises(self.w) if self._rank(other) < own]
        lost = name not in self._promises(self.w) and len(ahead) >= self._policy.depth
        earlier = [self.w.reserved(other) for other in ahead]
        earlier += [self.w.nodes_of(other) for other in self.started if self._rank(other) < own]
        return lost or any(there & set(places) for places in earlier)

    def _check_policy(self, found: list[str]) -> None:
        assert len(self._promises(self.w)) <= self._policy.depth
        if self._policy.policy is PolicyName.FCFS:
            blocked = [head for head in self.w.controller.queue.blocked if head.possible]
            assert not found or not blocked or max(map(self._rank, found)) < min(one.rank for one in blocked)

    # Helpers.

    @property
    def _policy(self) -> QueuePolicy:
        return self.w.controller.queue.settings.policy

    def _running(self) -> list[Pod]:
        return [pod for pods in self.w.pods.values() for pod in pods if pod.node]

    def _promises(self, w: Cluster) -> dict[str, tuple[float, list[str]]]:
        return {name: (start, w.reserved(name)) for name, start in w.promised().items()}

    def _told(self) -> dict[str, int]:
        return {name: self.w.delays(name) for name in self.w.promised() if name in self.w.pods}

    def _rank(self, name: str) -> Rank:
        _, *rest = turn(self.w.gang(name))
        return (True, *rest)  # type: ignore[return-value]

    def _queue(self, pod: Pod) -> str:
        found = self.w.controller.queue.admission.queue_of(self.w.gang(pod.name.rpartition("-")[0]))
        assert isinstance(found, Queue)
        return found.name

    def _gone(self, name: str) -> None:
        self.submitted.pop(name, None)
        self.started.discard(name)

    @staticmethod
    def _pick(names: list[str], pick: int) -> str:
        return names[pick % len(names)] if names else ""


TestLaws = Laws.TestCase
TestLaws.settings = settings(
    max_examples=settings().max_examples // 5,
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
