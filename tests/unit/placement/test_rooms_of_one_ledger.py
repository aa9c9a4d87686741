"""Members that are placed after others of their gang are judged by the ledger as it is, whatever was planned before."""

from __future__ import annotations

from fluence_extender.model.names import HOSTNAME
from fluence_extender.model.pod import PodTerm, Requirement
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.topology_constraints import PODSET_REQUIRED
from tests.core.values import node, pod
from tests.unit.placement.conftest import MakeBench

ZONE = "topology.kubernetes.io/zone"
KEEPS_A_AWAY = (PodTerm(HOSTNAME, (Requirement("app", "In", ("a",)),), ("default",)),)


def in_two_parts(name: str) -> list[Demand]:
    """Return a gang with one member that has a topology constraint, and one that is placed after it."""
    labels = {"app": "a"}
    return [
        Demand(pod(f"{name}0", labels=labels, annotations={PODSET_REQUIRED: "zone"})),
        Demand(pod(f"{name}1", labels=labels)),
    ]


def test_pod_that_has_come_between_two_plans_keeps_later_members_away(bench: MakeBench) -> None:
    places = {f"n{at}": {HOSTNAME: f"n{at}", ZONE: f"z{at // 2}"} for at in range(4)}
    planner, ledger, _ = bench(node(name, labels=labels) for name, labels in places.items())
    ledger.put_foreign(pod("first", 100, scheduler="x", node="n3", apart=KEEPS_A_AWAY))
    before = {one.node for one in planner.plan(in_two_parts("one"), "one")}
    assert "n0" in before
    ledger.put_foreign(pod("second", 100, scheduler="x", node="n0", apart=KEEPS_A_AWAY))
    assert {one.node for one in planner.plan(in_two_parts("two"), "two")} <= {"n1", "n2"}
    ledger.drop_foreign("second")
    ledger.drop_foreign("first")
    ledger.put_foreign(pod("third", 4000, scheduler="x", node="n1"))
    assert planner.find(in_two_parts("three"), "three") is not None
