"""Two teams share a real cluster: one borrows, limits hold, and a queue within its guarantee goes first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    DIRECT_SCHEDULER_NAME,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    INTAKE_LABEL,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUE_LABEL,
)
from tests.e2e.editor import editor
from tests.e2e.expected_pods import held, path_of, ranks
from tests.e2e.harness import Manifest, Namespace, annotations_of, node_of, phase_of, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.queue_objects import PATHS, define, queue_object
from tests.e2e.service import Fluence
from tests.e2e.workloads import ours
from tests.localcluster import Api, ApiError, ControlPlane

TEAMS = ("optics", "plasma")


@pytest.fixture
def api(fluence: Fluence, namespace: Namespace) -> Iterator[Api]:
    """The API server; afterwards it has no Queue."""
    define(namespace.api)
    yield namespace.api
    for name in TEAMS:
        with suppress(ApiError):
            namespace.api.delete(f"{PATHS['Queue']}/{name}")


def make(api: Api, name: str, **spec: Any) -> None:
    api.create(queue_object("Queue", name, **spec))


def of(team: str, number: int, **shape: Any) -> Manifest:
    return ours(f"{team}-{number}", cpu="1", labels={QUEUE_LABEL: team}, **shape)


def wait_for_used(api: Api, name: str, used: str, borrowed: str | None) -> Any:
    def reached() -> Any:
        found = api.get(f"{PATHS['Queue']}/{name}").get("status", {})
        same = (found.get("used", {}).get("cpu"), found.get("borrowed", {}).get("cpu")) == (used, borrowed)
        return found if same else None

    return wait_for(reached, what=f"queue {name} to use {used} and borrow {borrowed} of cpu")


def bound(namespace: Namespace, team: str) -> int:
    return sum(bool(node_of(one)) for one in namespace.pods() if one["metadata"]["name"].startswith(team))


def test_team_borrows_up_to_its_limit_and_the_one_within_its_guarantee_goes_first(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    make(api, "optics", guaranteed={"cpu": "2"}, limit={"cpu": "3"})
    make(api, "plasma", guaranteed={"cpu": "2"})
    namespace.create(*(of("optics", number) for number in range(5)))
    namespace.wait_until_bound(3)
    fluence.wait_for_reason(namespace.name, "optics-4", "over quota: queue optics may use 3 cpu (limit.cpu)")
    found = wait_for_used(api, "optics", "3", "1")
    assert (found["waiting"], found["admitted"]) == (2, 3)
    assert found["share"] > 0

    # The last core is free: optics is at its limit, so plasma has it, although optics has waited for longer.
    namespace.create(*(of("plasma", number) for number in range(2)))
    namespace.wait_until_bound(4)
    assert (bound(namespace, "optics"), bound(namespace, "plasma")) == (3, 1)

    # What comes back is plasma's, because optics would borrow it.
    namespace.delete_pod("optics-0")
    namespace.wait_until_bound(4)
    assert (bound(namespace, "optics"), bound(namespace, "plasma")) == (2, 2)
    wait_for_used(api, "optics", "2", None)
    shown = {one["name"]: one for one in fluence.items("/v1/queues")}
    assert (shown["plasma"]["used"]["cpu"], shown["plasma"]["guaranteed"]) == ("2", {"cpu": "2"})


def test_contradiction_is_told_in_the_condition(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    make(api, "optics", parent="nowhere", guaranteed={"cpu": "2"})

    def told() -> str:
        conditions = api.get(f"{PATHS['Queue']}/optics").get("status", {}).get("conditions", [])
        return next((one["message"] for one in conditions if one["status"] == "False"), "")

    assert "there is no queue nowhere" in wait_for(told, what="the missing parent to be told")


def test_owner_takes_back_what_the_other_team_has_borrowed(
    api: Api, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    back = {"reclaim": "Borrowed", "by": "Suspend"}
    make(api, "optics", guaranteed={"cpu": "2"}, preemption=back)
    make(api, "plasma", guaranteed={"cpu": "2"}, preemption=back)

    def job(name: str, team: str) -> Manifest:
        return ranks(name, 2, ours("x", cpu="1", labels={QUEUE_LABEL: team}), backoffLimit=0)

    def runs(*names: str) -> None:
        def there() -> bool:
            found = [
                one["metadata"]["labels"]["batch.kubernetes.io/job-name"]
                for one in namespace.pods()
                if phase_of(one) == "Running" and "deletionTimestamp" not in one["metadata"]
            ]
            return sorted(found) == sorted([*names, *names])

        wait_for(
            there, what=f"two pods each of {', '.join(names)} to run, and no others", seen=namespace.pods
        )

    namespace.create(job("o1", "optics"))
    runs("o1")
    namespace.create(job("o2", "optics"))
    runs("o1", "o2")
    wait_for_used(api, "optics", "4", "2")
    namespace.create(job("p1", "plasma"))
    runs("o1", "p1")
    wait_for_used(api, "optics", "2", None)
    wait_for_used(api, "plasma", "2", None)
    went = api.get(path_of(namespace, "o2"))
    assert held(went)
    assert not went["status"].get("failed")

    # It goes on once there is room, and takes nothing in return.
    fluence.wait_for_reason(namespace.name, "o2", "busy")
    api.delete(path_of(namespace, "p1"), propagationPolicy="Background")
    runs("o1", "o2")


def test_user_cannot_take_what_runs_out_of_its_quota(
    api: Api,
    fluence: Fluence,
    control_plane: ControlPlane,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    (node,) = own_nodes(1, cpu="8")
    make(api, "optics", limit={"cpu": "3"}, defaultFor=[namespace.name])
    make(api, "plasma")
    user = editor(control_plane, namespace)
    path = f"/api/v1/namespaces/{namespace.name}/pods"

    def able() -> bool:
        with suppress(ApiError):
            user.create(of("optics", 0))
            return True
        return False

    wait_for(able, what="the user's rights to be in force")
    train = ranks("train", 2, ours("x", cpu="1", labels={QUEUE_LABEL: "optics"}))
    user.create(train)
    namespace.wait_until_bound(3)
    wait_for_used(api, "optics", "3", None)
    recorded = [annotations_of(one)[PLACED_ANNOTATION] for one in namespace.pods()]
    assert all(" in optics #" in one for one in recorded), recorded

    # The pods lose their Job, and name another queue and another gang.
    born = [one for one in namespace.pods() if "ownerReferences" in one["metadata"]]
    assert len(born) == 2
    assert all(node_of(one) == node for one in born)
    user.api.delete(path_of(namespace, "train"), propagationPolicy="Orphan")
    wait_for(
        lambda: not any("ownerReferences" in one["metadata"] for one in namespace.pods()),
        what="the pods to be orphaned",
    )
    for one in namespace.pods():
        name = one["metadata"]["name"]
        user.api.patch(
            f"{path}/{name}", {"metadata": {"labels": {QUEUE_LABEL: "plasma", GROUP_LABEL: f"g-{name}"}}}
        )
        for forged in ("1 pod/x in plasma", None):
            with pytest.raises(ApiError, match="stays as it is"):
                user.api.patch(f"{path}/{name}", {"metadata": {"annotations": {PLACED_ANNOTATION: forged}}})
    user.create(of("optics", 1))
    fluence.wait_for_reason(namespace.name, "optics-1", "over quota: queue optics may use 3 cpu (limit.cpu)")
    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, "optics-1", "over quota: queue optics may use 3 cpu (limit.cpu)")
    wait_for_used(api, "optics", "3", None)

    # Nor does a pod that looks like a Job's bring its node.
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    forgery = ours(
        "forgery",
        annotations={NODES_ANNOTATION: node, COMPLETION_INDEX: "0", PLACED_ANNOTATION: "1 job/j in plasma"},
    )
    forgery["metadata"]["ownerReferences"] = [owner]
    stored = user.api.request("POST", path, forgery, query={"dryRun": "All"})
    assert NODES_ANNOTATION not in annotations_of(stored)
    assert "nodeName" not in stored["spec"]

    namespace.delete_pod("optics-0")
    namespace.wait_for_phase("optics-1", "Running")


def test_forged_record_is_not_believed_after_a_restart_where_all_pods_are_taken_in(
    control_plane: ControlPlane,
    api: Api,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    installation: Installation,
) -> None:
    (node,) = own_nodes(1, cpu="8")
    make(api, "optics", limit={"cpu": "1"}, defaultFor=[namespace.name])
    make(api, "plasma", namespaces={"names": ["elsewhere"]})
    api.patch(f"/api/v1/namespaces/{namespace.name}", {"metadata": {"labels": {INTAKE_LABEL: "all"}}})
    namespace.create(of("optics", 0))
    namespace.wait_for_phase("optics-0", "Running")

    def taken_in() -> bool:
        probe = ours("probe", schedulerName="default-scheduler")
        path = f"/api/v1/namespaces/{namespace.name}/pods"
        made = api.request("POST", path, probe, query={"dryRun": "All"})
        return bool(made["spec"]["schedulerName"] == DIRECT_SCHEDULER_NAME)

    wait_for(taken_in, what="the intake to be in force")
    user = editor(control_plane, namespace)
    body = ranks(
        "forger",
        2,
        ours(
            "x",
            cpu="1",
            schedulerName="default-scheduler",
            labels={GROUP_LABEL: "forged"},
            annotations={
                GROUP_SIZE_ANNOTATION: "2",
                PLACED_ANNOTATION: "2 group/forged in plasma #AAAAAAAAAAAAAAAA",
            },
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                        ]
                    }
                }
            },
        ),
    )
    wait_for(lambda: not refused(user, body), what="the user's rights to be in force")
    namespace.wait_for_pods(lambda found: len(found) == 3, "all pods")
    installation.crash()
    installation.revive()
    fluence.wait_for_reason(namespace.name, "forged", "over quota: queue optics may use 1 cpu (limit.cpu)")
    assert [node_of(one) for one in namespace.pods() if "forger" in one["metadata"]["name"]] == ["", ""]
    wait_for_used(api, "optics", "1", None)


def refused(user: Namespace, body: Manifest) -> bool:
    try:
        user.create(body)
    except ApiError:
        return True
    return False
