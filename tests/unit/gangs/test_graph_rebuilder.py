"""A graph that can't change in place is rebuilt beside the loop, and everything goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.graph_rebuilder import GraphRebuilder
from fluence_extender.gangs.execution.threads import run_in_thread
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.units import COARSE
from fluence_extender.http.scheduler.port import Nowhere, On
from fluence_extender.ledger.accounts import Strength
from fluence_extender.ledger.graph_matcher import MatcherSetup
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.ledger.synced_graph import Rebuild
from fluence_extender.matcher import InvalidGraph, Jgf, Matcher, MatcherOptions, create_matcher
from fluence_extender.matcher.errors import EngineLost, MatcherError
from fluence_extender.model.resources import Resources
from tests.core.engine import FINE_EMBEDDED, REBUILT_EMBEDDED, CoreEngine
from tests.core.invariants import check
from tests.core.values import asks, node, pod
from tests.core.world import World

POOL = "resources: [{type: simulator, name: sv1, count: 2}]"


@pytest.fixture
def w() -> Iterator[World]:
    world = World(node("n0"), ResourcesFile("test", POOL), engine=REBUILT_EMBEDDED, direct=False)
    yield world
    world.close()


def behind(world: World) -> bool:
    """Whether the graph doesn't have yet what was seen of the cluster."""
    return world.ledger.graph.behind


def test_gang_for_a_new_node_waits_for_the_rebuild_with_one_reason(w: World) -> None:
    w.beside_takes = 3.0
    w.cluster.put(node("n1", 8000))
    big = w.pod("big", requests=asks(8000))
    w.advance(2)
    first = w.placements.locate(w.asked(big))
    w.advance(1)
    assert isinstance(first, Nowhere)
    assert w.placements.locate(w.asked(big)) == first
    w.advance(10)
    assert w.nodes_of(big) == ["n1"]


def test_meanwhile_others_are_placed_bound_and_released(w: World) -> None:
    w.beside_takes = 30.0
    w.cluster.put(node("n1"))
    one = w.pod("one", requests=asks(4000))
    w.advance(3)
    assert w.nodes_of(one) == ["n0"]
    w.change(one, phase="Succeeded")
    two = w.pod("two", requests=asks(4000))
    w.advance(5)
    assert w.nodes_of(two) == ["n0"]
    assert behind(w)
    check(w)
    w.advance(60)
    assert not behind(w)
    check(w)


def test_node_that_has_gone_is_not_used_before_the_rebuild(w: World) -> None:
    w.cluster.put(node("n1"))
    w.advance(5)
    w.beside_takes = 30.0
    w.cluster.remove(node("n0"))
    one = w.pod("one", requests=asks(1000))
    assert w.ledger.graph.behind
    w.advance(5)
    assert w.nodes_of(one) == ["n1"]


def test_node_that_shrinks_gives_no_more_than_it_has_before_the_rebuild(w: World) -> None:
    w.beside_takes = 30.0
    w.change(node("n0"), allocatable=node("n0", 2000).allocatable)
    pods = [w.pod(f"p{number}", requests=asks(1000)) for number in range(3)]
    w.advance(6)
    assert sorted(w.nodes_of(*pods)) == ["", "n0", "n0"]
    assert w.ledger.graph.behind


@pytest.mark.parametrize("engine", [FINE_EMBEDDED, REBUILT_EMBEDDED], ids=["in place", "rebuilt"])
def test_what_is_shown_does_not_lag_while_larger_units_are_brought_in(engine: CoreEngine) -> None:
    world = World(node("n0"), node("n1"), engine=engine)
    try:
        world.beside_takes = 5.0
        world.cluster.put(node("n2", gib=6 * 1024))
        world.advance(0.011)
        assert behind(world)
        assert set(world.ledger.graph.shown.nodes) == {"n0", "n1", "n2"}
        world.cluster.remove(node("n1"))
        world.advance(0.011)
        check(world)
        assert set(world.ledger.graph.shown.nodes) == {"n0", "n2"}
        world.advance(20)
        world.cluster.put(node("n3"))
        world.advance(20)
        check(world)
        assert not behind(world)
        assert set(world.ledger.graph.shown.nodes) == {"n0", "n2", "n3"}
    finally:
        world.close()


