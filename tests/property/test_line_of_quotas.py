"""A pass tries no gang whose limit or quota it knows to be reached, and yet all start as if each were always tried.

A cluster is compared with another one to which the same happens, and which tries every gang in every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.gangs.planning.one_pass import Pass
from fluence_extender.gangs.queue.quotas import excess_reason
from fluence_extender.model.node import Node
from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import Queue, QueueLimits, QueuePreemption, Quota, Reclaim
from fluence_extender.queueing.quota import Excess, QuotaUse
from tests.queueing.cluster import UNIT, Cluster, Slot, machine, rules

NAMES = ("a", "b", "c", "d")
BACK = QueuePreemption(Reclaim.BORROWED)


class Eager(Cluster):
    """A cluster that tries each waiting gang in each step."""

    def decide(self, now: float) -> list[str]:
        controller, step = self.controller, self.controller.step

        def eager_step() -> object:
            controller.registry.dirty.update(controller.registry.gangs)
            return step()

        with (
            patch.object(controller, "step", eager_step),
            patch.object(Pass, "_limit", lambda *_: (None, False)),
        ):
            return super().decide(now)


amounts = st.none() | st.integers(0, 8)
stated = st.tuples(amounts, amounts, amounts, st.booleans(), st.booleans(), st.none() | st.integers(1, 3))
trees = st.lists(stated, min_size=len(NAMES), max_size=len(NAMES))
gangs = st.lists(st.integers(1, 3), min_size=1, max_size=3)
events = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(NAMES), gangs, st.integers(0, 2)),
    st.tuples(st.just("submit"), st.sampled_from(NAMES), gangs, st.integers(0, 2)),
    st.tuples(st.just("submit"), st.sampled_from(NAMES), gangs, st.just(0)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("withdraw"), st.integers(0, 30)),
    st.tuples(st.just("configure"), trees),
    st.tuples(st.just("resize"), st.integers(4, 16)),
    st.tuples(st.just("move"), st.integers(0, 30), st.sampled_from(NAMES)),
)


def queues(tree: list[tuple]) -> Iterator[Queue]:  # type: ignore[type-arg]
    """Queues of which some share the quota of the first; nothing is reserved for blocked gangs."""
    yield rules(depth=0)
    for name, (guaranteed, limit, lendable, below, back, running) in zip(NAMES, tree, strict=True):
        parts = [{} if one is None else {"cpu": one * UNIT} for one in (guaranteed, limit, lendable)]
        yield Queue(
            name,
            parent="a" if below and name != "a" else "",
            quota=Quota(*parts),
            preemption=BACK if back else QueuePreemption(),
            limits=QueueLimits(running=running or 0),
            uid=name,
        )


def happen(cluster: Cluster, number: int, event: tuple) -> None:  # type: ignore[type-arg]
    names = sorted(cluster.pods)
    match event:
        case "submit", queue, sizes, priority:
            cluster.submit_slots(
                f"g{number:02}", [Slot(size) for size in sizes], priority=priority, queue=queue
            )
        case "end", chosen if names:
            name = names[chosen % len(names)]
            if all(cluster.nodes_of(name)):
                cluster.end(name)
        case "withdraw", chosen if names:
            cluster.withdraw(names[chosen % len(names)])
        case "configure", tree:
            cluster.configure(*queues(tree))
        case "resize", size:
            cluster.put_node(machine(size)[0])
        case "move", chosen, queue if names:
            name = names[chosen % len(names)]
            if not any(cluster.nodes_of(name)):
                sizes = [one.requests["cpu"] // UNIT for one in cluster.pods[name]]
                cluster.submit_slots(name, [Slot(size) for size in sizes], queue=queue)
        case _:
            pass


def waiting(cluster: Cluster) -> set[str]:
    return {one.key.name for one in cluster.controller.registry.gangs.values() if one.placeless()}


def reached(use: QuotaUse, queue: str, kind: str, amount: int) -> Iterator[Excess]:
    """The limits that a queue would exceed with so much more of a resource, counting what queues below keep."""
    for name in use.tree.branch(queue).path:
        branch = use.tree.branch(name)
        kept = sum(use.tree.branch(child).kept.get(kind, 0) for child in branch.children)
        most = branch.limit.get(kind)
        if most is not None and use.used(name).get(kind, 0) + amount + kept > most:
            yield Excess(name, kind, most)


def reasons_are_true(cluster: Cluster) -> None:
    """A gang that waits for its quota still has to, and is told a limit that is in force and would be exceeded."""
    admission = cluster.controller.queue.admission
    for gang in cluster.controller.registry.gangs.values():
        place = admission.usage.place(gang.key)
        over = gang.reason is not None and gang.reason.code is ReasonCode.OVER_QUOTA
        if place is not None and over and gang.placeless():
            use, asks = admission.quotas.use, place.asks
            assert use.excess(place.queue, asks) is not None
            limits = reached(use, place.queue, "cpu", asks["cpu"])
            assert gang.reason in [excess_reason(one, place.queue, asks) for one in limits]


@settings(deadline=None)
@given(trees, st.lists(events, min_size=8, max_size=40))
def test_same_gangs_start_as_if_each_were_tried_in_each_step(tree: list[tuple], history: list[tuple]) -> None:  # type: ignore[type-arg]
    nodes: tuple[Node, ...] = machine(12)
    cluster, eager = Cluster(nodes, *queues(tree)), Eager(nodes, *queues(tree))
    for number, event in enumerate(history):
        happen(cluster, number, event)
        happen(eager, number, event)
        if number % 3 != 1:
            assert cluster.decide(float(number)) == eager.decide(float(number)), (number, event)
            assert waiting(cluster) == waiting(eager), (number, event)
            reasons_are_true(cluster)
