"""Every policy that can be chosen works."""

from __future__ import annotations

import pytest

from fluence_extender.apps.extender.engines import choose_engine, matcher_setup, shared_policy
from fluence_extender.apps.settings import POLICIES
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.ledger.graph_matcher import GraphMatcher
from fluence_extender.model.node import Node
from fluence_extender.model.resources import Resources

NODE = Node("node0", allocatable=Resources({"cpu": 4000, "memory": 2**32, "pods": 110}))


@pytest.mark.parametrize("policy", POLICIES)
def test_two_pods_are_booked_on_one_node_under_every_policy(policy: str) -> None:
    matcher = GraphMatcher(matcher_setup(choose_engine("embedded"), policy, {}))
    matcher.load([NODE], VirtualResources(""))
    jobs = matcher.hold_shares([("node0", Resources({"cpu": 1000}))] * 2)
    assert all(isinstance(job, int) for job in jobs)
    matcher.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_matcher_runs_a_policy_that_shares_nodes(policy: str) -> None:
    shared = shared_policy(policy)
    assert shared in POLICIES
    assert not shared.endswith("x")
    assert policy.startswith(shared)
