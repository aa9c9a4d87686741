"""The graph and the jobspecs together, matched by an engine."""

import pytest

from fluence_extender.engine.jobspec import Jobspec, compute_jobspec, jobspecs_for
from fluence_extender.graph.catalogue import device_catalogue, eligible
from fluence_extender.graph.jgf import unit_jgf
from tests.oracle import Busy, Matcher, MatcherOptions, MatchOp, Unsatisfiable, create
from tests.unit.graph.clusters import QUANTUM, RACK, TOPOLOGY, ZONE, cluster, node

# A root without totals would be an error, but a vertex of type cluster always tracks its leaf types.
PRUNE_FILTERS = ["ALL:core", "ALL:core,ALL:node", "ALL:qubit", "ALL:core,ALL:node,ALL:qubit,ALL:memory", ""]
POLICIES = ["first", "lonode", "hinode", "low", "high"]

NODES = [node("n1", labels={ZONE: "z1", RACK: "r1"}), node("n2", labels={ZONE: "z1"}), node("n3")]
GRAPH = cluster(NODES, QUANTUM, levels=TOPOLOGY)
CATALOGUE = device_catalogue(GRAPH)


def engine(policy: str = "lonode", prune_filters: str = "ALL:core,ALL:node") -> Matcher:
    options = MatcherOptions(policy=policy, prune_filters=prune_filters)
    return create("oracle", unit_jgf(GRAPH), options)


def devices(kind: str, count: int = 1, **requires: str) -> Jobspec:
    (jobspec,) = jobspecs_for(eligible(CATALOGUE, kind, requires), count)
    return jobspec


def granted(matcher: Matcher, jobspec: Jobspec) -> tuple[int, list[str]]:
    """Return the job's id and the paths that it holds exclusively."""
    match = matcher.match(MatchOp.ALLOCATE, jobspec)
    assert isinstance(match.R, dict)
    held = [entry["metadata"] for entry in match.R["graph"]["nodes"] if entry["metadata"].get("exclusive")]
    return match.jobid, [vertex["paths"]["containment"] for vertex in held]


@pytest.mark.parametrize("prune_filters", PRUNE_FILTERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_one_of_156_qubits_is_granted_and_then_another(policy: str, prune_filters: str) -> None:
    matcher = engine(policy, prune_filters)
    request = devices("qubit", vendor="ibm", backend="ibm_fez")
    (first,), (second,) = (granted(matcher, request)[1] for _ in range(2))
    assert first != second
    assert all(path.startswith("/cluster/ibm_fez/qpu") for path in (first, second))


def test_single_qubits_fill_one_device_before_the_next() -> None:
    matcher = engine("lonode")
    request = devices("qubit", vendor="ibm")
    paths = [granted(matcher, request)[1][0] for _ in range(312)]
    assert len(set(paths)) == 312
    assert [path.split("/")[3] for path in paths] == ["qpu0"] * 156 + ["qpu1"] * 156
    with pytest.raises(Busy):
        matcher.match(MatchOp.ALLOCATE, request)


@pytest.mark.parametrize("prune_filters", PRUNE_FILTERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_whole_device_and_its_qubits_exclude_each_other(policy: str, prune_filters: str) -> None:
    matcher = engine(policy, prune_filters)
    qubit, _ = granted(matcher, devices("qubit", 3, vendor="rigetti"))
    for kind in ("qpu", "qdevice"):
        with pytest.raises(Busy):
            matcher.match(MatchOp.ALLOCATE, devices(kind, vendor="rigetti"))
    matcher.cancel(qubit)
    whole, held = granted(matcher, devices("qpu", vendor="rigetti"))
    assert held[-1] == "/cluster/rigetti_ankaa/ankaa"
    for kind in ("qubit", "qdevice"):
        with pytest.raises(Busy):
            matcher.match(MatchOp.ALLOCATE, devices(kind, vendor="rigetti"))
    matcher.cancel(whole)
    assert granted(matcher, devices("qdevice", vendor="rigetti"))[1][-1] == "/cluster/rigetti_ankaa"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_count_of_two_with_children_is_two_devices(policy: str) -> None:
    matcher = engine(policy)
    request = devices("qpu", vendor="ibm")
    taken = {granted(matcher, request)[1][-1] for _ in range(2)}
    assert taken == {"/cluster/ibm_fez/qpu0", "/cluster/ibm_fez/qpu1"}
    with pytest.raises(Busy):
        matcher.match(MatchOp.ALLOCATE, request)


def test_two_devices_at_once_belong_to_one_backend() -> None:
    _, held = granted(engine(), devices("qpu", 2))
    assert [path for path in held if path.count("/") == 3] == [
        "/cluster/ibm_fez/qpu0",
        "/cluster/ibm_fez/qpu1",
    ]


def test_more_qubits_than_any_pool_has_can_never_be_granted() -> None:
    with pytest.raises(Unsatisfiable):
        engine().match(MatchOp.ALLOCATE_WITH_SATISFIABILITY, devices("qubit", 157))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_requirement_is_met_by_the_backend_that_has_it(policy: str) -> None:
    _, held = granted(engine(policy), devices("simulator", 4, vendor="aws"))
    assert held == [f"/cluster/sv1/simulator{index}" for index in range(4)]


@pytest.mark.parametrize("policy", POLICIES)
def test_compute_never_lands_on_a_device_nor_a_device_on_compute(policy: str) -> None:
    matcher = engine(policy)
    match = matcher.match(MatchOp.ALLOCATE, compute_jobspec({"core": 2, "memory": 1}, slots=3))
    nodes = {path for path, amounts in match.placement.items() if amounts}
    assert nodes == set(GRAPH.nodes.values())
    with pytest.raises(Busy):
        matcher.match(MatchOp.ALLOCATE, compute_jobspec({"core": 1}, slots=1))
    assert granted(matcher, devices("qubit", 156))[1]


def test_ranks_decide_where_compute_lands() -> None:
    third = GRAPH.vertex(GRAPH.nodes["n3"]).rank
    match = engine().match(MatchOp.ALLOCATE, compute_jobspec({"core": 1}, 1, [third]))
    assert match.placement["/cluster/n3"] == {"core": 1}


@pytest.mark.parametrize("policy", POLICIES)
def test_devices_below_a_physical_node_are_found_there(policy: str) -> None:
    text = "resources: [{type: qpu, name: q, count: 2, parent: n1, with: [{type: qubit, count: 5}]}]"
    graph = cluster(NODES, text, levels=TOPOLOGY)
    matcher = create("oracle", unit_jgf(graph), MatcherOptions(policy=policy))
    catalogue = device_catalogue(graph)
    (qpu,) = jobspecs_for(eligible(catalogue, "qpu", {}), 1)
    (qubits,) = jobspecs_for(eligible(catalogue, "qubit", {}), 5)
    first = granted(matcher, qpu)[1][-1]
    second = {path.rpartition("/")[0].rpartition("/")[0] for path in granted(matcher, qubits)[1]}
    assert {first, *second} == {f"{graph.nodes['n1']}/q0", f"{graph.nodes['n1']}/q1"}
    compute = matcher.match(MatchOp.ALLOCATE, compute_jobspec({"core": 2}, 3))
    assert compute.placement[graph.nodes["n1"]]["core"] == 2
