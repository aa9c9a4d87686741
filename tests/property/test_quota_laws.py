"""Whatever queues say and whatever order gangs come and go in: no quota is exceeded, and what is kept can be had."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.objects.queues import Queue, Quota
from fluence_extender.queueing.quota import LEVELS, QuotaTree, QuotaUse, grow

NAMES = ("a", "b", "c", "d", "e", "f")
KINDS = ("cpu", "qpu")

amount = st.dictionaries(st.sampled_from(KINDS), st.integers(0, 12), max_size=2)


@st.composite
def trees(draw: st.DrawFn) -> QuotaTree:
    """A tree of queues that may contradict themselves in any way."""
    queues = {}
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        parent = draw(st.sampled_from(("", *NAMES, "missing")))
        queues[name] = Queue(name, parent=parent, quota=Quota(draw(amount), draw(amount), draw(amount)))
    return grow(queues, {kind: draw(st.integers(0, 20)) for kind in KINDS})


def charged(tree: QuotaTree, held: dict[str, dict[str, int]], name: str, kind: str) -> int:
    """What is charged inside a branch, counted anew from its gangs and the branches below."""
    inside = held.get(name, {}).get(kind, 0)
    for child in tree.branch(name).children:
        inside += max(charged(tree, held, child, kind), tree.branch(child).kept.get(kind, 0))
    return inside


@given(trees())
def test_children_are_guaranteed_no_more_than_their_parent(tree: QuotaTree) -> None:
    roots = [name for name, one in tree.branches.items() if len(one.path) == 1]
    for kind in KINDS:
        granted = {name: one.guaranteed.get(kind, 0) for name, one in tree.branches.items()}
        assert sum(granted[name] for name in roots) <= tree.capacity[kind]
        for name, one in tree.branches.items():
            assert sum(granted[child] for child in one.children) <= granted[name]
    for name, one in tree.branches.items():
        assert len(one.path) <= LEVELS
        assert all(name in tree.branch(above).children for above in one.path[1:2])


@given(trees(), st.lists(st.tuples(st.sampled_from((*NAMES, "outside")), amount, st.booleans()), max_size=30))
def test_no_quota_is_exceeded_by_what_was_let_in(
    tree: QuotaTree, asked: list[tuple[str, dict[str, int], bool]]
) -> None:
    use = QuotaUse(tree)
    held: dict[str, dict[str, int]] = {}
    running: list[tuple[str, dict[str, int]]] = []
    for queue, more, ends in asked:
        if ends and running:
            gone, less = running.pop(0)
            use.add(gone, less, -1)
            for kind, less_of in less.items():
                held[gone][kind] -= less_of
        if use.excess(queue, more) is None and use.lacking(queue, more) is None:
            use.add(queue, more)
            running.append((queue, more))
            mine = held.setdefault(queue, {})
            for kind, more_of in more.items():
                mine[kind] = mine.get(kind, 0) + more_of
        roots = {name for name, one in tree.branches.items() if len(one.path) == 1} | {*held, "outside"}
        for kind in KINDS:
            for name, one in tree.branches.items():
                assert charged(tree, held, name, kind) <= one.limit.get(kind, 1000)
                below = [other for other in held if name in tree.branch(other).path]
                assert use.used(name).get(kind, 0) == sum(held[other].get(kind, 0) for other in below)
            total = sum(
                max(charged(tree, held, name, kind), tree.branch(name).kept.get(kind, 0))
                for name in roots
                if len(tree.branch(name).path) == 1
            )
            assert kind not in tree.kept or total <= tree.capacity[kind]


@given(trees(), st.sampled_from(NAMES), st.sampled_from(KINDS))
def test_queue_without_limits_may_use_what_it_keeps(tree: QuotaTree, queue: str, kind: str) -> None:
    branch = tree.branch(queue)
    use = QuotaUse(tree)
    others = [
        name for name in tree.branches if queue not in tree.branch(name).path and name not in branch.path
    ]
    for name in (*others, "outside"):
        while (
            use.excess(name, {kind: 1}) is None
            and not use.lacking(name, {kind: 1})
            and use.used(name).get(kind, 0) < 30
        ):
            use.add(name, {kind: 1})
    if not branch.children and branch.kept.get(kind, 0):
        mine = {kind: branch.kept[kind]}
        assert use.excess(queue, mine) is None
        assert use.lacking(queue, mine) is None
