"""Whatever queues keep: it can always be had, and the first in line starts once its room has come back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.model.queue import PolicyName, Queue, Quota
from fluence_extender.model.reason import ReasonCode
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import EPOCH, UNIT, Cluster, machine, rules

QUEUES = ("a", "b", "c")

quotas = st.tuples(st.integers(0, 5), st.integers(0, 5))
LONGEST = 12
"""The longest duration; what runs when a gang becomes the first in line has ended after that."""

submissions = st.tuples(
    st.sampled_from(QUEUES), st.integers(1, 5), st.integers(1, 3), st.sampled_from((3.0, 7.0, float(LONGEST)))
)


def total_charge(cluster: Cluster) -> int:
    """What all queues together use or keep, in cores, counted anew."""
    found = 0
    for one in cluster.objects:
        if isinstance(one, Queue) and one.name in QUEUES:
            branch = cluster.controller.queue.admission.quotas.use.tree.branch(one.name)
            held = sum(
                pod.requests["cpu"]
                for pods in cluster.pods.values()
                for pod in pods
                if pod.node and pod.labels.get("fluence.flux-framework.org/queue") == one.name
            )
            found += max(held, branch.kept.get("cpu", 0))
    return found


@settings(deadline=None, max_examples=60)
@given(
    st.lists(quotas, min_size=3, max_size=3),
    st.sampled_from((PolicyName.EASY, PolicyName.HYBRID, PolicyName.CONSERVATIVE)),
    st.lists(st.lists(submissions, min_size=1, max_size=2), min_size=2, max_size=6),
    st.sampled_from(QUEUES),
    st.integers(1, 12),
)
def test_first_in_line_starts_in_time_and_nothing_that_is_kept_is_given_away(
    stated: list[tuple[int, int]],
    policy: PolicyName,
    stream: list[list[tuple[str, int, int, float]]],
    wide_queue: str,
    width: int,
) -> None:
    made = [
        Queue(name, quota=Quota({"cpu": UNIT * own}, lendable={"cpu": UNIT * lent}), uid=name)
        for name, (own, lent) in zip(QUEUES, stated, strict=True)
    ]
    cluster = Cluster(machine(4, 4, 4), *made, rules(policy))
    quotas_of = cluster.controller.queue.admission.quotas
    number, first_since = 0, None
    for step in range(3 * LONGEST):
        for name, pods in list(cluster.pods.items()):
            if all(pod.node and pod.started + (pod.duration or NEVER) <= EPOCH + step for pod in pods):
                cluster.end(name)
        for queue, count, size, duration in stream[step % len(stream)]:
            number += 1
            cluster.submit(f"g{number}", count, size, duration, queue=queue)
        if step == 3:
            cluster.submit("wide", width, 1, 5.0, queue=wide_queue, priority=1)
        cluster.decide(float(step))
        assert total_charge(cluster) <= 12 * UNIT
        for owner in QUEUES:
            kept = quotas_of.use.tree.branch(owner).kept.get("cpu", 0)
            idle = {"cpu": max(kept - quotas_of.use.used(owner).get("cpu", 0), 0)}
            assert quotas_of.has_room(owner, idle)
        if step >= 3 and cluster.waiting[:1] == ["wide"] and reason_of(cluster) is ReasonCode.BUSY:
            first_since = step if first_since is None else first_since
            assert step - first_since <= LONGEST
        else:
            first_since = None


def reason_of(cluster: Cluster) -> ReasonCode | None:
    reason = cluster.gang("wide").reason
    return None if reason is None else reason.code
