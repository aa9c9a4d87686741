"""One user's selectors, however costly: the service answers, and others are placed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.claimed import DRIVER, claiming, device_class, request, resource_slice, served, template
from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang

pytestmark = pytest.mark.usefixtures("control_plane")

CLASS = "hostile-gpus"
TEN = "[0,1,2,3,4,5,6,7,8,9]"


def costly(number: int) -> str:
    """Return an expression within the limits of one evaluation, which is evaluated anew for each device."""
    uuid = f'device.attributes["{DRIVER}"].uuid'
    return f'{TEN}.all(x,{TEN}.all(y,x+y>=0||{uuid}==""))&&{uuid}!="{number}"'


@pytest.fixture
def gpus(namespace: Namespace, nodes: NodeFactory) -> Iterator[str]:
    """A node with 32 devices that all differ, and their class."""
    (node,) = nodes(1, cpu="16")
    with served(namespace.api, device_class(CLASS), resource_slice(node, ["a100"] * 32)):
        yield node


def costly_template(name: str) -> Manifest:
    numbers = iter(range(120))
    return template(
        name, *(request(f"r{at}", CLASS, *(costly(next(numbers)) for _ in range(30))) for at in range(4))
    )


def test_others_are_placed_and_the_service_is_ready_while_costly_selectors_are_evaluated(
    fluence: Fluence, namespace: Namespace, gpus: str
) -> None:
    namespace.create(costly_template("costly"), template("plain", request("gpu", CLASS)))
    namespace.create(*(claiming(one, template="costly") for one in gang("hostile", 1, cpu="10m")))
    wait_for(lambda: fluence.gang(namespace.name, "hostile"), what="the service to see the pod")
    namespace.create(*gang("others", 2, cpu="10m"))
    namespace.create(*(claiming(one, template="plain") for one in gang("claiming", 2, cpu="10m")))
    longest = 0.0

    def placed() -> bool:
        nonlocal longest
        began = time.monotonic()
        fluence.text("/readyz")
        longest = max(longest, time.monotonic() - began)
        return sum(1 for pod in namespace.pods() if node_of(pod)) == 4

    wait_for(placed, timeout=30, what="the pods of others to be bound")
    assert longest < 5
    fluence.wait_for_reason(
        namespace.name, "hostile", "pod hostile-0: the CEL selectors of its claims take more than"
    )
