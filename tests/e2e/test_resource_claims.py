"""Gangs whose pods claim devices, allocated by kube-scheduler's own plugin for dynamic resource allocation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.claimed import (
    MODEL,
    NUMA,
    allocated,
    claiming,
    device_class,
    given_twice,
    refusals,
    request,
    resource_slice,
    served,
    template,
)
from tests.e2e.harness import Manifest, Namespace, node_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang

pytestmark = pytest.mark.usefixtures("control_plane")
"""No driver prepares these devices, which kubelets that are only played don't need."""

CLASS = "example-gpus"
A100, H100 = "a100", "h100"
NAMED = f"deviceclass.resource.kubernetes.io/{CLASS}"


@pytest.fixture
def gpus(namespace: Namespace) -> Iterator[None]:
    """The class of all devices of the driver."""
    with served(namespace.api, device_class(CLASS)):
        yield


def members(name: str, count: int, claim: str, *, first: int = 0, size: int = 0) -> list[Manifest]:
    """The members of a gang, each with a claim made of the template."""
    some = gang(name, count, size=size or count, first=first, cpu="10m")
    return [claiming(one, template=claim) for one in some]


def test_gang_is_placed_where_its_devices_are(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    one, two, _ = nodes(3, cpu="8")
    with served(namespace.api, resource_slice(one, [A100] * 2), resource_slice(two, [H100] * 2)):
        namespace.create(template("h100", request("gpu", CLASS, f'{MODEL} == "{H100}"')))
        namespace.create(*members("fast", 2, "h100"))
        bound = namespace.wait_until_bound(2)
        assert {node_of(pod) for pod in bound} == {two}
        assert {pool for devices in allocated(namespace).values() for pool, _ in devices} == {two}
        assert not given_twice(namespace)
        assert not refusals(namespace)


def test_gang_waits_for_the_devices_that_others_have_and_says_which(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    (node,) = nodes(1, cpu="8")
    with served(namespace.api, resource_slice(node, [A100] * 4)):
        namespace.create(template("pair", request("gpu", CLASS, count=2)))
        namespace.create(*members("first", 1, "pair"))
        namespace.wait_until_bound(1)
        namespace.create(*members("second", 2, "pair"))
        waiting = fluence.wait_for_reason(namespace.name, "second", "busy: 1 of 2 fit now, short of ")
        assert NAMED in waiting["reason"]
        namespace.create(*members("large", 3, "pair"))
        fluence.wait_for_reason(
            namespace.name, "large", "unsatisfiable: 2 of 3 members would fit if nothing else ran"
        )
        assert sum(bool(node_of(pod)) for pod in namespace.pods()) == 1
        namespace.delete_pod("first-0")
        namespace.wait_until_bound(2)
        assert not given_twice(namespace)


def test_mixed_gangs_get_their_devices_without_one_refusal(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, gpus: None
) -> None:
    """Sixteen gangs, created at once, ask for 64 of the 80 devices of nodes with one model or with both."""
    names = nodes(10, cpu="8")
    models = [[A100] * 8] * 4 + [[H100] * 8] * 4 + [[A100] * 4 + [H100] * 4] * 2
    slices = [resource_slice(node, some) for node, some in zip(names, models, strict=True)]
    with served(namespace.api, *slices):
        namespace.create(
            template("a", request("gpu", CLASS, f'{MODEL} == "{A100}"')),
            template("h", request("gpu", CLASS, f'{MODEL} == "{H100}"')),
            template("hh", request("gpu", CLASS, f'{MODEL} == "{H100}"', count=2), alike=NUMA),
            template("aaaa", request("gpu", CLASS, f'{MODEL} == "{A100}"', count=4), alike=NUMA),
        )
        pods: list[Manifest] = []
        for number in range(4):
            pods += members(f"quads-{number}", 1, "aaaa")
            pods += members(f"pairs-{number}", 2, "hh")
            pods += members(f"mixed-{number}", 2, "a", size=4)
            pods += members(f"mixed-{number}", 2, "h", first=2, size=4)
            pods += members(f"single-{number}", 2, "a", size=4)
            pods += members(f"single-{number}", 2, "h", first=2, size=4)
        namespace.create(*pods)
        namespace.wait_until_bound(len(pods))
        held = allocated(namespace)
        assert not given_twice(namespace)
        assert sum(map(len, held.values())) == 64
        assert not refusals(namespace)
