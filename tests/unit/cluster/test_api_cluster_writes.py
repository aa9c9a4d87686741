"""Each write against scripted answers: the request that is sent, and the error for each refusal or lost answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster import connection
from fluence_extender.cluster.api import ApiCluster, open_cluster
from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.errors import (
    AlreadyBound,
    ClusterError,
    Conflict,
    Denied,
    Disrupted,
    Gone,
    Invalid,
    NoAnswer,
)
from fluence_extender.model.names import PLACED_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.unit.cluster.fake_api_server import FakeApiServer, answer, drop, hang, refuse

POD = Pod("ns", "p", "u1", gates=("theirs", "ours"))
PATH = "/api/v1/namespaces/ns/pods/p"
GET, PATCH, BIND, EVICT = (
    ("GET", PATH),
    ("PATCH", PATH),
    ("POST", f"{PATH}/binding"),
    ("POST", f"{PATH}/eviction"),
)
STATUS = ("PATCH", f"{PATH}/status")


def now(uid: str = "u1", **spec: Any) -> Any:
    return answer({"metadata": {"name": "p", "namespace": "ns", "uid": uid}, "spec": spec})


@pytest.fixture
async def cluster(connection: Connection) -> Any:
    async with open_cluster(connection) as opened:
        yield opened


async def test_nomination_carries_the_uid(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[STATUS].extend([now(), now()])
    await cluster.nominate(POD, "n1")
    await cluster.nominate(POD, "")
    assert server.bodies == [
        {"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": "n1"}},
        {"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": None}},
    ]


async def test_nominating_a_bound_pod_does_nothing(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[STATUS].append(refuse(422, "may not be set on pods that are already bound to a node"))
    server.scripts[GET].append(now(nodeName="n2"))
    await cluster.nominate(POD, "n1")


async def test_nominating_a_replaced_pod_raises_gone(server: FakeApiServer, cluster: ApiCluster) -> None:
    for refusal in (refuse(422, "uid: field is immutable"), refuse(409, "precondition failed")):
        server.scripts[STATUS].append(refusal)
        server.scripts[GET].append(now("u2"))
        with pytest.raises(Gone, match="another one of that name"):
            await cluster.nominate(POD, "n1")


async def test_nomination_that_is_invalid_for_another_reason_is_an_error(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[STATUS].append(refuse(422, "no", causes=[{"field": "status.nominatedNodeName"}]))
    server.scripts[GET].append(now())
    with pytest.raises(Invalid) as refused:
        await cluster.nominate(POD, "Not A Node")
    assert refused.value.status == 422


async def test_ungating_patch_has_uid_and_gate_and_leaves_other_gates(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].append(now())
    await cluster.ungate(POD, "ours")
    removal = {"$patch": "delete", "name": "ours"}
    assert server.bodies == [{"metadata": {"uid": "u1"}, "spec": {"schedulingGates": [removal]}}]


async def test_ungating_a_pod_without_other_gates_empties_the_list(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].append(now())
    await cluster.ungate(replace(POD, gates=("ours",)), "ours")
    assert server.bodies == [{"metadata": {"uid": "u1"}, "spec": {"schedulingGates": None}}]


async def test_ungating_writes_annotations_in_the_same_patch(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].append(now())
    await cluster.ungate(POD, "ours", {PLACED_ANNOTATION: "2 group/g"})
    (body,) = server.bodies
    assert body["metadata"] == {"uid": "u1", "annotations": {PLACED_ANNOTATION: "2 group/g"}}


async def test_ungating_a_pod_without_the_gate_does_nothing(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    await cluster.ungate(POD, "unknown")
    assert server.requests == []


async def test_ungating_a_replaced_pod_raises_gone(server: FakeApiServer, cluster: ApiCluster) -> None:
    for refusal in (refuse(422, "uid: field is immutable"), refuse(409, "precondition failed")):
        server.scripts[PATCH].append(refusal)
        server.scripts[GET].append(now("u2"))
        with pytest.raises(Gone, match="another one of that name"):
            await cluster.ungate(POD, "ours")


async def test_ungating_that_is_refused_for_another_reason_is_an_error(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[PATCH].append(refuse(409, "the object has been modified"))
    server.scripts[GET].append(now())
    with pytest.raises(Conflict, match="remove gate ours"):
        await cluster.ungate(POD, "ours")


async def test_binding_carries_uid_and_annotations(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[BIND].append(answer({"kind": "Status"}, 201))
    await cluster.bind(POD, "n1", {"a": "b"})
    (body,) = server.bodies
    assert body["metadata"] == {"name": "p", "namespace": "ns", "uid": "u1", "annotations": {"a": "b"}}
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


@pytest.mark.parametrize("fault", [refuse(409, "already assigned"), hang], ids=["409", "time-out"])
async def test_binding_that_took_effect_is_a_success(
    server: FakeApiServer, cluster: ApiCluster, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.Connection.call, "__defaults__", (0.3, True, False))
    server.scripts[BIND].append(fault)
    server.scripts[GET].append(now(nodeName="n1"))
    await cluster.bind(POD, "n1", {})


async def test_binding_cut_off_before_its_answer_is_sent_again(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[BIND].extend([drop, refuse(409, "already assigned")])
    server.scripts[GET].append(now(nodeName="n1"))
    await cluster.bind(POD, "n1", {})
    assert server.count("POST", BIND[1]) == 2


async def test_binding_waits_out_a_busy_api_server(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[BIND].extend([refuse(429, "too many requests"), answer({}, 201)])
    await cluster.bind(POD, "n1", {})


async def test_pod_bound_elsewhere_names_that_node(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[BIND].append(refuse(409, "already assigned"))
    server.scripts[GET].append(now(nodeName="n2"))
    with pytest.raises(AlreadyBound) as refused:
        await cluster.bind(POD, "n1", {})
    assert refused.value.node == "n2"


async def test_pod_that_cannot_be_bound_is_a_conflict_with_the_reason(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[BIND].append(refuse(409, "pod p has non-empty .spec.schedulingGates"))
    server.scripts[GET].append(now())
    with pytest.raises(Conflict, match=r"bind pod ns/p to n1.*schedulingGates"):
        await cluster.bind(POD, "n1", {})


async def test_lost_answer_to_a_binding_raises_no_answer(
    server: FakeApiServer, cluster: ApiCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.Connection.call, "__defaults__", (0.3, True, False))
    server.scripts[BIND].append(hang)
    server.scripts[GET].append(now())
    with pytest.raises(NoAnswer, match=r"bind pod ns/p.*no answer within") as lost:
        await cluster.bind(POD, "n1", {})
    assert lost.value.status == 0
    assert not isinstance(lost.value, Conflict)


async def test_binding_while_the_api_server_is_away_fails_at_once(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    await server.stop()
    with pytest.raises(NoAnswer, match="can't be reached"):
        await cluster.bind(POD, "n1", {})


@pytest.mark.parametrize(
    ("code", "error"), [(403, Denied), (404, Gone), (500, ClusterError)], ids=["403", "404", "500"]
)
async def test_refusals_have_their_own_errors(
    server: FakeApiServer, cluster: ApiCluster, code: int, error: type[ClusterError]
) -> None:
    server.scripts[BIND].append(refuse(code, 'cannot create resource "pods/binding"'))
    with pytest.raises(error, match="pods/binding") as refused:
        await cluster.bind(POD, "n1", {})
    assert refused.value.status == code


async def test_refusal_in_a_terminating_namespace_is_not_a_missing_right(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    ending = {
        "reason": "NamespaceTerminating",
        "field": "metadata.namespace",
        "message": "it is being terminated",
    }
    server.scripts[BIND].append(refuse(403, "unable to create new content", causes=[ending]))
    with pytest.raises(Gone, match="unable to create new content") as refused:
        await cluster.bind(POD, "n1", {})
    assert "Grant" not in str(refused.value)


async def test_eviction_carries_the_uid_and_leaves_an_event(
    server: FakeApiServer, kubeconfig: Any, connection: Connection
) -> None:
    events = "/apis/events.k8s.io/v1/namespaces/ns/events"
    server.scripts[GET].append(now())
    server.scripts[EVICT].append(answer({}, 201))
    server.scripts["POST", events].append(answer({}, 201))
    async with open_cluster(connection) as cluster:
        await cluster.evict(POD, "its gang can't be completed")
    assert server.bodies[0]["deleteOptions"] == {"preconditions": {"uid": "u1"}}
    assert server.bodies[0]["apiVersion"] == "policy/v1"
    assert server.bodies[1]["note"] == "its gang can't be completed"
    assert server.bodies[1]["regarding"]["uid"] == "u1"


async def test_eviction_against_a_budget_is_refused_at_once(
    server: FakeApiServer, cluster: ApiCluster
) -> None:
    server.scripts[GET].append(now())
    server.scripts[EVICT].append(
        refuse(429, "Cannot evict pod as it would violate the pod's disruption budget.")
    )
    with pytest.raises(Disrupted, match="disruption budget"):
        await cluster.evict(POD, "why")
    assert len(server.requests) == 2


async def test_eviction_of_a_replaced_pod_raises_gone(server: FakeApiServer, cluster: ApiCluster) -> None:
    server.scripts[GET].append(now("u2"))
    with pytest.raises(Gone):
        await cluster.evict(POD, "why")
    server.scripts[GET].extend([now(), now("u2")])
    server.scripts[EVICT].append(refuse(409, "the UID in the precondition doesn't match"))
    with pytest.raises(Gone):
        await cluster.evict(POD, "why")
