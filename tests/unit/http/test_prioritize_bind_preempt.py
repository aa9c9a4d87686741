"""The other three verbs: scores, Bindings and vetoes."""

from __future__ import annotations

from typing import Any

from fluence_extender.cluster.errors import AlreadyBound, ClusterError
from fluence_extender.http.scheduler.port import BindRefused, Nowhere
from tests.unit.http.held_placements import HeldPlacements, Post, binding, by_name, pod


async def test_the_planned_node_has_the_highest_score(post: Post) -> None:
    expected = [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 10}]
    assert (await post("prioritize", by_name(["n1", "n2"]))).json() == expected


async def test_without_a_plan_every_score_is_zero(post: Post, placements: HeldPlacements) -> None:
    flat = [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 0}]
    foreign = pod(scheduler="default-scheduler")
    assert (await post("prioritize", by_name(["n1", "n2"], foreign))).json() == flat
    placements.plan["uid-1"] = Nowhere("waiting for members (3 of 8 exist)")
    assert (await post("prioritize", by_name(["n1", "n2"]))).json() == flat
    placements.missing = "listing pods"
    assert (await post("prioritize", by_name(["n1", "n2"]))).json() == flat


async def test_a_failure_behind_prioritize_is_no_opinion(post: Post, placements: HeldPlacements) -> None:
    placements.failure = RuntimeError("x")
    answer = await post("prioritize", by_name(["n1", "n2"]))
    assert (answer.status_code, answer.json()) == (200, [])


async def test_bind_binds(post: Post, placements: HeldPlacements) -> None:
    assert (await post("bind", binding())).json() == {"Error": ""}
    assert placements.bound == {"uid-1": "n1"}


async def test_a_refused_bind_says_why(post: Post, placements: HeldPlacements) -> None:
    refusals = {
        BindRefused("its gang was dropped"): "its gang was dropped",
        AlreadyBound("pod default/p is on n9", "n9"): "pod default/p is on n9",
        ClusterError("no answer from the API server"): "no answer from the API server",
        BindRefused(): "BindRefused",
    }
    for refusal, text in refusals.items():
        placements.failure = refusal
        answer = await post("bind", binding())
        assert (answer.status_code, answer.json()) == (200, {"Error": text})


async def test_a_failure_behind_bind_is_its_error(post: Post, placements: HeldPlacements) -> None:
    placements.failure = KeyError("x")
    answer = await post("bind", binding())
    assert answer.status_code == 200
    assert "internal error in bind: KeyError" in answer.json()["Error"]


async def test_nothing_is_bound_before_we_are_ready(post: Post, placements: HeldPlacements) -> None:
    placements.missing = "listing pods"
    assert (await post("bind", binding())).json() == {"Error": "not ready: listing pods"}
    assert placements.bound == {}


META: dict[str, dict[str, Any]] = {
    "n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1},
    "n2": {"Pods": [{"UID": "c"}], "NumPDBViolations": 0},
    "n3": {"Pods": [], "NumPDBViolations": 0},
}


async def test_a_node_whose_victims_would_break_a_gang_is_no_candidate(
    post: Post, placements: HeldPlacements
) -> None:
    placements.protected = frozenset({"b"})
    request = {"Pod": pod(), "NodeNameToVictims": None, "NodeNameToMetaVictims": META}
    answer = (await post("preempt", request)).json()
    assert answer == {"NodeNameToMetaVictims": {"n2": META["n2"], "n3": META["n3"]}}


async def test_the_veto_holds_for_preemptors_of_other_schedulers(
    post: Post, placements: HeldPlacements
) -> None:
    placements.protected = frozenset({"a", "c"})
    request = {"Pod": pod(scheduler="default-scheduler"), "NodeNameToMetaVictims": META}
    assert (await post("preempt", request)).json() == {"NodeNameToMetaVictims": {"n3": META["n3"]}}


async def test_null_pods_are_no_victims(post: Post) -> None:
    request = {"Pod": pod(), "NodeNameToMetaVictims": {"n1": {"Pods": None, "NumPDBViolations": 0}}}
    assert list((await post("preempt", request)).json()["NodeNameToMetaVictims"]) == ["n1"]
    assert (await post("preempt", {"Pod": pod()})).json() == {"NodeNameToMetaVictims": {}}


async def test_nothing_is_evicted_while_gangs_are_unknown(post: Post, placements: HeldPlacements) -> None:
    request = {"Pod": pod(), "NodeNameToMetaVictims": META}
    placements.failure = RuntimeError("x")
    assert (await post("preempt", request)).json() == {"NodeNameToMetaVictims": {}}
    placements.failure = None
    placements.missing = "listing pods"
    assert (await post("preempt", request)).json() == {"NodeNameToMetaVictims": {}}
