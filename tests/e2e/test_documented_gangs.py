"""The examples of docs/gangs.md and of examples/workloads do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fluence_extender.kinds.registry import CONVENTIONS
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import ZONE
from tests.e2e.harness import RUN_FOR, Namespace, documents, node_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.played import played
from tests.e2e.service import Fluence

WORKLOADS = Path(__file__).parents[2] / "examples" / "workloads"
TEXT = (Path(__file__).parents[2] / "docs" / "gangs.md").read_text()
EXAMPLES = dict(re.findall(r"^### ([^\n]+)\n\n```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
SIZES = {
    "podgroup": {2},
    "coscheduling": {2},
    "coscheduling, as flux-k8s labels it": {3},
    "coscheduling, as flux-k8s labels what isn't a Job": {3},
    "group": {2},
    "kueue": {2},
    "leaderworkerset": {3},
    "raycluster": {3},
    "mpijob": {2},
    "jobset": {5},
    "owner": {3},
    "job": {3},
}
PODS = {"leaderworkerset": 6, "mpijob": 3}


def test_every_convention_stands_in_the_table_in_its_order_and_has_an_example() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert rows == [*CONVENTIONS, Convention.ALONE]
    assert set(CONVENTIONS) <= {name.partition(",")[0] for name in EXAMPLES}
    assert list(EXAMPLES) == list(SIZES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_a_gang_and_runs(
    name: str, operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="16", labels={"topology.kubernetes.io/zone": "a"})
    for document in documents(EXAMPLES[name]):
        namespace.create(document, *played(document))
    (size,) = SIZES[name]
    pods = namespace.wait_until_bound(PODS.get(name, size))
    assert all(node_of(one) for one in pods)
    gangs = fluence.gangs(namespace.name)
    assert {one["convention"] for one in gangs} == {name.partition(",")[0]}
    assert {one["size"] for one in gangs} == SIZES[name]


@pytest.mark.parametrize(
    ("example", "gangs", "pods"),
    [
        ("01-mpi", {"mpi": 4}, 5),
        ("02-pytorch", {"torch": 4}, 4),
        ("03-ray", {"ray": 4}, 4),
        ("04-leaderworkerset", {"serve-0": 3, "serve-1": 3}, 6),
        ("05-minicluster", {"flux": 3}, 3),
        ("07-array", None, 6),
    ],
)
def test_example_of_a_workload_runs_in_the_gangs_it_says(
    example: str,
    gangs: dict[str, int] | None,
    pods: int,
    operators: None,
    fluence: Fluence,
    namespace: Namespace,
    nodes: NodeFactory,
) -> None:
    nodes(1, cpu="16", memory="64Gi", labels={ZONE: "a"})
    for document in documents(WORKLOADS / f"{example}.yaml"):
        namespace.create(document, *played(document))
    namespace.wait_until_bound(pods)
    # The name of a LeaderWorkerSet's gang ends with its revision.
    found = {one["name"].partition("/")[0]: one["size"] for one in fluence.gangs(namespace.name)}
    if gangs is None:
        assert list(found.values()) == [1] * pods
    else:
        assert found == gangs


def test_evaluation_of_a_quantum_job_waits_for_it(
    operators: None, fluence: Fluence, namespace: Namespace, nodes: NodeFactory
) -> None:
    nodes(1, cpu="16", labels={ZONE: "a"})
    sample, evaluate = documents(WORKLOADS / "06-qpu-and-postprocessing.yaml")
    namespace.create(evaluate)

    def reason() -> str:
        return "".join(one["why"] for one in fluence.gangs(namespace.name) if one["name"] == "evaluate")

    wait_for(lambda: reason() == "WaitsFor", what="evaluate to wait for sample")
    # This cluster has no qpu; what counts here is that the first Job ends well.
    for container in sample["spec"]["template"]["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": "200m"}}
    sample["spec"]["template"]["metadata"]["annotations"][RUN_FOR] = "1s"
    namespace.create(sample)
    namespace.wait_until_bound(5)
