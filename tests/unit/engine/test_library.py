"""The library chooses nodes for equal pods, and its graph follows the cluster without stopping anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.engine.errors import EngineError, EngineLost
from fluence_extender.engine.library import RETRY, Library
from fluence_extender.engine.worker import Worker
from fluence_extender.graph.containment import Containment
from fluence_extender.graph.current import CurrentGraph
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from fluence_extender.placement.chooser import FirstFit
from fluence_extender.room.capacity import CapacityTable
from tests.core.values import GIB, node
from tests.unit.engine.oracle_worker import OracleWorker
from tests.unit.engine.rooms import DEVICES, all_free, graph_of, licenses, room

ONE_CORE = Resources({"cpu": 1000})


class Starts:
    """Starts workers one after the other; ``gate`` lets a load end, ``fails`` is what the next ones raise."""

    def __init__(self) -> None:
        self.workers: list[OracleWorker] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails: EngineError | None = None
        self.begun = 0

    def __call__(self, containment: Containment) -> Worker:
        self.begun += 1
        assert self.gate.wait(10)
        if self.fails is not None:
            raise self.fails
        self.workers.append(OracleWorker(containment))
        return self.workers[-1]


class World:
    """Some nodes, all free, and the library on their graph."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {one.name: one for one in nodes}
        self.graph = CurrentGraph(self.nodes, {})
        self.starts = Starts()
        self.shares: list[DeviceShare] = []
        self.now = 0.0
        self.library = Library(self.graph, lambda: self.shares, self.starts, lambda: self.now)
        self.library.load(self.table).result()

    @property
    def table(self) -> CapacityTable:
        return all_free(self.nodes.values())

    def join(self, joining: Node) -> None:
        self.nodes[joining.name] = joining
        self.graph.node_changed(None, joining)

    def choose(self, count: int, requests: Resources = ONE_CORE) -> dict[str, int] | None:
        return self.library.choose(requests, count, tuple(self.nodes), self.table)

    def until(self, holds: Callable[[], bool]) -> None:
        """Ask until the library is in the expected state."""
        deadline = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < deadline
            self.choose(1)
            time.sleep(0.005)


def cluster_and_question() -> st.SearchStrategy[Any]:
    sizes = st.lists(st.integers(0, 4), min_size=1, max_size=5)
    return sizes.flatmap(
        lambda cores: st.tuples(
            st.just(cores),
            st.lists(st.integers(0, 4), min_size=len(cores), max_size=len(cores)),
            st.sets(st.sampled_from(range(len(cores)))),
            st.integers(1, 2),
            st.integers(1, 6),
        )
    )


