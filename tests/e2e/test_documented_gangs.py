"""The examples of docs/gangs.md do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fluence_extender.gangs.membership.conventions import CONVENTIONS
from fluence_extender.model.gang import Convention
from tests.e2e.harness import Namespace, documents, node_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.played import played
from tests.e2e.service import Fluence

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
