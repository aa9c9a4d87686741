"""Jobs whose pods a ResourceQuota of their namespace would refuse hold no places."""

from __future__ import annotations

from functools import partial

from tests.e2e.expected_pods import held, path_of
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.test_expected_pods import controllers_frozen, cores, delete, running
from tests.localcluster import ControlPlane


def limit(namespace: Namespace, spec: Manifest) -> None:
    """Give the namespace a ResourceQuota, and wait until its controller has counted."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": spec}
    namespace.create(body)
    wait_for(lambda: quota(namespace).get("status", {}).get("used"), what="the quota to be counted")


def quota(namespace: Namespace) -> Manifest:
    return namespace.api.get(f"/api/v1/namespaces/{namespace.name}/resourcequotas/team")


def waiting(namespace: Namespace, *names: str) -> list[str]:
    """Which of the Jobs are suspended until they are placed."""
    return [one for one in names if held(namespace.api.get(path_of(namespace, one)))]


def fewer(namespace: Namespace, names: list[str]) -> bool:
    return len(waiting(namespace, *names)) < len(names)


def test_job_waits_until_the_quota_has_room_for_all_its_pods(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(3, cpu="4")
    limit(namespace, {"hard": {"pods": "5"}})
    namespace.create(cores("large", 6))
    told = "over quota: ResourceQuota team has no room for all its pods (pods)"
    fluence.wait_for_reason(namespace.name, "large", told)
    namespace.create(cores("small", 4))
    running(namespace, 4)
    assert waiting(namespace, "large", "small") == ["large"]
    path = f"/api/v1/namespaces/{namespace.name}/resourcequotas/team"
    namespace.api.patch(path, {"spec": {"hard": {"pods": "10"}}})
    running(namespace, 10)


def test_jobs_that_are_resumed_together_hold_no_more_places_than_the_quota_has_room_for(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, control_plane: ControlPlane
) -> None:
    own_nodes(4, cpu="4")
    limit(namespace, {"hard": {"requests.cpu": "5"}, "scopes": ["NotTerminating", "NotBestEffort"]})
    names = [f"j{number}" for number in range(5)]
    with controllers_frozen(control_plane):
        namespace.create(*(cores(name, 2) for name in names))
        wait_for(lambda: len(waiting(namespace, *names)) == 3, what="two Jobs to be resumed")
        for name in waiting(namespace, *names):
            fluence.wait_for_reason(namespace.name, name, "over quota: ResourceQuota team")
        assert len(waiting(namespace, *names)) == 3
    running(namespace, 4)
    while left := waiting(namespace, *names):
        done = next(one for one in names if one not in left)
        names.remove(done)
        delete(namespace, done)
        wait_for(partial(fewer, namespace, left), what="the next Job")
        running(namespace, 4)
