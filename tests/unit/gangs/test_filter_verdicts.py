"""What kube-scheduler's own filters found, from the message of a pod's condition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.gangs.lifecycle.refusals import PLUGINS, in_words, last_verdicts, verdicts

PREEMPTION = " preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "0/5 nodes are available: 3 node(s) had untolerated taint {a: b}, 2 Insufficient cpu."
            + PREEMPTION,
            "TaintToleration on 3 nodes, NodeResourcesFit on 2 nodes",
        ),
        (
            "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, "
            "2 planned on node n2, which isn't among the nodes offered. preemption: 0/3 nodes are available.",
            "InterPodAffinity on 1 node",
        ),
        (
            "0/9 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, "
            "8 node(s) didn't satisfy plugin(s) [NodeAffinity]. still not schedulable, preemption: 0/9 nodes "
            "are available: 9 Preemption is not helpful for scheduling.",
            "NodePorts on 1 node",
        ),
        ("0/2 nodes are available: 2 node(s) are painted blue.", "node(s) are painted blue on 2 nodes"),
        (
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            "NodeResourcesFit on 2 nodes",
        ),
        ('persistentvolumeclaim "data" not found', ""),
        ("0/2 nodes are available", ""),
        ("", ""),
    ],
)
def test_message_says_which_filter_refused_how_many_nodes(message: str, told: str) -> None:
    assert in_words(verdicts(message)) == told


BUSY = "0/2 nodes are available: 2 busy: 2 of 3 fit now. no new claims to deallocate, preemption: none."
APART = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."


def test_our_own_answer_is_no_filters() -> None:
    assert verdicts(BUSY) == ()


def test_what_a_filter_found_last_outlives_our_own_answers() -> None:
    found = last_verdicts(APART, ())
    assert in_words(found) == "InterPodAffinity on 2 nodes"
    assert last_verdicts(BUSY, found) == found
    assert last_verdicts("0/2 nodes are available: 1 Insufficient cpu.", found) == (("NodeResourcesFit", 1),)


@given(
    st.dictionaries(st.sampled_from(sorted(PLUGINS)), st.integers(1, 9999), min_size=1, max_size=6),
    st.sampled_from(["", ".", "." + PREEMPTION]),
)
def test_nodes_are_neither_lost_nor_counted_twice(reasons: dict[str, int], end: str) -> None:
    parts = ", ".join(f"{nodes} {text}" for text, nodes in reasons.items())
    total = sum(nodes for _, nodes in verdicts(f"0/15000 nodes are available: {parts}{end}"))
    assert total == sum(reasons.values())


@given(st.text())
def test_any_text_is_read(message: str) -> None:
    verdicts(message)
    verdicts(f"0/3 nodes are available: {message}")
