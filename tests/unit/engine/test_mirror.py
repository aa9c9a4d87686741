"""What is in use in the library's graph is what the accounts say, and only what has changed is sent."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.engine.errors import EngineError
from fluence_extender.engine.mirror import Mirror
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources
from tests.core.values import GIB, node
from tests.unit.engine.oracle_worker import OracleWorker, Use
from tests.unit.engine.rooms import DEVICES, LICENSES, QPU, all_free, graph_of, licenses, qubits, room

NVIDIA, AMD, FPGA = "nvidia.com/gpu", "amd.com/gpu", "example.com/fpga"
LEAF = {"cpu": "core", "memory": "memory", NVIDIA: "gpu", AMD: "gpu", FPGA: "fpga@example.com"}
KINDS = Resources(dict.fromkeys(LEAF, 1))
SIZE = {"cpu": 1000, "memory": GIB}

amounts = st.fixed_dictionaries(
    {
        "cpu": st.integers(-1500, 4500),
        "memory": st.sampled_from([-GIB, 0, 1, GIB - 1, GIB, 3 * GIB + 5, 4 * GIB]),
        NVIDIA: st.integers(-1, 2),
        AMD: st.integers(0, 2),
        FPGA: st.integers(0, 2),
    }
)
offers = amounts.map(lambda offer: Resources({kind: max(amount, 0) for kind, amount in offer.items()}))
clusters = st.lists(offers, min_size=1, max_size=4).map(
    lambda offered: [Node(f"n{number}", allocatable=offer) for number, offer in enumerate(offered)]
)
moments = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["n0", "n1", "n2", "n3", "later"]), amounts.map(Resources)),
        st.lists(st.sampled_from([licenses(1), licenses(2), qubits(1), qubits(4)]), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


def leaves(amounts: Mapping[str, int]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for kind, amount in amounts.items():
        counted[LEAF[kind]] = counted.get(LEAF[kind], 0) + max(amount, 0) // SIZE.get(kind, 1)
    return counted


def expected(nodes: list[Node], free: Mapping[str, Resources], shares: list[DeviceShare]) -> Use:
    use: Use = {}
    for one in nodes:
        offered, left = leaves(one.allocatable), leaves(free.get(one.name, {}))
        used = {kind: offered[kind] - left.get(kind, 0) for kind in offered}
        use[f"/cluster/{one.name}"] = {kind: count for kind, count in used.items() if count > 0}
    for path, most in ((LICENSES, 3), ("/cluster/fez/qubits", 5)):
        taken = sum(share.amount for share in shares if share.path == path)
        use[path] = {"license" if path == LICENSES else "qubit": min(taken, most)} if taken else {}
    return {path: used for path, used in use.items() if used}


def in_use(worker: OracleWorker) -> Use:
    return worker.graph.use(worker.graph.held)


def grown(path: str, before: Use, now: Use) -> bool:
    """Whether no less of anything is in use on a node than before."""
    return all(now.get(path, {}).get(kind, 0) >= amount for kind, amount in before.get(path, {}).items())


@given(clusters, moments)
def test_the_jobs_are_what_the_accounts_say_and_only_differences_are_sent(
    nodes: list[Node], moments: list[tuple[dict[str, Resources], list[DeviceShare]]]
) -> None:
    containment = graph_of(nodes, DEVICES).source().build()
    worker = OracleWorker(containment)
    mirror = Mirror(containment, worker)
    before: Use = {}
    for free, shares in moments:
        table = room(free, KINDS)
        worker.applied.clear()
        mirror.follow(table, shares)
        now = expected(nodes, free, shares)
        assert in_use(worker) == now
        changed = {path for path in before | now if before.get(path) != now.get(path)}
        assert len(worker.applied) == bool(changed)
        for cancelled, held in worker.applied:
            assert cancelled.keys() | held.keys() == changed
            assert not cancelled.keys() & {
                path for path in containment.nodes.values() if grown(path, before, now)
            }
        mirror.follow(table, shares)
        assert len(worker.applied) == bool(changed)
        before = now


def test_uses_are_summed_before_they_are_rounded() -> None:
    nodes = [node("n0", cpu=4000)]
    containment = graph_of(nodes).source().build()
    worker = OracleWorker(containment)
    free = Resources({**nodes[0].allocatable, "cpu": 4000 - 6 * 150})
    Mirror(containment, worker).follow(room({"n0": free}, nodes[0].allocatable), ())
    assert in_use(worker) == {"/cluster/n0": {"core": 1}}


def test_a_device_that_is_refused_is_held_once_it_is_free() -> None:
    nodes = [node("n0")]
    containment = graph_of(nodes, DEVICES).source().build()
    worker = OracleWorker(containment)
    mirror = Mirror(containment, worker)
    table = all_free(nodes)
    mirror.follow(table, [QPU, qubits(2)])
    assert len(worker.graph.held) == 1
    mirror.follow(table, [qubits(2)])
    assert in_use(worker) == {"/cluster/fez/qubits": {"qubit": 2}}
    assert len(worker.graph.held) == 1


def test_a_device_is_known_by_its_place_where_its_node_has_moved_in_the_topology() -> None:
    nodes = [node("n0")]
    containment = graph_of(nodes, DEVICES).source().build()
    worker = OracleWorker(containment)
    elsewhere = DeviceShare("/cluster/zone=a/n0/solver", "license", 2, "solver")
    Mirror(containment, worker).follow(all_free(nodes), [elsewhere])
    assert in_use(worker) == {LICENSES: {"license": 2}}


def test_what_comes_and_goes_costs_no_more_than_itself() -> None:
    nodes = [node("n0", cpu=8000)]
    containment = graph_of(nodes).source().build()
    worker = OracleWorker(containment)
    mirror = Mirror(containment, worker)

    def use(cores: int) -> None:
        mirror.follow(room({"n0": Resources({**nodes[0].allocatable, "cpu": 1000 * (8 - cores)})}, KINDS), ())

    for cores in (5, 7, 8, 7, 5, 3):
        use(cores)
    path = "/cluster/n0"
    assert worker.applied == [
        ({}, {path: {"core": 5}}),
        ({}, {path: {"core": 2}}),
        ({}, {path: {"core": 1}}),
        ({path: {"core": 1}}, {}),
        ({path: {"core": 2}}, {}),
        ({path: {"core": 5}}, {path: {"core": 3}}),
    ]


def test_jobs_are_merged_where_none_has_all_that_goes() -> None:
    nodes = [node("n0", cpu=4000)]
    containment = graph_of(nodes).source().build()
    worker = OracleWorker(containment)
    mirror = Mirror(containment, worker)
    for cores in (1, 2, 3, 4, 1):
        mirror.follow(room({"n0": Resources({**nodes[0].allocatable, "cpu": 1000 * (4 - cores)})}, KINDS), ())
    assert in_use(worker) == {"/cluster/n0": {"core": 1}}
    assert len(worker.graph.held) == 1


def test_ids_of_jobs_are_used_again() -> None:
    nodes = [node("n0", cpu=4000)]
    containment = graph_of(nodes).source().build()
    worker = OracleWorker(containment)
    mirror = Mirror(containment, worker)
    ids: set[int] = set()
    for cores in (1, 2, 1, 3, 0, 4) * 3:
        mirror.follow(room({"n0": Resources({**nodes[0].allocatable, "cpu": 1000 * (4 - cores)})}, KINDS), ())
        ids |= worker.graph.held.keys()
    assert len(ids) <= 3


def test_a_question_brings_the_nodes_up_to_date_on_which_a_pod_fits() -> None:
    nodes = [node(f"n{number}", cpu=4000) for number in range(4)]
    containment = graph_of(nodes).source().build()
    worker = OracleWorker(containment)
    mirror = Mirror(containment, worker)
    free = {"n0": 3000, "n1": 1000, "n2": 3000, "n3": 3000}
    table = room(
        {one.name: Resources({**one.allocatable, "cpu": free[one.name]}) for one in nodes},
        nodes[0].allocatable,
    )
    asked = ("n0", "n1", "n2")
    assert mirror.choose(Resources({"cpu": 2000}), 2, asked, table, ()) == {"n0": 1, "n2": 1}
    assert in_use(worker) == {"/cluster/n0": {"core": 1}, "/cluster/n2": {"core": 1}}
    mirror.follow(table, ())
    assert in_use(worker) == {
        "/cluster/n0": {"core": 1},
        "/cluster/n1": {"core": 3},
        "/cluster/n2": {"core": 1},
        "/cluster/n3": {"core": 1},
    }


def test_what_cannot_fit_is_not_asked() -> None:
    nodes = [node("n0", cpu=4000)]
    containment = graph_of(nodes).source().build()
    worker = OracleWorker(containment)
    worker.fails = EngineError("nobody may ask")
    mirror = Mirror(containment, worker)
    table = all_free(nodes)
    assert mirror.choose(Resources({"cpu": 1000}), 5, ("n0",), table, ()) is None
    assert mirror.choose(Resources({"cpu": 1000, FPGA: 1}), 1, ("n0",), table, ()) is None
    assert mirror.choose(Resources({"pods": 1}), 1, ("n0",), table, ()) is None