@pytest.mark.parametrize("policy", ["lonode", "hinode"])
@given(question=cluster_and_question())
def test_the_library_finds_what_first_fit_finds_among_the_nodes_that_were_asked_for(
    policy: str, question: Any
) -> None:
    cores, used, asked, size, count = question
    nodes = [node(f"n{number}", cpu=1000 * offered) for number, offered in enumerate(cores)]
    table = room(
        {
            one.name: Resources({**one.allocatable, "cpu": 1000 * (offered - taken)})
            for one, offered, taken in zip(nodes, cores, used, strict=True)
        },
        Resources({"cpu": 1, "memory": 1, "pods": 1}),
    )
    library = Library(graph_of(nodes), tuple, partial(OracleWorker, policy=policy))
    library.load(table).result()
    names = tuple(f"n{number}" for number in sorted(asked, reverse=policy == "hinode"))
    requests = Resources({"cpu": 1000 * size})
    chosen = library.choose(requests, count, names, table)
    assert chosen == FirstFit().choose(requests, count, names, table)
    slots = {f"n{at}": max(cores[at] - used[at], 0) // size for at in asked}
    if sum(slots.values()) < count:
        assert chosen is None
    else:
        assert chosen is not None
        assert sum(chosen.values()) == count
        assert all(0 < pods <= slots[name] for name, pods in chosen.items())


def test_a_question_leaves_nothing_held() -> None:
    world = World(node("n0"))
    for _ in range(3):
        assert world.choose(4) == {"n0": 4}
    assert world.starts.workers[0].applied == []


def test_what_takes_no_leaf_is_not_asked() -> None:
    world = World(node("n0"))
    assert world.choose(1, Resources({"pods": 1})) is None
    assert world.library.choose(ONE_CORE, 1, (), world.table) is None
    assert world.library.choose(ONE_CORE, 1, ("elsewhere",), world.table) is None


def test_a_place_without_exact_room_is_not_used() -> None:
    assert World(node("n0", pods=2)).choose(3, Resources({"cpu": 1000, "pods": 1})) is None


def test_half_cores_count_as_whole_ones_in_the_library_alone() -> None:
    world = World(node("n0", cpu=2000))
    assert world.choose(2, Resources({"cpu": 500})) == {"n0": 2}
    assert world.choose(3, Resources({"cpu": 500})) is None


def test_memory_is_counted_where_no_cpu_is_requested() -> None:
    world = World(node("n0", gib=4), node("n1", gib=4))
    assert world.choose(3, Resources({"memory": 2 * GIB})) == {"n0": 2, "n1": 1}


def test_devices_in_use_are_held_in_the_library() -> None:
    world = World(node("n0"))
    world.graph.declare(DEVICES)
    world.shares = [licenses(2)]
    world.until(lambda: len(world.starts.workers) == 2 and world.starts.workers[0].closed)
    (held,) = world.starts.workers[1].graph.held.values()
    assert held["/cluster/n0/solver"] == {"license": 2}


def test_a_changed_graph_is_loaded_while_the_old_one_answers() -> None:
    world = World(node("n0"))
    world.starts.gate.clear()
    world.join(node("n1"))
    for _ in range(3):
        assert world.choose(4) == {"n0": 4}
        assert world.choose(5) is None
    assert world.starts.begun == 2
    world.starts.gate.set()
    world.until(lambda: world.starts.workers[0].closed)
    assert world.choose(5) == {"n0": 4, "n1": 1}
    assert world.starts.begun == 2


def test_a_graph_that_changes_during_a_load_is_loaded_afterwards() -> None:
    world = World(node("n0"))
    world.starts.gate.clear()
    world.join(node("n1"))
    world.choose(1)
    world.join(node("n2"))
    world.choose(1)
    world.starts.gate.set()
    world.until(lambda: world.choose(12) is not None)
    assert world.starts.begun == 3
    assert [worker.closed for worker in world.starts.workers] == [True, True, False]


def test_a_node_that_has_left_is_not_used_and_one_that_has_shrunk_gives_what_it_has_left() -> None:
    world = World(node("n0"), node("n1"))
    world.starts.gate.clear()
    gone, shrunk = world.nodes.pop("n0"), node("n1", cpu=1000)
    world.graph.node_changed(gone, None)
    world.graph.node_changed(world.nodes["n1"], shrunk)
    world.nodes["n1"] = shrunk
    assert world.choose(2) is None
    assert world.choose(1) == {"n1": 1}
    world.starts.gate.set()


def test_a_load_that_fails_is_told_and_tried_again_later_or_when_the_graph_changes() -> None:
    world = World(node("n0"))
    world.now = 100.0
    world.starts.fails = EngineError("too many vertices")
    world.join(node("n1"))
    world.until(lambda: world.library.fault == "too many vertices")
    world.now += RETRY - 1
    assert world.choose(1) == {"n0": 1}
    assert world.starts.begun == 2
    world.join(node("n2"))
    world.until(lambda: world.starts.begun == 3)
    world.until(lambda: world.library._loading is None)
    world.starts.fails = None
    world.now += RETRY
    world.until(lambda: not world.library.fault)
    assert world.starts.begun == 4
    assert world.choose(12) == {"n0": 4, "n1": 4, "n2": 4}


def test_a_worker_that_is_lost_is_replaced_at_once_and_one_that_is_lost_again_after_a_while() -> None:
    world = World(node("n0"))
    world.now = 100.0
    world.starts.workers[0].fails = EngineLost("has ended")
    assert world.choose(1) is None
    assert world.library.fault == "has ended"
    assert world.starts.workers[0].closed
    world.until(lambda: not world.library.fault)
    assert world.choose(1) == {"n0": 1}
    world.starts.workers[1].fails = EngineLost("has ended")
    for _ in range(3):
        assert world.choose(1) is None
    assert world.starts.begun == 2
    world.now += RETRY
    world.until(lambda: not world.library.fault)
    assert world.choose(1) == {"n0": 1}


def test_a_refused_question_has_no_answer_and_changes_nothing() -> None:
    world = World(node("n0"))
    world.starts.workers[0].fails = EngineError("no such type")
    assert world.choose(1) is None
    world.starts.workers[0].fails = None
    assert world.choose(1) == {"n0": 1}
    assert world.starts.begun == 1


def test_a_cluster_without_nodes_loads_nothing() -> None:
    world = World()
    assert world.choose(1) is None
    assert world.starts.begun == 0
    world.join(node("n0"))
    world.until(lambda: world.choose(1) == {"n0": 1})


def test_a_first_load_that_fails_is_raised_and_tried_again() -> None:
    starts = Starts()
    starts.fails = EngineError("too many vertices")
    nodes = [node("n0")]
    library = Library(graph_of(nodes), tuple, starts, iter(range(0, 10_000, 40)).__next__)
    with pytest.raises(EngineError, match="too many vertices"):
        library.load(all_free(nodes)).result()
    starts.fails = None
    ask = partial(library.choose, ONE_CORE, 1, ("n0",), all_free(nodes))
    assert ask() is None
    assert library.fault == "too many vertices"
    deadline = time.monotonic() + 10
    while ask() != {"n0": 1}:
        assert time.monotonic() < deadline
    assert not library.fault


def test_close_ends_the_worker_in_use_and_the_one_that_is_being_loaded() -> None:
    world = World(node("n0"))
    world.starts.gate.clear()
    world.join(node("n1"))
    world.choose(1)
    loading = world.library._loading
    world.library.close()
    world.starts.gate.set()
    assert loading is not None
    loading.exception(10)
    assert [worker.closed for worker in world.starts.workers] == [True, True]
