"""Gangs with rules about other pods: required affinity and anti-affinity, and spread. Each is planned in one go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from fluence_extender.model.names import HOSTNAME
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, Requirement, SpreadRule, alone_on_node
from fluence_extender.model.reason import ReasonCode
from fluence_extender.placement.demand import MOST_RULE_SETS, Demand, unplannable
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.matching import MOST_RULED_KINDS
from tests.core.planning import LedgerPlanner
from tests.core.values import node, pod
from tests.unit.placement.conftest import MakeBench

ZONE = "zone"


def selects(app: str) -> tuple[Requirement, ...]:
    return (Requirement("app", "In", (app,)),)


def term(app: str = "a", key: str = HOSTNAME) -> PodTerm:
    return PodTerm(key, selects(app), ("default",))


def members(count: int, cpu: int = 1000, app: str = "a", **rules: Any) -> list[Pod]:
    ports = tuple(
        alone_on_node(one)
        for one in rules.get("apart", ())
        if one.key == HOSTNAME and one.selector == selects(app)
    )
    return [pod(f"{app}{at}", cpu, labels={"app": app}, host_ports=ports, **rules) for at in range(count)]


def racks(nodes: int, zones: int = 1, cpu: int = 4000) -> list[Node]:
    return [node(f"n{at}", cpu, labels={HOSTNAME: f"n{at}", ZONE: f"z{at % zones}"}) for at in range(nodes)]


def placed(planner: LedgerPlanner, pods: Sequence[Pod], gang: object = "gang") -> Counter[str]:
    return Counter(one.node for one in planner.plan([Demand(one) for one in pods], gang))


def why(planner: LedgerPlanner, pods: Sequence[Pod]) -> tuple[ReasonCode, str]:
    with pytest.raises(GangRefused) as caught:
        placed(planner, pods)
    return caught.value.reason.code, caught.value.reason.text


def test_one_member_a_node_needs_as_many_nodes(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(6))
    assert placed(planner, members(6, apart=(term(),))) == {f"n{at}": 1 for at in range(6)}


def test_more_members_than_nodes_are_unsatisfiable(bench: MakeBench) -> None:
    planner, ledger, _ = bench(racks(6))
    code, text = why(planner, members(7, apart=(term(),)))
    assert code is ReasonCode.UNSATISFIABLE
    assert text == "unsatisfiable: needs 7 different nodes (required podAntiAffinity), 6 take it"
    assert not ledger.holdings


def test_pods_that_run_without_the_rule_close_their_nodes_too(bench: MakeBench) -> None:
    planner, ledger, _ = bench(racks(3))
    ledger.put_foreign(pod("x", 100, scheduler="x", node="n1", labels={"app": "a"}))
    assert placed(planner, members(2, apart=(term(),))) == {"n0": 1, "n2": 1}
    planner.release(list(ledger.holdings))
    code, text = why(planner, members(3, apart=(term(),)))
    assert (code, text) == (
        ReasonCode.BUSY,
        "busy: needs 3 different nodes (required podAntiAffinity), 2 take it now",
    )


def test_members_keep_off_nodes_of_the_others_that_their_rule_selects(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(2))
    found = planner.plan(
        [Demand(one) for one in (*members(3, app="w"), *members(1, app="l", apart=(term("w"),)))], "gang"
    )
    assert {one.node for one in found[:3]} == {"n0"}
    assert found[3].node == "n1"


def test_one_member_a_zone(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(6, zones=3))
    assert placed(planner, members(3, apart=(term(key=ZONE),))) == {"n0": 1, "n1": 1, "n2": 1}


def test_more_members_than_zones_are_unsatisfiable(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(6, zones=3))
    code, text = why(planner, members(4, apart=(term(key=ZONE),)))
    assert code is ReasonCode.UNSATISFIABLE
    assert text == "unsatisfiable: needs 4 different values of zone (required podAntiAffinity), 3 take it"


def test_affinity_takes_the_first_zone_with_room_for_all(bench: MakeBench) -> None:
    planner, ledger, _ = bench(racks(6, zones=2))
    ledger.put_foreign(pod("x", 4000, scheduler="x", node="n0"))
    assert placed(planner, members(12, near=(term(key=ZONE),))) == {"n1": 4, "n3": 4, "n5": 4}


def test_affinity_to_pods_that_run_goes_where_they_are(bench: MakeBench) -> None:
    planner, ledger, _ = bench(racks(4, zones=2))
    near = (term("db", ZONE),)
    assert why(planner, members(2, near=near))[0] is ReasonCode.BUSY
    ledger.put_foreign(pod("x", 100, scheduler="x", node="n1", labels={"app": "db"}))
    assert placed(planner, members(2, near=near)) == {"n1": 2}


def test_affinity_to_other_members_waits_for_these(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(4, zones=2))
    gang = [*members(4, 1000, "near", near=(term("lead", ZONE),)), *members(1, 4000, "lead")]
    found = planner.plan([Demand(one) for one in gang], "gang")
    assert {one.node for one in found} == {"n0", "n2"}


def test_members_are_spread_over_zones(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(4, zones=2, cpu=8000))
    spread = (SpreadRule(ZONE, 1, selects("a")),)
    found = placed(planner, members(6, spread=spread))
    assert found["n0"] + found["n2"] == found["n1"] + found["n3"] == 3


def test_spread_that_needs_more_domains_than_there_are_is_unsatisfiable(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(4, zones=2))
    spread = (SpreadRule(ZONE, 1, selects("a"), min_domains=3),)
    code, text = why(planner, members(4, spread=spread))
    assert code is ReasonCode.UNSATISFIABLE
    assert text == "unsatisfiable: the DoNotSchedule spread over zone lets 2 of 4 members fit"


def test_pods_of_a_gang_count_for_the_next_gang(bench: MakeBench) -> None:
    planner, _, _ = bench(racks(4, zones=2))
    placed(planner, members(1, app="db"), "first")
    assert placed(planner, members(1, near=(term("db"),)), "second") == {"n0": 1}
    assert placed(planner, members(1, app="b", apart=(term("db", ZONE),)), "third") == {"n1": 1}


def test_gang_of_very_many_rules_or_kinds_is_refused_at_once() -> None:
    distinct = [pod(f"p{at}", apart=(term(f"app-{at}"),)) for at in range(MOST_RULE_SETS + 1)]
    assert unplannable(distinct[1:]) is None
    reason = unplannable(distinct)
    assert reason is not None
    assert reason.code is ReasonCode.INVALID_REQUEST
    assert "give equal members equal rules" in reason.text


def test_gang_with_rules_and_very_many_kinds_is_refused_at_once(bench: MakeBench) -> None:
    planner, _, _ = bench([node("n0", 64_000, labels={ZONE: "a"})])
    kinds = [pod(f"p{at}", at + 1) for at in range(MOST_RULED_KINDS)]
    ruled = pod("ruled", 1, labels={"app": "a"}, near=(term(key=ZONE),))
    with pytest.raises(GangRefused) as caught:
        planner.plan([Demand(one) for one in (*kinds, ruled)], "gang")
    assert caught.value.reason.code is ReasonCode.INVALID_REQUEST
