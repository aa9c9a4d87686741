"""Which nodes a pod may run on, by kube-scheduler's own rules."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.model.node import Node
from fluence_extender.model.pod import NodeTerm, Pod, Requirement
from fluence_extender.model.selectors import holds, term_holds, tolerates, untolerated
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.placement import eligibility
from fluence_extender.placement.eligibility import (
    EligibilityIndex,
    passes,
    refusal,
)
from tests.core.values import node, pod

TAINT = Taint("dedicated", "NoSchedule", "gpu")
CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
LABELS = {"zone": "a", "cores": "8", "empty": ""}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("dedicated", "Equal", "gpu"), True),
        (Toleration("dedicated", "", "gpu"), True),
        (Toleration("dedicated", "Equal", "cpu"), False),
        (Toleration("dedicated", "Equal", ""), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Exists"), True),
        (Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "gpu", "NoExecute"), False),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("dedicated", "Unheard", "gpu"), False),
    ],
)
def test_toleration_covers_taint_of_equal_key_value_and_effect(
    toleration: Toleration, expected: bool
) -> None:
    assert tolerates(toleration, TAINT) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "950", "951", True),
        ("Gt", "950", "950", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Gt", "950", "many", False),
        ("Lt", "few", "4", False),
        ("Gt", "1", "1_000", False),
    ],
)
def test_numeric_tolerations_compare_the_value_of_the_taint(
    operator: str, bound: str, value: str, expected: bool
) -> None:
    taint = Taint("sla", "NoSchedule", value)
    assert tolerates(Toleration("sla", operator, bound), taint) is expected


def test_only_blocking_effects_exclude_a_pod() -> None:
    prefer = Taint("slow", "PreferNoSchedule")
    evict = Taint("broken", "NoExecute")
    assert untolerated([prefer], []) is None
    assert untolerated([prefer, evict], []) == evict
    assert untolerated([evict], [Toleration("broken", "Exists")]) is None


def test_every_taint_must_be_tolerated() -> None:
    taints = [TAINT, Taint("broken", "NoExecute")]
    assert untolerated(taints, [Toleration("dedicated", "Exists")]) == taints[1]


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("missing", "In", ("a",), False),
        ("empty", "In", ("",), True),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("missing", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("empty", "Exists", (), True),
        ("missing", "Exists", (), False),
        ("missing", "DoesNotExist", (), True),
        ("zone", "DoesNotExist", (), False),
        ("cores", "Gt", ("7",), True),
        ("cores", "Gt", ("8",), False),
        ("cores", "Lt", ("9",), True),
        ("cores", "Lt", ("8",), False),
        ("cores", "Gt", ("-1",), True),
        ("missing", "Gt", ("1",), False),
        ("zone", "Gt", ("1",), False),
        ("cores", "Gt", ("seven",), False),
        ("cores", "Gt", ("1", "2"), False),
        ("cores", "Gt", (), False),
        ("cores", "Unheard", ("8",), False),
    ],
)
def test_selector_operators(key: str, operator: str, values: tuple[str, ...], expected: bool) -> None:
    assert holds(Requirement(key, operator, values), LABELS) is expected


@pytest.mark.parametrize("value", ["1_0", " 8", "8 ", "٨", "8.0", "0x8", "9" * 30])
def test_only_what_go_reads_as_a_number_is_compared(value: str) -> None:
    assert not holds(Requirement("cores", "Gt", ("1",)), {"cores": value})


def test_term_holds_when_all_of_it_holds() -> None:
    zone = Requirement("zone", "In", ("a",))
    here = Requirement("metadata.name", "In", ("n0",))
    there = Requirement("metadata.name", "In", ("n1",))
    one = node("n0", labels=LABELS)
    assert term_holds(NodeTerm((zone,), (here,)), one)
    assert not term_holds(NodeTerm((zone,), (there,)), one)
    assert not term_holds(NodeTerm((Requirement("zone", "In", ("b",)),), (here,)), one)


def test_term_without_expressions_holds_nowhere() -> None:
    assert not term_holds(NodeTerm(), node("n0"))


def test_one_term_of_required_affinity_is_enough() -> None:
    terms = (
        NodeTerm((Requirement("zone", "In", ("b",)),)),
        NodeTerm((Requirement("zone", "In", ("a",)),)),
    )
    assert refusal(pod(affinity=terms), node("n0", labels=LABELS)) is None
    assert refusal(pod(affinity=terms[:1]), node("n0", labels=LABELS)) == "node affinity"


def test_affinity_without_terms_holds_nowhere() -> None:
    assert refusal(pod(affinity=()), node("n0")) == "node affinity"


@pytest.mark.parametrize(
    ("one", "there", "expected"),
    [
        (pod(), node(), None),
        (pod(), node(ready=False), "not ready"),
        (pod(tolerations=(Toleration("", "Exists"),)), node(ready=False), None),
        (
            pod(tolerations=(Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),)),
            node(ready=False),
            "not ready",
        ),
        (pod(), node(unschedulable=True), "cordoned"),
        (
            pod(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),)),
            node(unschedulable=True),
            None,
        ),
        (pod(), node(taints=(TAINT,)), "untolerated taint dedicated"),
        (pod(node_selector={"zone": "a"}), node(labels=LABELS), None),
        (pod(node_selector={"zone": "a", "disk": "ssd"}), node(labels=LABELS), "node selector disk=ssd"),
        (pod(node_selector={"rack": "1", "disk": "ssd"}), node(labels=LABELS), "node selector disk=ssd"),
        (pod(node_selector={"empty": ""}), node(), "node selector empty="),
        (pod(node_selector={"disk": "ssd"}), node(ready=False, unschedulable=True), "node selector disk=ssd"),
        (pod(affinity=()), node(unschedulable=True), "node affinity"),
        (pod(), node(taints=(TAINT,), ready=False, unschedulable=True), "untolerated taint dedicated"),
        (pod(), node(taints=(CORDON, TAINT)), "untolerated taint dedicated"),
    ],
)
def test_refusal_says_why_in_a_few_words(one: Pod, there: Node, expected: str | None) -> None:
    assert refusal(one, there) == expected


def test_passing_refusals_are_those_that_end_by_themselves() -> None:
    pressed = node(taints=(Taint("node.kubernetes.io/disk-pressure", "NoSchedule"),))
    assert passes(None)
    assert passes(refusal(pod(), node(ready=False)))
    assert passes(refusal(pod(), node(unschedulable=True)))
    assert passes(refusal(pod(), pressed))
    assert not passes(refusal(pod(), node(taints=(TAINT,))))


def test_pod_does_not_wait_for_a_closed_node_that_it_may_never_use() -> None:
    index = EligibilityIndex()
    index.put(node("n0", unschedulable=True))
    index.put(node("n1", unschedulable=True, labels={"disk": "ssd"}))
    picky = pod(node_selector={"disk": "ssd"})
    assert index.refusals(picky) == {"cordoned": 1, "node selector disk=ssd": 1}
    assert index.possible(picky) == ("n1",)


def test_index_follows_nodes_as_they_change() -> None:
    index = EligibilityIndex()
    index.put(node("n0"))
    index.put(node("n1", unschedulable=True))
    one = pod()
    assert index.eligible(one) == {"n0"}
    index.put(node("n1"))
    index.put(node("n0", ready=False))
    assert index.eligible(one) == {"n1"}
    index.drop("n1")
    assert index.eligible(one) == set()
    assert index.refusals(one) == {"not ready": 1}


def test_index_counts_refusals_most_frequent_first() -> None:
    index = EligibilityIndex()
    for number in range(3):
        index.put(node(f"n{number}", taints=(TAINT,)))
    index.put(node("n3", ready=False))
    assert list(index.refusals(pod()).items()) == [("untolerated taint dedicated", 3), ("not ready", 1)]


def test_index_forgets_old_signatures_and_stays_right() -> None:
    index = EligibilityIndex()
    index.put(node("n0", labels={"k": "3"}))
    for number in range(2 * EligibilityIndex.LIMIT):
        index.eligible(pod(node_selector={"k": str(number)}))
    assert index.eligible(pod(node_selector={"k": "3"})) == {"n0"}
    assert index.eligible(pod(node_selector={"k": "4"})) == set()


KEYS, VALUES = ("a", "b", "metadata.name"), ("1", "2", "n0", "n1")
rules = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Other")),
    st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
terms = st.builds(
    NodeTerm, st.lists(rules, max_size=2).map(tuple), fields=st.lists(rules, max_size=2).map(tuple)
)
taints = st.builds(
    Taint, st.sampled_from(("t", "node.kubernetes.io/u")), st.sampled_from(("NoSchedule", "PreferNoSchedule"))
)
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
hosts = st.builds(
    Node,
    st.sampled_from(("n0", "n1", "n2", "n3")),
    labels=labels,
    taints=st.lists(taints, max_size=2).map(tuple),
    ready=st.booleans(),
    unschedulable=st.booleans(),
    problem=st.sampled_from(("", "", "", "a bad amount")),
)
pods = st.builds(
    pod,
    node_selector=labels,
    tolerations=st.sampled_from(((), (Toleration("t", "Exists"),), (Toleration("", "Exists"),))),
    affinity=st.none() | st.lists(terms, max_size=2).map(tuple),
)


@given(st.lists(hosts, max_size=12), st.lists(st.sampled_from(("n0", "n1", "n2", "n3")), max_size=2), pods)
def test_index_says_of_each_node_what_a_look_at_it_says(seen: list[Node], gone: list[str], one: Pod) -> None:
    index = EligibilityIndex()
    for there in seen:
        index.put(there)
    for name in gone:
        index.drop(name)
    verdicts = {name: refusal(one, there) for name, there in index.nodes.items()}
    assert index.eligible(one) == {name for name, why in verdicts.items() if why is None}
    assert index.possible(one) == tuple(name for name, why in verdicts.items() if passes(why))
    assert index.refusals(one) == Counter(filter(None, verdicts.values()))


def test_pods_of_many_rules_are_not_compared_with_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Counter[str]()

    def counting(name: str) -> None:
        function = getattr(eligibility, name)

        def called(*given: object) -> object:
            calls[name] += 1
            return function(*given)

        monkeypatch.setattr(eligibility, name, called)

    for name in ("refusal", "_closed", "term_holds"):
        counting(name)
    index = EligibilityIndex()
    for number in range(200):
        index.put(node(f"n{number}", labels={"host": f"h{number}"}, unschedulable=number % 2 == 0))
    for number in range(200):
        rule = Requirement("host", "NotIn", (f"h{number}",))
        one = pod(node_selector={"host": f"h{number + 1}"}, affinity=(NodeTerm((rule,)),))
        assert len(index.eligible(one)) + len(index.possible(one)) + sum(index.refusals(one).values()) >= 199
    assert calls.total() <= 2 * 200 * 2


def test_names_follow_the_nodes_that_join_and_leave() -> None:
    index = EligibilityIndex()
    for name in ("n1", "n0"):
        index.put(node(name))
    first = index.names
    assert first == ("n1", "n0")
    index.put(node("n1", unschedulable=True))
    assert index.names is first
    index.drop("n1")
    index.put(node("n2"))
    assert index.names == ("n0", "n2")
