"""Rules among members, anti-affinity and spread: a gang is bound by the first plan, or holds nothing and says why."""

from __future__ import annotations

from collections import Counter

from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, GROUP_LABEL
from tests.e2e.harness import Manifest, Namespace, node_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, indexed_job, ours

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
    told = "unsatisfiable: needs 3 different nodes (required podAntiAffinity), 2 take it"
    fluence.wait_for_reason(namespace.name, "apart", told)
    assert not fluence.allocations(namespace.name)


def test_members_for_which_there_are_too_few_zones_say_so_and_bind_nobody(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    for label in ("a", "b"):
        own_nodes(1, prefix=label, cpu="4", labels={ZONE: label})
    namespace.create(*gang("apart", 3, cpu="1", affinity=apart("apart", ZONE)))
    told = f"unsatisfiable: needs 3 different values of {ZONE} (required podAntiAffinity), 2 take it"
    fluence.wait_for_reason(namespace.name, "apart", told)
    assert not fluence.allocations(namespace.name)
    assert not [one for one in namespace.pods() if node_of(one)]


def test_one_member_a_node_waits_for_as_many_nodes_and_is_bound_by_the_first_plan(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    names = own_nodes(6, cpu="4")
    namespace.create(*gang("brokers", 7, cpu="1", affinity=apart("brokers")))
    told = "unsatisfiable: needs 7 different nodes (required podAntiAffinity), 6 take it"
    fluence.wait_for_reason(namespace.name, "brokers", told)
    assert not fluence.allocations(namespace.name)
    assert not [one for one in namespace.pods() if node_of(one)]
    names += own_nodes(1, prefix="late", cpu="4")
    pods = namespace.wait_until_bound(7)
    assert {node_of(one) for one in pods} == set(names)
    assert {one["spec"]["schedulerName"] for one in pods} == {DIRECT_SCHEDULER_NAME}


def test_members_that_have_to_be_near_each_other_are_bound_in_one_zone(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    small = own_nodes(1, prefix="a", cpu="2", labels={ZONE: "a"})
    large = own_nodes(2, prefix="b", cpu="2", labels={ZONE: "b"})
    term = {"labelSelector": {"matchLabels": {GROUP_LABEL: "near"}}, "topologyKey": ZONE}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    namespace.create(*gang("near", 3, cpu="1", affinity=affinity))
    pods = namespace.wait_until_bound(3)
    assert {node_of(one) for one in pods} == set(large)
    assert not {node_of(one) for one in pods} & set(small)


def test_pods_of_a_job_that_keep_apart_get_a_node_each(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    names = own_nodes(3, cpu="4")
    term = {
        "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": "brokers"}},
        "matchLabelKeys": ["batch.kubernetes.io/controller-uid"],
        "topologyKey": HOST,
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    namespace.create(indexed_job("brokers", ours("x", cpu="1", affinity=affinity), 3))
    pods = namespace.wait_until_bound(3)
    assert {node_of(one) for one in pods} == set(names)
    assert {one["spec"]["schedulerName"] for one in pods} == {DIRECT_SCHEDULER_NAME}
