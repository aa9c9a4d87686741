"""Gangs that ask for nodes by a ProvisioningRequest: one for the whole gang, followed and withdrawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.errors import Conflict, Denied
from fluence_extender.cluster.port import Kind
from fluence_extender.gangs.lifecycle.growth import ASKED, LET_GO, NONE_YET
from fluence_extender.gangs.lifecycle.node_requests import MOST_OWNERS, request_name
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import ATOMIC_CLASS, CLASS_ANNOTATION, CONSUMES_ANNOTATION
from fluence_extender.model.pod import ClaimRef, Pod
from fluence_extender.model.provisioning import NodeRequest, ProvisioningRequest
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang
from tests.unit.gangs.test_growth import GROWING, asking, events, join

LIMITS = replace(GROWING, taken_up=60.0, grow_within=300.0)


def serve(w: World, served: bool = True) -> None:
    """Have ProvisioningRequests served from now on, or not any more."""
    change = w.cluster.unserved.discard if served else w.cluster.unserved.add
    change(Kind.PROVISIONING_REQUEST)
    if not served:
        for one in requests(w).values():
            w.cluster.remove(one)
    w.cluster.relist(Kind.PROVISIONING_REQUEST)


@pytest.fixture
def served(world: MakeWorld) -> World:
    """A cluster that serves ProvisioningRequests."""
    w = world(node("n0"), limits=LIMITS)
    serve(w)
    return w


def requests(w: World) -> dict[str, ProvisioningRequest]:
    """The requests that exist."""
    found = w.cluster._list(Kind.PROVISIONING_REQUEST).objects
    return {one.name: one for one in found if isinstance(one, ProvisioningRequest)}


def the_request(w: World) -> ProvisioningRequest:
    """The only request."""
    (found,) = requests(w).values()
    return found


def asked(w: World) -> NodeRequest:
    """What the only request asks for."""
    (found,) = w.cluster.asked.values()
    return found


def say(w: World, **said: Any) -> None:
    """Let the autoscaler write the status of the only request."""
    w.cluster.put(replace(the_request(w), **said))
    w.advance(1)


def consumed(w: World, *pods: Pod) -> list[Mapping[str, str]]:
    """Which request each pod names, with its class."""
    keys = CONSUMES_ANNOTATION, CLASS_ANNOTATION
    return [{key: value for key, value in w.now(one).annotations.items() if key in keys} for one in pods]


def test_one_request_asks_for_the_whole_gang_and_its_pods_do_not(served: World) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000, 2000)
    w.advance(15)
    wanted = asked(w)
    assert [(one.count, one.pod.requests["cpu"]) for one in wanted.sets] == [(2, 3000), (1, 2000)]
    assert (wanted.namespace, wanted.class_name) == ("default", ATOMIC_CLASS)
    assert {one.uid for one in wanted.owners} == {one.uid for one in pods}
    assert not any(asking(w, *pods))
    assert events(w, ASKED)
    w.advance(30)
    assert [verb for verb, _ in w.cluster.calls].count("request_nodes") == 1


def test_request_goes_when_the_gang_has_its_nodes_and_its_pods_name_it(served: World) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    name = the_request(w).name
    say(w, accepted=True)
    join(w, "new-1")
    assert requests(w)
    (small,) = gang(w, "small", 4000)
    w.advance(5)
    assert w.nodes_of(small) == ["n0"]
    w.change(w.now(small), phase="Succeeded")
    join(w, "new-2")
    w.advance(10)
    assert sorted(w.nodes_of(*pods)) == ["n0", "new-1", "new-2"]
    assert consumed(w, *pods) == [{CONSUMES_ANNOTATION: name, CLASS_ANNOTATION: ATOMIC_CLASS}] * 3
    assert not requests(w)


def test_request_of_a_gang_that_is_deleted_goes(served: World) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000)
    w.advance(15)
    assert requests(w)
    for one in pods:
        w.cluster.delete(w.now(one))
    w.advance(90)
    assert not requests(w)


def test_suspended_job_asks_without_pods(served: World) -> None:
    w = served
    job = w.jobs.submit("train", 8)
    w.advance(15)
    (only,) = asked(w).sets
    assert (only.count, only.job) == (8, w.cluster.job(job))
    assert [one.kind for one in asked(w).owners] == ["Job"]
    assert not w.jobs.pods(job)
    join(w, "new-1")
    w.advance(10)
    assert sorted(w.jobs.nodes(job)) == ["n0"] * 4 + ["new-1"] * 4
    assert not requests(w)


def test_autoscaler_without_capacity_is_quoted_and_asked_until_the_time_is_over(served: World) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000)
    w.advance(15)
    say(w, accepted=True, refusal="Capacity is not found")
    say(w, accepted=True, refusal="Capacity is not found")
    assert len(events(w, NONE_YET)) == len(pods)
    w.advance(200)
    assert requests(w)
    assert not events(w, LET_GO)
    w.advance(150)
    assert not requests(w)
    assert events(w, LET_GO)
    w.advance(560)
    assert requests(w)


@pytest.mark.parametrize("end", ["failed", "deleted"])
def test_failed_request_lets_go_of_what_came_and_is_made_again_later(served: World, end: str) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    say(w, accepted=True)
    join(w, "new-1")
    more = gang(w, "more", 3000, 3000)
    w.advance(5)
    assert w.nodes_of(*more) == ["", ""]
    if end == "failed":
        say(w, failure="quota exceeded")
    else:
        w.cluster.remove(the_request(w))
    w.advance(10)
    assert sorted(w.nodes_of(*more)) == ["n0", "new-1"]
    (told, *_) = [one for one in w.cluster.events if one.reason == LET_GO]
    assert ("quota exceeded" if end == "failed" else "was deleted") in told.message
    assert "asks for nodes again in 10 minutes" in told.message
    assert not requests(w)
    assert not any(asking(w, *pods))
    w.advance(620)
    assert requests(w)


@pytest.mark.parametrize("error", [Denied("provisioningrequests is forbidden", 403), Conflict("exists", 409)])
def test_pods_ask_where_the_request_is_refused(served: World, error: Exception) -> None:
    w = served
    w.cluster.fail("request_nodes", error)
    pods = gang(w, "train", 3000, 3000)
    w.advance(20)
    assert not requests(w)
    assert all(asking(w, *pods))
    assert any(str(error) in one.message for one in w.cluster.events if one.reason == ASKED)


def test_request_is_written_again_if_there_was_no_answer(served: World) -> None:
    w = served
    w.cluster.fail("request_nodes", times=3)
    pods = gang(w, "train", 3000, 3000)
    w.advance(40)
    assert requests(w)
    assert not any(asking(w, *pods))


def test_pods_ask_if_no_autoscaler_takes_the_request_up(served: World) -> None:
    w = served
    first = gang(w, "first", 3000, 3000)
    w.advance(60)
    assert requests(w)
    w.advance(30)
    assert not requests(w)
    assert all(asking(w, *first))
    second = gang(w, "second", 3000, 3000)
    w.advance(15)
    assert not requests(w)
    assert all(asking(w, *second))
    join(w, "new-1")
    w.advance(3)
    assert all(w.nodes_of(*first))


def test_kind_that_is_served_later_is_used_from_then_on(world: MakeWorld) -> None:
    w = world(node("n0"), limits=LIMITS)
    first = gang(w, "first", 3000, 3000)
    w.advance(15)
    assert all(asking(w, *first))
    serve(w)
    second = gang(w, "second", 3000, 3000)
    w.advance(15)
    assert all(asking(w, *first))
    assert the_request(w).name == request_name(w.gang("second").key)
    assert not any(asking(w, *second))


def test_pods_ask_if_the_kind_is_not_served_any_more(served: World) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000)
    w.advance(15)
    serve(w, False)
    w.advance(10)
    assert all(asking(w, *pods))
    assert not events(w, LET_GO)


def test_restart_goes_on_with_the_request_and_its_time(served: World) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000, 3000)
    w.advance(15)
    say(w, accepted=True)
    before = the_request(w)
    join(w, "new-1")
    w.restart()
    more = gang(w, "more", 3000, 3000)
    w.advance(5)
    assert the_request(w).uid == before.uid
    assert w.nodes_of(*more) == ["", ""]
    join(w, "new-2")
    w.advance(5)
    assert all(w.nodes_of(*pods))
    w.advance(5)
    assert before.name not in requests(w)


@pytest.mark.parametrize("how", ["without the setting", "without the gang"])
def test_restart_withdraws_what_is_not_wanted_any_more(served: World, how: str) -> None:
    w = served
    pods = gang(w, "train", 3000, 3000)
    w.advance(15)
    assert requests(w)
    w.kill()
    if how == "without the setting":
        w.limits = replace(LIMITS, grow_after=None)
    else:
        for one in pods:
            w.cluster.delete(w.now(one))
    w.start()
    w.advance(90)
    assert not requests(w)


def test_requests_of_users_are_left_alone_and_what_their_pods_name_is_not_asked_for(served: World) -> None:
    w = served
    key = GangKey("default", "train", Convention.LABEL)
    theirs = [ProvisioningRequest("default", name, "u") for name in ("mine", request_name(key))]
    w.cluster.put(theirs[0])
    pods = gang(w, "train", 3000, 3000)
    for one in pods:
        w.change(w.now(one), annotations={**w.now(one).annotations, CONSUMES_ANNOTATION: "mine"})
    w.advance(100)
    assert requests(w) == {"mine": theirs[0]}
    assert not any(asking(w, *pods))


def test_gang_with_claims_of_devices_or_too_many_shapes_asks_by_its_pods(served: World) -> None:
    w = served
    shapes = gang(w, "shapes", *range(3000, 3033))
    claims = gang(w, "claims", 3000, 3000, claim_refs=(ClaimRef("gpu", template="t"),))
    w.advance(15)
    assert not requests(w)
    assert all(asking(w, *shapes))
    assert w.gang("claims").reason is not None
    assert not [one for one in w.cluster.asked if "claims" in one[1]]
    assert claims


def test_large_gang_of_loose_pods_names_some_of_them_as_owners(served: World) -> None:
    w = served
    gang(w, "wide", *[1000] * 50)
    w.advance(15)
    assert len(asked(w).owners) == MOST_OWNERS


def test_name_of_a_request_is_one_that_the_api_server_takes() -> None:
    names = [
        request_name(GangKey("default", name, convention))
        for name in ("Train_1.x", "train-1-x", "-", "ä" * 90, "x" * 300)
        for convention in (Convention.LABEL, Convention.JOB)
    ]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= 60
        assert name.strip("abcdefghijklmnopqrstuvwxyz0123456789-") == ""
        assert name[0].isalnum()