def test_storm_of_changes_is_few_rebuilds(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    begin = w.ledger.graph.begin_rebuild

    def counted() -> Rebuild:
        loaded.append(1)
        return begin()

    monkeypatch.setattr(w.ledger.graph, "begin_rebuild", counted)
    w.beside_takes = 1.0
    for number in range(200):
        w.cluster.put(node(f"m{number}"))
        w.advance(0.005)
    w.advance(10)
    assert 1 <= len(loaded) <= 3
    assert len(w.ledger.graph.matched.nodes) == 201


def test_what_changes_during_a_rebuild_is_in_the_next(w: World) -> None:
    w.beside_takes = 2.0
    w.cluster.put(node("n1"))
    w.advance(1)
    w.cluster.put(node("n2"))
    w.cluster.remove(node("n1"))
    w.advance(1.5)
    assert set(w.ledger.graph.matched.nodes) == {"n0", "n1"}
    assert w.ledger.in_order({"n0", "n1", "n2"}) == ("n0", "n1")
    w.advance(5)
    assert set(w.ledger.graph.matched.nodes) == {"n0", "n2"}


def test_devices_that_are_taken_out_are_not_given_while_the_graph_lags(w: World) -> None:
    w.beside_takes = 30.0
    w.cluster.put(ResourcesFile("test", "resources: [{type: simulator, name: sv2, count: 2}]"))
    one = w.pod("one", requests=asks(100), devices={"simulator": 1})
    w.advance(5)
    assert w.nodes_of(one) == [""]
    w.advance(60)
    assert w.nodes_of(one) == ["n0"]
    assert w.ledger.allocations[one.uid].assignment.backend == "sv2"


class Factory:
    """Makes matchers, and notes in which thread."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.broken = False
        self.made: list[Matcher] = []

    def __call__(self, document: Jgf) -> Matcher:
        self.threads.append(threading.current_thread())
        if self.broken:
            raise InvalidGraph("no such graph")
        options = MatcherOptions("lonode", "ALL:core,ALL:memory,ALL:gpu")
        self.made.append(create_matcher("embedded", document, options))
        return self.made[-1]


async def until(condition: Callable[[], bool]) -> None:
    """Wait, however long it takes."""
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def test_nothing_is_loaded_on_the_thread_of_the_loop() -> None:
    factory = Factory()
    ledger = Ledger(MatcherSetup(factory, COARSE, incremental=False))
    controller = Controller(ledger)
    await run_in_thread(controller.start)
    rebuilder = asyncio.create_task(GraphRebuilder(controller, lambda *_: None, lambda: None).run())
    for number in range(50):
        ledger.put_node(node(f"n{number}"))
    assert ledger.graph.behind
    await until(lambda: not ledger.graph.behind)
    ledger.drop_node("n0")
    await until(lambda: not ledger.graph.behind)
    rebuilder.cancel()
    assert len(factory.threads) >= 2
    assert threading.current_thread() not in factory.threads
    ledger.close()


async def test_resources_of_which_no_graph_can_be_built_are_refused_and_the_rest_goes_on() -> None:
    factory = Factory()
    ledger = Ledger(MatcherSetup(factory, COARSE, incremental=False))
    controller = Controller(ledger)
    controller.start()
    ledger.load([node("n0")])
    refused: list[str] = []
    rebuilder = GraphRebuilder(
        controller, lambda resources, why: refused.append(f"{resources.types}: {why}"), print
    )
    running = asyncio.create_task(rebuilder.run())
    factory.broken = True
    controller.replace_resources(parse_resources(POOL))
    await until(lambda: bool(refused))
    assert refused == ["('simulator',): no such graph"]
    assert ledger.match_equal(asks(1000), 1, ["n0"]) == {"n0": 1}
    running.cancel()
    ledger.close()


def test_engine_that_ends_by_itself_is_made_anew_with_all_that_is_held(w: World) -> None:
    one = w.pod("one", requests=asks(3000))
    w.advance(3)
    engine = w.ledger.bookings.matcher._matcher
    assert engine is not None

    def lost(*_: object) -> None:
        raise EngineLost("killed")

    engine.match = lost  # type: ignore[method-assign, assignment]
    two = w.pod("two", requests=asks(1000))
    w.advance(10)
    assert w.nodes_of(one, two) == ["n0", "n0"]
    check(w)


def test_holds_that_come_and_go_during_a_rebuild_are_in_the_new_graph() -> None:
    ledger = REBUILT_EMBEDDED.ledger()
    ledger.load([node("n0"), node("n1")])
    kept, gone = pod("kept", 1000, node="n0"), pod("gone", 4000, node="n1")
    for one in (kept, gone):
        ledger.adopt(one, "g", Strength.BOUND)
    ledger.put_node(node("n2"))
    rebuild = ledger.graph.begin_rebuild()
    rebuild.run()
    ledger.release(gone.uid)
    late = pod("late", 2000, node="n0")
    ledger.adopt(late, "g", Strength.BOUND)
    ledger.put_foreign(replace(pod("other", 1000, node="n2"), scheduler="default-scheduler"))
    assert not ledger.graph.finish_rebuild(rebuild, most=1)
    assert ledger.graph.finish_rebuild(rebuild)
    free = {name: _free(ledger, name) for name in ("n0", "n1", "n2")}
    assert free == {"n0": 1, "n1": 4, "n2": 3}


def _free(ledger: Ledger, name: str) -> int:
    for cores in range(4, 0, -1):
        try:
            ledger.match_equal(Resources({"cpu": cores * 1000}), 1, [name])
        except MatcherError:
            continue
        return cores
    return 0


def test_pod_placed_while_the_graph_lags_is_where_the_filter_says(w: World) -> None:
    w.beside_takes = 30.0
    w.cluster.put(node("n1"))
    one = w.pod("one", requests=asks(1000))
    w.advance(3)
    assert w.placements.locate(w.asked(one)) == On("n0")
