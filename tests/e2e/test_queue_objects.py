"""Queues and Reservations on a real API server: the queue of a gang, their status, and work whose queue is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from fluence_extender.model.names import DURATION_ANNOTATION, KUEUE_QUEUE_LABEL, QUEUE_LABEL
from tests.e2e.harness import Namespace, annotations_of, node_of, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.queue_objects import PATHS, define, queue_object, undefine
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, ours
from tests.localcluster import Api, ApiError

IN_PHYSICS = {QUEUE_LABEL: "physics"}
NO_SUCH_QUEUE = "no queue: there is no queue physics"


@pytest.fixture
def api(fluence: Fluence, namespace: Namespace) -> Iterator[Api]:
    """The API server; afterwards it serves both kinds, and has none of their objects."""
    yield namespace.api
    define(namespace.api)
    for path in PATHS.values():
        for one in namespace.api.get(path)["items"]:
            with suppress(ApiError):
                namespace.api.delete(f"{path}/{one['metadata']['name']}")


def make(api: Api, kind: str, name: str, **spec: Any) -> None:
    api.create(queue_object(kind, name, **spec))


def status(api: Api, kind: str, name: str) -> Any:
    return api.get(f"{PATHS[kind]}/{name}").get("status", {})


def wait_for_status(api: Api, kind: str, name: str, **expected: Any) -> Any:
    def reached() -> Any:
        found = status(api, kind, name)
        return found if found and all(found.get(key) == value for key, value in expected.items()) else None

    return wait_for(reached, what=f"{kind} {name} to say {expected}", seen=lambda: status(api, kind, name))


def test_status_is_written_and_work_of_a_deleted_queue_waits_until_it_is_back(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    make(api, "Queue", "physics", namespaces={"names": [namespace.name]})
    wait_for_status(api, "Queue", "physics", waiting=0, admitted=0)
    namespace.create(ours("first", cpu="2", labels=IN_PHYSICS))
    namespace.wait_until_bound(1)
    namespace.create(ours("second", cpu="2", labels=IN_PHYSICS))
    found = wait_for_status(api, "Queue", "physics", waiting=1, admitted=1)
    assert namespace.name not in str(found)
    (accepted,) = found["conditions"]
    assert (accepted["type"], accepted["status"]) == ("Accepted", "True")

    api.delete(f"{PATHS['Queue']}/physics")
    fluence.wait_for_reason(namespace.name, "second", NO_SUCH_QUEUE)
    namespace.delete_pod("first")
    make(api, "Queue", "physics")
    namespace.wait_until_bound(1)


def test_definitions_may_go_and_come_back_while_the_service_runs(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(ours("early", cpu="1", labels=IN_PHYSICS))
    fluence.wait_for_reason(namespace.name, "early", NO_SUCH_QUEUE)
    undefine(api)
    namespace.wait_until_bound(1)
    define(api)
    make(api, "Queue", "chemistry", maxDuration="1h")
    wait_for_status(api, "Queue", "chemistry", waiting=0)
    namespace.create(ours("late", cpu="1", labels=IN_PHYSICS))
    fluence.wait_for_reason(namespace.name, "late", f"{NO_SUCH_QUEUE}; the nearest")


def test_namespace_may_submit_once_the_queue_selects_it(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="2")
    make(api, "Queue", "physics", namespaces={"selector": {"matchLabels": {"team": "physics"}}})
    namespace.create(ours("one", cpu="1", labels=IN_PHYSICS))
    fluence.wait_for_reason(namespace.name, "one", f"no queue: namespace {namespace.name} may not submit")
    api.patch(f"/api/v1/namespaces/{namespace.name}", {"metadata": {"labels": {"team": "physics"}}})
    namespace.wait_until_bound(1)


def test_label_of_a_deployment_names_the_queue_of_its_pods_and_rolls_nothing_out(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="1")
    namespace.create(ours("full", cpu="1"))
    namespace.wait_until_bound(1)
    for name in ("physics", "chemistry"):
        make(api, "Queue", name)
    made = deployment("web", ours("x", cpu="1"), 1)
    made["metadata"]["labels"] = IN_PHYSICS
    namespace.create(made)

    def is_in(name: str) -> bool:
        return queue() == name

    def queue() -> str:
        line = [one for one in fluence.items("/v1/queue") if one["namespace"] == namespace.name]
        return line[0]["queue"] if len(line) == 1 else ""

    wait_for(lambda: queue() == "physics", what="the pod to wait in its queue", seen=queue)
    before = {one["metadata"]["uid"] for one in namespace.pods()}
    path = f"/apis/apps/v1/namespaces/{namespace.name}/deployments/web"
    for labels, expected in (
        ({QUEUE_LABEL: "chemistry"}, "chemistry"),
        ({QUEUE_LABEL: None}, "default"),
        ({KUEUE_QUEUE_LABEL: "physics"}, "physics"),
    ):
        api.patch(path, {"metadata": {"labels": labels}})
        wait_for(partial(is_in, expected), what=f"it to be in {expected}", seen=queue)
    assert {one["metadata"]["uid"] for one in namespace.pods()} == before
    assert not annotations_of(api.get(path))[QUEUE_LABEL]


def test_what_is_not_in_force_is_told_in_the_status(api: Api, own_nodes: NodeFactory) -> None:
    (node,) = own_nodes(1, cpu="2")
    make(api, "Queue", "physics", scheduling={"policy": "fcfs"}, defaults={"priorityClassName": "none-such"})
    found = wait_for_status(api, "Queue", "physics", waiting=0)
    (accepted,) = found["conditions"]
    assert (accepted["status"], accepted["reason"]) == ("False", "PartlyIgnored")
    assert accepted["message"] == (
        "spec.scheduling (policy) is ignored: all queues share the nodes, so queue default says it; "
        "spec.defaults.priorityClassName: there is no PriorityClass none-such"
    )
    nodes = {"names": [node, "none-such"]}
    make(api, "Reservation", "upgrade", start="2099-12-01T09:00:00Z", duration="3h", nodes=nodes)
    (accepted,) = wait_for_status(api, "Reservation", "upgrade", nodes=1)["conditions"]
    assert accepted["message"] == "there is no node none-such"


def test_reservation_keeps_its_nodes_from_work_that_would_run_into_it(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    (node,) = own_nodes(1, cpu="4")
    soon = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    make(api, "Queue", "physics")
    make(
        api,
        *("Reservation", "upgrade"),
        start=soon,
        duration="2h",
        nodes={"names": [node]},
        queues=["physics"],
    )
    wait_for_status(api, "Reservation", "upgrade", nodes=1)
    namespace.create(
        ours("endless", cpu="1"),
        ours("short", cpu="1", annotations={DURATION_ANNOTATION: "10m"}),
        ours("team", cpu="1", labels=IN_PHYSICS),
    )
    bound = namespace.wait_until_bound(2)
    assert {one["metadata"]["name"] for one in bound if node_of(one)} == {"short", "team"}
    fluence.wait_for_state(namespace.name, "endless", "waiting")
    api.delete(f"{PATHS['Reservation']}/upgrade")
    namespace.wait_until_bound(3)
