"""Whatever queues keep: it can always be had, and the first in line starts once its room has come back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.model.reason import ReasonCode
from fluence_extender.objects.queues import PolicyName, Queue, Quota
from fluence_extender.queueing.entry import NEVER
from tests.queueing.cluster import EPOCH, UNIT, Cluster, machine, rules

QUEUES = ("a", "b", "c")

quotas = st.tuples(st.integers(0, 5), st.integers(0, 5))
LONGEST = 12
"""The longest duration; what runs when a gang becomes the first in line has ended after that."""

submissions = st.tuples(
    st.sampled_from(QUEUES), st.integers(1, 5), st.integers(1, 3), st.sampled_from((3.0, 7.0, float(LONGEST)))
)


POLICIES = (PolicyName.EASY, PolicyName.HYBRID, PolicyName.CONSERVATIVE)
OTHERS = {"a": "b", "b": "b", "c": "c"}
"""The queues of a stream in which the first queue is idle."""


def keeping(name: str, own: int = 0, lent: int = 0) -> Queue:
    """Return a queue that is guaranteed some cores and lends some of them."""
    return Queue(name, quota=Quota({"cpu": UNIT * own}, lendable={"cpu": UNIT * lent}), uid=name)


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


streams = st.lists(st.lists(submissions, min_size=1, max_size=2), min_size=2, max_size=6)


def go_on(cluster: Cluster, step: int, stream: list[list[tuple[str, int, int, float]]]) -> None:
    """Let work end that has run for as long as it declares, and submit more."""
    for name, pods in list(cluster.pods.items()):
        if all(pod.node and pod.started + (pod.duration or NEVER) <= EPOCH + step for pod in pods):
            cluster.end(name)
    for number, (queue, count, size, duration) in enumerate(stream[step % len(stream)]):
        cluster.submit(f"g{step}-{number}", count, size, duration, queue=queue)


@settings(deadline=None, max_examples=25)
@given(st.lists(quotas, min_size=3, max_size=3), st.sampled_from(POLICIES), streams)
def test_nothing_that_a_queue_keeps_is_given_to_others(
    stated: list[tuple[int, int]], policy: PolicyName, stream: list[list[tuple[str, int, int, float]]]
) -> None:
    made = [keeping(name, *numbers) for name, numbers in zip(QUEUES, stated, strict=True)]
    cluster = Cluster(machine(4, 4, 4), *made, rules(policy))
    use = cluster.controller.queue.admission.quotas
    for step in range(15):
        go_on(cluster, step, stream)
        cluster.decide(float(step))
        assert total_charge(cluster) <= 12 * UNIT
        for name in QUEUES:
            kept = use.use.tree.branch(name).kept.get("cpu", 0)
            assert use.has_room(name, {"cpu": max(kept - use.use.used(name).get("cpu", 0), 0)})


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), st.integers(0, 4), st.sampled_from(POLICIES), streams, st.integers(1, 12))
def test_first_in_line_starts_once_what_runs_has_ended_whatever_an_idle_queue_keeps(
    own: int, lent: int, policy: PolicyName, stream: list[list[tuple[str, int, int, float]]], width: int
) -> None:
    others = [[(OTHERS[queue], *rest) for queue, *rest in some] for some in stream]
    cluster = Cluster(machine(4, 4, 4), keeping("a", own, lent), keeping("b"), keeping("c"), rules(policy))
    for step in range(3 + LONGEST + 2):
        go_on(cluster, step, others)  # type: ignore[arg-type]
        if step == 3:
            cluster.submit("wide", width, 1, 5.0, queue="b", priority=1)
        cluster.decide(float(step))
    reason = cluster.gang("wide").reason if "wide" in cluster.pods else None
    assert reason is None or reason.code is ReasonCode.UNSATISFIABLE
