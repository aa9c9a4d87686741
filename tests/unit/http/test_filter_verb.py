"""Filter: the planned node passes, and every other one is refused with the reason."""

from __future__ import annotations

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.scheduler.port import Nowhere, On, Undecided
from tests.unit.http.held_placements import HeldPlacements, Post, by_name, pod


async def test_only_the_planned_node_passes(post: Post, placements: HeldPlacements) -> None:
    answer = await post("filter", by_name(["n1", "n2", "n3"]))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    assert placements.refusals == []


async def test_a_planned_node_missing_from_the_whole_list_is_noted(
    post: Post, placements: HeldPlacements
) -> None:
    answer = (await post("filter", by_name(["n1", "n3"]))).json()
    assert answer["NodeNames"] == []
    assert answer["Error"] == ""
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n1", "n3"}
    assert "planned on node n2" in answer["FailedAndUnresolvableNodes"]["n1"]
    assert placements.refusals == [("uid-1", "n2")]


async def test_a_list_of_one_other_node_teaches_nothing(post: Post, placements: HeldPlacements) -> None:
    answer = (await post("filter", by_name(["n1"]))).json()
    assert answer["NodeNames"] == []
    assert placements.refusals == []


async def test_a_pod_without_a_place_gets_its_reason_for_every_node(
    post: Post, placements: HeldPlacements
) -> None:
    placements.plan["uid-1"] = Nowhere("busy: 5 of 8 fit now, short of gpu")
    answer = (await post("filter", by_name(["n1", "n2"]))).json()
    reason = "busy: 5 of 8 fit now, short of gpu"
    assert answer["FailedAndUnresolvableNodes"] == {"n1": reason, "n2": reason}
    assert answer["NodeNames"] == []
    assert placements.refusals == []


async def test_a_pod_that_the_watch_has_not_shown_yet_gets_an_error_so_that_it_is_retried(
    post: Post, placements: HeldPlacements
) -> None:
    placements.plan["uid-1"] = Undecided("the pod has not been seen yet")
    answer = (await post("filter", by_name(["n1", "n2"]))).json()
    assert answer["Error"] == "the pod has not been seen yet"
    assert answer["NodeNames"] == []


async def test_equal_requests_get_equal_answers(post: Post) -> None:
    first = (await post("filter", by_name(["n1", "n3"]))).content
    assert (await post("filter", by_name(["n1", "n3"]))).content == first


async def test_foreign_pods_pass_everywhere_even_before_the_service_is_ready(
    post: Post, placements: HeldPlacements
) -> None:
    foreign = pod(scheduler="default-scheduler")
    placements.missing = "listing nodes"
    placements.failure = AssertionError("must not be called")
    answer = (await post("filter", by_name(["n1", "n2"], foreign))).json()
    assert answer["NodeNames"] == ["n1", "n2"]


async def test_a_pod_that_names_no_scheduler_is_not_ours(post: Post) -> None:
    nameless = pod()
    del nameless["spec"]
    assert (await post("filter", by_name(["n1", "n2"], nameless))).json()["NodeNames"] == ["n1", "n2"]


async def test_before_the_service_is_ready_the_error_says_what_is_missing(
    post: Post, placements: HeldPlacements
) -> None:
    placements.missing = "replaying 12 bound pods"
    answer = await post("filter", by_name(["n1", "n2"]))
    assert answer.status_code == 200
    assert answer.json()["Error"] == "not ready: replaying 12 bound pods"
    assert answer.json()["NodeNames"] == []


async def test_an_offer_of_no_names_passes_none(post: Post, placements: HeldPlacements) -> None:
    answer = (await post("filter", by_name([]))).json()
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert placements.refusals == []


async def test_a_failure_behind_filter_is_its_error(
    post: Post, placements: HeldPlacements, metrics: Metrics
) -> None:
    placements.failure = RuntimeError("the plan is broken")
    answer = await post("filter", by_name(["n1", "n2"]))
    assert answer.status_code == 200
    assert (
        answer.json()["Error"] == "internal error in filter: RuntimeError; the extender's log has the details"
    )
    assert answer.json()["NodeNames"] == []
    assert b'fluence_extender_answers_total{outcome="failed",verb="filter"} 1.0' in metrics.render()[0]


async def test_a_name_is_only_found_as_a_whole_name(post: Post, placements: HeldPlacements) -> None:
    placements.plan["uid-1"] = On("n1")
    answer = (await post("filter", by_name(["n10", "xn1", "n1.example", 'a"n1', "n1,n1"]))).json()
    assert answer["NodeNames"] == []


async def test_an_escaped_name_is_found(post: Post) -> None:
    body = (
        b'{"Pod":{"metadata":{"name":"p","namespace":"d","uid":"uid-1"},"spec":{"schedulerName":"fluence"}},'
    )
    assert (await post("filter", body + b'"NodeNames":["a\\"", "\\u006e2"]}')).json()["NodeNames"] == ["n2"]
