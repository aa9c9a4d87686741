"""Gangs start in the order in which they were created; after a restart, names order those of one second."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, ours

NAMES = ("zeta", "mid", "alpha")
"""In the order of their creation, which is the reverse of that by name."""


def queued(fluence: Fluence, namespace: Namespace) -> None:
    """Create a pod that fills the node of two CPUs, and three gangs of one second that need all of it."""
    namespace.create(ours("filler", cpu="2"))
    namespace.wait_until_bound(1)
    gangs = {name: gang(name, 2, cpu="1") for name in NAMES}

    def of_one_second() -> bool:
        made: list[Manifest] = [one for name in NAMES for one in namespace.create(*gangs[name])]
        if len({one["metadata"]["creationTimestamp"] for one in made}) == 1:
            return True
        for one in made:
            namespace.delete_pod(one["metadata"]["name"])
        wait_for(lambda: len(namespace.pods()) == 1, what="the pods to go")
        return False

    wait_for(of_one_second, what="three gangs of one second")
    for name in NAMES:
        fluence.wait_for_reason(namespace.name, name, "busy: 0 of 2 fit now, short of cpu")


def started(namespace: Namespace) -> list[str]:
    """The gangs in the order in which they get the node, each of which ends the one before it."""
    order: list[str] = []
    ending = ["filler"]
    for _ in NAMES:
        for name in ending:
            namespace.delete_pod(name)
        bound = [one["metadata"]["name"] for one in namespace.wait_until_bound(2) if node_of(one)]
        (found,) = {name.rpartition("-")[0] for name in bound}
        order.append(found)
        ending = bound
    return order


@pytest.mark.parametrize(("restarted", "order"), [(False, list(NAMES)), (True, sorted(NAMES))])
def test_gangs_of_one_second_start_in_the_order_of_their_creation_or_after_a_restart_of_their_names(
    restarted: bool,
    order: list[str],
    installation: Installation,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
) -> None:
    own_nodes(1, cpu="2")
    queued(fluence, namespace)
    if restarted:
        # From here on the resourceVersions say the opposite.
        for one in namespace.pods():
            if one["metadata"]["name"].startswith(("alpha", "mid")):
                path = f"/api/v1/namespaces/{namespace.name}/pods/{one['metadata']['name']}"
                namespace.api.patch(path, {"metadata": {"annotations": {"example.com/by": "another"}}})
        installation.crash()
        installation.revive()
    assert started(namespace) == order
