"""Gangs in racks: nodes with labels, the annotations of three systems, and the ranks of a Job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    TOPOLOGY_PREFERRED_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
)
from fluence_extender.placement.topology_constraints import PODSET_REQUIRED
from tests.e2e.harness import Manifest, Namespace, documents, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.test_gangs import condition
from tests.e2e.workloads import deployment, gang, grouped, indexed_job, ours, pod_group

RACK = "example.com/rack"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "10-topology.yaml"


@pytest.fixture(scope="module")
def levels(installation: Installation) -> Iterator[None]:
    """The service with racks as a level."""
    with installation.other("--level", "zone=topology.kubernetes.io/zone", "--level", f"rack={RACK}"):
        yield


@pytest.fixture
def racks(levels: None, fluence: Fluence, own_nodes: NodeFactory) -> dict[str, str]:
    """Racks a, b, c of three, two and one nodes of two cores, made in turn so that names don't tell; node -> rack."""
    order = ("a", "b", "c", "a", "b", "a")
    return {
        own_nodes(1, prefix=f"n{number}", cpu="2", labels={RACK: rack})[0]: rack
        for number, rack in enumerate(order)
    }


def used(pods: list[Manifest], racks: dict[str, str]) -> list[str]:
    return [racks[node_of(one)] for one in pods]


@pytest.mark.parametrize("key", [TOPOLOGY_REQUIRED_ANNOTATION, PODSET_REQUIRED])
def test_required_rack_is_the_smallest_that_holds_the_gang(
    key: str, racks: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    level = "rack" if key == TOPOLOGY_REQUIRED_ANNOTATION else RACK
    namespace.create(*gang("four", 4, cpu="1", annotations={key: level}))
    assert set(used(namespace.wait_until_bound(4), racks)) == {"b"}
    namespace.create(*gang("two", 2, cpu="1", annotations={key: level}))
    namespace.wait_until_bound(6)
    bound = [one for one in namespace.wait_until_bound(6) if one["metadata"]["name"].startswith("two")]
    assert set(used(bound, racks)) == {"c"}


def test_gang_that_no_rack_holds_says_so(
    racks: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    namespace.create(*gang("large", 7, cpu="1", annotations={TOPOLOGY_REQUIRED_ANNOTATION: "rack"}))
    fluence.wait_for_reason(
        namespace.name,
        "large",
        "unsatisfiable: no rack holds 7 x 1 cpu (the largest holds 6, short of cpu)",
    )
    namespace.create(*gang("wide", 7, cpu="1", annotations={TOPOLOGY_PREFERRED_ANNOTATION: "rack"}))
    bound = [one for one in namespace.wait_until_bound(7) if node_of(one)]
    assert len(set(used(bound, racks))) == 2


def test_ranks_of_a_job_follow_the_racks(
    racks: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    namespace.create(indexed_job("ranks", ours("ranks", cpu="1"), 12))
    pods = namespace.wait_until_bound(12)
    pods.sort(key=lambda one: int(one["metadata"]["annotations"][COMPLETION_INDEX]))
    where = used(pods, racks)
    assert where == sorted(where)
    assert sorted(set(where)) == ["a", "b", "c"]


def test_lost_member_is_replaced_in_the_rack_of_the_others(
    racks: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    template = ours("ranks", cpu="1", annotations={TOPOLOGY_REQUIRED_ANNOTATION: "rack"})
    namespace.create(indexed_job("ranks", template, 3))
    (rack,) = set(used(namespace.wait_until_bound(3), racks))
    lost = namespace.wait_until_bound(3)[0]
    path = f"/api/v1/namespaces/{namespace.name}/pods/{lost['metadata']['name']}"
    namespace.api.delete(path)

    def replaced(pods: list[Manifest]) -> bool:
        uids = {one["metadata"]["uid"] for one in pods}
        return lost["metadata"]["uid"] not in uids and len(pods) == 3 and all(node_of(one) for one in pods)

    pods = namespace.wait_for_pods(lambda some: replaced(list(some)), "the lost member to be replaced")
    assert set(used(list(pods), racks)) == {rack}


def test_pod_group_with_a_topology_of_its_own_shares_a_rack(
    racks: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    namespace.create(
        pod_group("four", 4, RACK),
        deployment("four", grouped(ours("x", cpu="1"), "four"), 4),
    )
    assert set(used(namespace.wait_until_bound(4), racks)) == {"b"}
    namespace.create(
        pod_group("seven", 7, RACK),
        deployment("seven", grouped(ours("x", cpu="1"), "seven"), 7),
    )
    why = "unsatisfiable: no rack holds 7 x 1 cpu (the largest holds 6, short of cpu)"
    fluence.wait_for_reason(namespace.name, "seven", why)
    wait_for(
        lambda: condition(namespace, "seven").get("message") == why,
        what="the PodGroup to say why it waits",
        seen=lambda: condition(namespace, "seven"),
    )


def test_the_example_puts_its_job_on_one_host(
    racks: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    namespace.create(*documents(EXAMPLE))
    pods = namespace.wait_until_bound(4)
    assert len({node_of(one) for one in pods}) == 1
