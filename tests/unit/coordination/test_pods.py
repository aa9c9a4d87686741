"""The sidecar reads and patches pods by the calls that its Role allows."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from fluence_extender.cluster.connection import STRATEGIC_PATCH, ApiRequest, Connection
from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.coordination.pods import ApiPods
from fluence_extender.model.coordination import READY_GATE
from tests.unit.coordination.fake_pods import consumer

PODS = "/api/v1/namespaces/ns/pods"


class Api:
    """Answers requests in order, and records them."""

    def __init__(self, *answers: bytes | ClusterError) -> None:
        self.requests: list[ApiRequest] = []
        self._answers = list(answers)

    async def call(self, request: ApiRequest) -> bytes:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return answer


def pods(api: Api) -> ApiPods:
    return ApiPods(cast(Connection, api), "ns", "lead", "uid-lead")


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "spec": {"containers": []}}


def page(name: str, more: str = "") -> bytes:
    return json.dumps({"metadata": {"continue": more}, "items": [pod(name)]}).encode()


async def test_group_is_read_through_all_pages() -> None:
    api = Api(page("a", "next"), page("b"))
    assert [one.name for one in await pods(api).group("g")] == ["a", "b"]
    assert {request.path for request in api.requests} == {PODS}


async def test_named_pods_that_are_gone_are_left_out() -> None:
    api = Api(json.dumps(pod("a")).encode(), Gone("not found", 404))
    assert [one.name for one in await pods(api).named(["a", "b"])] == ["a"]
    assert [request.path for request in api.requests] == [f"{PODS}/a", f"{PODS}/b"]


async def test_release_annotates_and_removes_our_gate_in_one_patch() -> None:
    api = Api(b"{}")
    await pods(api).release(consumer("a"), {"key": "value"})
    (request,) = api.requests
    assert (request.method, request.path) == ("PATCH", f"{PODS}/a")
    assert request.content_type == STRATEGIC_PATCH
    assert request.body == {
        "metadata": {"uid": "uid-a", "annotations": {"key": "value"}},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": READY_GATE}]},
    }


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b'{"metadata": 5}'])
async def test_unreadable_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(ClusterError, match="can't be read"):
        await pods(Api(answer)).own()
    with pytest.raises(ClusterError, match="can't be read"):
        await pods(Api(answer)).group("g")
