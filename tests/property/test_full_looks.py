"""When the core rests, no gang waits for a look: to look at all gangs again starts none.

Queues have limits, quotas, guarantees, weights and a depth, and gangs come, end, grow and leave in any order.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.objects.queues import PolicyName, Queue, QueueLimits, Quota, Stop
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import Cluster, machine, rules

STEPS = 40
NAMES = "abc"


@given(st.integers(0, 2**32))
@settings(max_examples=max(settings().max_examples // 5, 5))
def test_look_at_all_gangs_starts_no_gang_once_the_core_rests(seed: int) -> None:
    dice = Random(seed)
    cluster = Cluster(machine(*_sizes(dice, 2, 5)), *_queues(dice))
    now, number = 0.0, 0
    for _ in range(STEPS):
        for _ in range(dice.randint(1, 3)):
            number += 1
            _happen(dice, cluster, f"g{number}", now)
        now += dice.choice((0.0, 0.2, 1.0, 5.0, 12.0))
        cluster.decide(now)
        cluster.controller.lifecycle.look_at_all()
        assert cluster.decide(now) == []


def _sizes(dice: Random, least: int, most: int) -> list[int]:
    return [dice.randint(least, most) for _ in range(dice.randint(1, 4))]


def _queues(dice: Random) -> list[Queue]:
    depth, starvation = dice.choice((None, 3, 6)), dice.choice((None, 20.0))
    scheduling = rules(dice.choice(list(PolicyName)), queue_depth=depth, starvation_after=starvation)
    parent = Queue("parent", quota=_quota(dice, guaranteed=0), uid="parent")
    return [scheduling, parent, *(_queue(dice, name) for name in NAMES)]


def _queue(dice: Random, name: str) -> Queue:
    limits = QueueLimits(
        running=dice.choice((0, 0, 1, 2, 3)),
        queued=dice.choice((0, 0, 0, 2, 4)),
        running_per_user=dice.choice((0, 0, 1, 2)),
        queued_per_user=dice.choice((0, 0, 0, 3)),
    )
    return Queue(
        name,
        limits=dice.choice((limits, QueueLimits())),
        quota=_quota(dice, guaranteed=dice.choice((0, 0, 1, 3))),
        parent=dice.choice(("parent", "parent", "")),
        stop=dice.choice((*[Stop.NONE] * 8, Stop.HOLD)),
        weight=dice.choice((None, None, 1.0, 2.0)),
        uid=name,
    )


def _quota(dice: Random, guaranteed: int) -> Quota:
    limit = max(dice.choice((0, 0, 2, 4, 6)), guaranteed)
    lendable = dice.randint(0, guaranteed) if guaranteed and dice.random() < 0.4 else None
    return Quota(
        guaranteed={"cpu": 1000 * guaranteed} if guaranteed else {},
        limit={"cpu": 1000 * limit} if limit else {},
        lendable={} if lendable is None else {"cpu": 1000 * lendable},
    )


def _happen(dice: Random, cluster: Cluster, name: str, now: float) -> None:
    running = sorted(one for one, pods in cluster.pods.items() if any(pod.node for pod in pods))
    waiting = sorted(cluster.pods.keys() - set(running))
    event = dice.random()
    if running and 0.45 <= event < 0.75:
        cluster.end(dice.choice(running))
    elif waiting and 0.75 <= event < 0.85:
        cluster.withdraw(dice.choice(waiting))
    elif 0.85 <= event < 0.9:
        cluster.configure(*_queues(dice))
    elif event >= 0.9:
        for node in machine(*_sizes(dice, 2, 6)):
            cluster.put_node(node)
    else:
        cluster.submit(
            name,
            dice.choice((1, 1, 1, 2, 3)),
            dice.choice((1, 1, 1, 2)),
            dice.choice((NEVER, 10.0, 30.0, 100.0)),
            priority=dice.choice((0, 0, 0, 5)),
            queue=dice.choice(("", "a", "a", "b", "c")),
            created=now,
        )
