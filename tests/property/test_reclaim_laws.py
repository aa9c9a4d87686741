"""Taking back, whatever the tree and whatever runs: it ends, and what was taken back isn't taken again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.objects.queues import Queue, Quota
from fluence_extender.queueing.quota import QuotaTree, QuotaUse, grow
from fluence_extender.queueing.shares import HeldPlaces, beyond_guarantees, may_reclaim

CORES = 24
NAMES = ("a", "b", "c", "d", "e")

parents = st.tuples(*(st.sampled_from(("", *NAMES[:number])) for number in range(len(NAMES))))
guarantees = st.tuples(*(st.integers(0, 8) for _ in NAMES))
entries = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 6)), min_size=1, max_size=14)


def tree_of(above: Sequence[str], guaranteed: Sequence[int]) -> QuotaTree:
    """Return the tree of these queues."""
    queues = {
        name: Queue(name, parent=parent, quota=Quota(guaranteed={"cpu": amount} if amount else {}))
        for name, parent, amount in zip(NAMES, above, guaranteed, strict=True)
    }
    return grow(queues, {"cpu": CORES})


def counted(
    tree: QuotaTree, running: Sequence[HeldPlaces[int]]
) -> tuple[QuotaUse, dict[str, Mapping[str, int]]]:
    """Return what branches use, and what each queue's own entries hold."""
    use, own = QuotaUse(tree), dict.fromkeys(NAMES, 0)
    for one in running:
        use.add(one.queue, one.amounts)
        own[one.queue] += one.amounts["cpu"]
    return use, {name: {"cpu": cores} for name, cores in own.items()}


def borrowed(tree: QuotaTree, own: Mapping[str, Mapping[str, int]]) -> int:
    """Return what all queues together hold beyond their own guarantees."""
    return sum(max(own[name]["cpu"] - tree.branch(name).guaranteed.get("cpu", 0), 0) for name in NAMES)


@given(parents, guarantees, entries, entries, st.randoms(use_true_random=False))
def test_chains_of_taking_back_end_and_nothing_is_taken_from_those_that_took(
    above: tuple[str, ...],
    guaranteed: tuple[int, ...],
    first: list[tuple[str, int]],
    later: list[tuple[str, int]],
    random: Random,
) -> None:
    tree = tree_of(above, guaranteed)
    running = [HeldPlaces(number, queue, {"cpu": size}) for number, (queue, size) in enumerate(first)]
    waiting = [HeldPlaces(number, queue, {"cpu": size}) for number, (queue, size) in enumerate(later, 100)]
    use, own = counted(tree, running)
    for _ in range(borrowed(tree, own) + 1):
        chances = []
        for one in waiting:
            found = beyond_guarantees(use, own, one.queue, one.amounts, (), running)
            if found and may_reclaim(use, one.queue, one.amounts):
                chances.append((one, found))
        if not chances:
            return
        owner, may_go = random.choice(chances)
        victims = random.sample(may_go, random.randint(1, len(may_go)))
        before = borrowed(tree, own)
        running = [one for one in running if one not in victims] + [owner]
        waiting = [one for one in waiting if one is not owner] + victims
        use, own = counted(tree, running)
        assert borrowed(tree, own) < before
        for victim in victims:
            assert owner not in beyond_guarantees(use, own, victim.queue, victim.amounts, (), running)
    raise AssertionError("the chain doesn't end")


@given(parents, guarantees, entries, st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_each_of_what_may_be_taken_is_taken_while_its_queue_borrows(
    above: tuple[str, ...],
    guaranteed: tuple[int, ...],
    first: list[tuple[str, int]],
    owner: str,
    random: Random,
) -> None:
    tree = tree_of(above, guaranteed)
    running = [HeldPlaces(number, queue, {"cpu": size}) for number, (queue, size) in enumerate(first)]
    use, own = counted(tree, running)
    found = beyond_guarantees(use, own, owner, {"cpu": 1}, (), running)
    some = [one for one in found if random.random() < 0.5]
    for one in some:
        assert one.queue != owner
        assert own[one.queue]["cpu"] > tree.branch(one.queue).guaranteed.get("cpu", 0)
        running.remove(one)
        use, own = counted(tree, running)
