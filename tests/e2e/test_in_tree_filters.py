"""What kube-scheduler's own filters judge: anti-affinity and spread between members. A gang gets there, or says why."""

from __future__ import annotations

from collections import Counter

from fluence_extender.model.names import GROUP_LABEL
from tests.e2e.harness import Manifest, Namespace, node_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def apart(group: str, key: str = HOST) -> Manifest:
    """Required anti-affinity of a group's members by host or another label of nodes."""
    term = {"labelSelector": {"matchLabels": {GROUP_LABEL: group}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(group: str, key: str) -> list[Manifest]:
    """Members differ by one at most between domains."""
    selector = {"matchLabels": {GROUP_LABEL: group}}
    return [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    ]


def test_members_that_keep_apart_get_a_node_each(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    names = own_nodes(3, cpu="4")
    namespace.create(*gang("apart", 3, cpu="1", affinity=apart("apart")))
    pods = namespace.wait_until_bound(3, timeout=300)
    assert {node_of(one) for one in pods} == set(names)


def test_members_spread_over_zones(fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory) -> None:
    zone = {
        name: label
        for label in ("a", "b")
        for name in own_nodes(1, prefix=label, cpu="8", labels={ZONE: label})
    }
    namespace.create(*gang("even", 4, cpu="1", topologySpreadConstraints=spread("even", ZONE)))
    pods = namespace.wait_until_bound(4, timeout=300)
    assert Counter(zone[node_of(one)] for one in pods) == {"a": 2, "b": 2}


def test_gang_for_which_there_are_too_few_nodes_holds_nothing_and_says_so(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(*gang("apart", 3, cpu="1", affinity=apart("apart")))
    short = "short of nodes without another such pod (required podAntiAffinity)"
    told = f"unsatisfiable: 2 of 3 members would fit if nothing else ran, {short}"
    fluence.wait_for_reason(namespace.name, "apart", told)
    assert not fluence.allocations(namespace.name)


def test_members_for_which_there_are_too_few_zones_say_so_and_bind_nobody(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    for label in ("a", "b"):
        own_nodes(1, prefix=label, cpu="4", labels={ZONE: label})
    namespace.create(*gang("apart", 3, cpu="1", affinity=apart("apart", ZONE)))
    told = "kube-scheduler's own filters refused a member"
    found = fluence.wait_for_reason(namespace.name, "apart", told, timeout=180)
    assert "InterPodAffinity on " in found["reason"]
    assert not fluence.allocations(namespace.name)
    assert not [one for one in namespace.pods() if node_of(one)]
