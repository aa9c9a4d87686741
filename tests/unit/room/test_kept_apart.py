"""Which nodes a pod must avoid because the required anti-affinity of other pods keeps it away."""

from __future__ import annotations

from fluence_extender.model.assignment import Assignment
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, Requirement
from fluence_extender.room.holdings import Firmness
from fluence_extender.room.kept_apart import KeptApart
from tests.core.values import node, pod
from tests.unit.room.conftest import MakeLedger

A = (Requirement("app", "In", ("a",)),)
HOST, ZONE = "host", "zone"


def at(name: str, zone: str = "") -> Node:
    return node(name, labels={HOST: name} | ({ZONE: zone} if zone else {}))


def keeper(key: str = HOST, name: str = "keeper", namespaces: tuple[str, ...] = ("default",)) -> Pod:
    return pod(name, apart=(PodTerm(key, A, namespaces),))


def index(*nodes: Node) -> KeptApart:
    return KeptApart({one.name: one for one in nodes})


SELECTED = pod("new", labels={"app": "a"})


def test_without_terms_no_node_must_be_avoided() -> None:
    kept = index(at("n0"))
    kept.put(pod("other"), "n0", bound=True)
    assert not kept.nodes(SELECTED)


def test_all_nodes_of_the_domain_must_be_avoided() -> None:
    kept = index(at("n0", "a"), at("n1", "a"), at("n2", "b"), at("n3"))
    kept.put(keeper(ZONE), "n0", bound=True)
    assert kept.nodes(SELECTED) == {"n0", "n1"}
    assert not kept.nodes(pod("other", labels={"app": "b"}))
    assert not kept.nodes(pod("bare"))


def test_pod_on_a_node_without_the_label_or_without_a_node_object_keeps_nobody_away() -> None:
    kept = index(at("n0"), at("n1", "a"))
    kept.put(keeper(ZONE), "n0", bound=True)
    kept.put(keeper(ZONE), "gone", bound=True)
    assert not kept.nodes(SELECTED)


def test_last_pod_with_a_term_frees_its_nodes() -> None:
    kept = index(at("n0", "a"), at("n1", "b"))
    first, second = keeper(ZONE), keeper(ZONE)
    kept.put(first, "n0", bound=True)
    kept.put(second, "n0", bound=True)
    kept.drop(first.uid)
    assert kept.nodes(SELECTED) == {"n0"}
    kept.drop(second.uid)
    assert not kept.nodes(SELECTED)


def test_labels_of_a_namespace_decide_about_terms_that_select_by_them() -> None:
    kept = index(at("n0"))
    term = PodTerm(HOST, A, (), (Requirement("team", "In", ("red",)),))
    kept.put(pod("keeper", apart=(term,)), "n0", bound=True)
    assert not kept.nodes(SELECTED)
    assert kept.put_namespace("default", {"team": "red"})
    assert kept.nodes(SELECTED) == {"n0"}
    assert not kept.put_namespace("default", {"team": "red"})
    assert kept.put_namespace("default", {})
    assert not kept.nodes(SELECTED)


def test_labels_of_namespaces_change_nothing_without_such_a_term() -> None:
    kept = index(at("n0"))
    kept.put(keeper(), "n0", bound=True)
    assert not kept.put_namespace("default", {"team": "red"})


def test_only_a_pod_that_has_its_node_is_named_as_the_keeper() -> None:
    kept = index(at("n0"))
    one = keeper()
    kept.put(one, "n0", bound=False)
    assert kept.nodes(SELECTED) == {"n0"}
    assert not kept.keeper(SELECTED, "n0")
    kept.has_bound(one.uid)
    assert kept.keeper(SELECTED, "n0") == "default/keeper"
    assert not kept.keeper(SELECTED, "n1")


def test_reason_names_pods_of_the_own_namespace_only() -> None:
    kept = index(at("n0"), at("n1"), at("n2"))
    text = "kept from it by the required podAntiAffinity of"
    kept.put(Pod("other", "secret", "s", apart=(PodTerm(HOST, A, ("default",)),)), "n0", bound=True)
    assert kept.why(SELECTED) == f"{text} pods of other namespaces"
    kept.put(keeper(name="web-10"), "n1", bound=True)
    kept.put(keeper(name="web-9"), "n2", bound=True)
    assert kept.why(SELECTED) == f"{text} pods such as web-9"


def test_copy_stays_as_it_was() -> None:
    kept = index(at("n0"), at("n1"))
    one = keeper()
    kept.put(one, "n0", bound=True)
    copied = kept.copy()
    kept.drop(one.uid)
    kept.put(keeper(), "n1", bound=True)
    assert copied.nodes(SELECTED) == {"n0"}
    assert kept.nodes(SELECTED) == {"n1"}


def test_ledger_follows_places_and_labels(make: MakeLedger) -> None:
    ledger = make(at("n0", "a"), at("n1", "b"))
    ours, theirs = keeper(ZONE), pod("f", scheduler="default-scheduler", node="n1", apart=keeper(ZONE).apart)
    ledger.take_all([(ours, Assignment(ours.uid, "n0"))], "g")
    assert ledger.kept_apart.nodes(SELECTED) == {"n0"}
    assert not ledger.kept_apart.keeper(SELECTED, "n0")
    ledger.raise_firmness(ours.uid, Firmness.BOUND)
    assert ledger.kept_apart.keeper(SELECTED, "n0")
    ledger.put_foreign(theirs)
    assert ledger.kept_apart.nodes(SELECTED) == {"n0", "n1"}
    ledger.put_node(at("n2", "b"))
    assert ledger.kept_apart.nodes(SELECTED) == {"n0", "n1", "n2"}
    ledger.drop_node("n1")
    assert ledger.kept_apart.nodes(SELECTED) == {"n0"}
    ledger.put_node(at("n1", "b"))
    ledger.drop_foreign(theirs.uid)
    assert ledger.kept_apart.nodes(SELECTED) == {"n0"}
    ledger.release(ours.uid)
    assert not ledger.kept_apart.nodes(SELECTED)


def test_node_that_joined_while_no_pod_had_a_term_has_a_domain_afterwards() -> None:
    nodes = {"n0": at("n0")}
    kept = KeptApart(nodes)
    first = keeper(name="first")
    kept.put(first, "n0", bound=True)
    assert kept.nodes(SELECTED) == {"n0"}
    kept.drop(first.uid)
    nodes["n1"] = at("n1")
    kept.nodes_changed()
    second = keeper(name="second")
    kept.put(second, "n1", bound=True)
    assert kept.nodes(SELECTED) == {"n1"}
    assert kept.domain(second.uid) == {"n1"}
