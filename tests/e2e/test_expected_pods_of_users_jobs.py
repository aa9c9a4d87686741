"""Jobs placed before their pods exist, and what their users do to them meanwhile; the test plays the leader."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fluence_extender.model.names import (
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from tests.e2e.expected_pods import (
    Leader,
    as_created_by_its_job,
    created,
    held,
    is_direct,
    keys_of,
    path_of,
    pods_of,
    ranks,
    refusal,
    resumed,
    suspended,
    tried,
)
from tests.e2e.harness import Manifest, Namespace, annotations_of, pod, wait_for
from tests.e2e.workloads import ours
from tests.localcluster import Api, ControlPlane

RBAC = "rbac.authorization.k8s.io"
COPIED = {SUSPENDED_FOR_ANNOTATION: SUSPENDED_FOR_PLACEMENT}
NODES = {"spec": {"template": {"metadata": {"annotations": {NODES_ANNOTATION: "n,n"}}}}}

Again = Callable[[Manifest], None]


@pytest.fixture
def user(control_plane: ControlPlane, namespace: Namespace, leader: Leader) -> Namespace:
    """The test's namespace, accessed as a user whose only right is the role ``edit`` there."""
    name = f"user-of-{namespace.name}"
    namespace.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "user"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
        }
    )
    seen = Namespace(namespace.name, Api(control_plane.kubeconfig_for(name)))
    wait_for(lambda: tried(seen, ranks("probe", 2)), what="the user's rights to be in force")
    return seen


@pytest.fixture(
    params=["kubectl apply", "kubectl apply --server-side", "server-side apply of another client"]
)
def again(request: pytest.FixtureRequest, user: Namespace, tmp_path: Path) -> Again:
    """Applies a manifest as the user does, each time in the same way."""
    file = tmp_path / "manifest.json"
    beside = Path(sys.executable).parent / "kubectl"
    kubectl = str(beside) if beside.exists() else str(shutil.which("kubectl"))

    def apply(manifest: Manifest) -> None:
        if "client" in request.param:
            user.api.apply(manifest, user.name, manager="argocd-controller")
            return
        file.write_text(json.dumps(manifest))
        how = request.param.split()[1:]
        where = (f"--kubeconfig={user.api.kubeconfig}", f"--cache-dir={tmp_path}", f"--namespace={user.name}")
        done = subprocess.run(
            [kubectl, *how, *where, "-f", str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    return apply


def now(namespace: Namespace, name: str = "train") -> Manifest:
    return namespace.api.get(path_of(namespace, name))


@pytest.mark.parametrize("said", [{}, {"suspend": False}], ids=["unsaid", "suspend: false"])
def test_manifest_that_is_applied_again_neither_stops_nor_restarts_a_running_job(
    leader: Leader, namespace: Namespace, again: Again, said: dict[str, Any]
) -> None:
    manifest = ranks("train", 2, **said)
    again(manifest)
    assert held(now(namespace))
    leader.resume(namespace, "train", ["a", "b"])
    before = [one["metadata"]["uid"] for one in pods_of(namespace, 2)]
    wait_for(lambda: now(namespace)["status"].get("active") == 2, what="the Job controller")
    generation = now(namespace)["metadata"]["generation"]
    again(manifest)
    again(manifest | {"metadata": {"name": "train", "labels": {"changed": "yes"}}})
    after = now(namespace)
    assert after["metadata"]["labels"]["changed"] == "yes"
    assert after["metadata"]["generation"] == generation
    assert after["spec"]["suspend"] is False
    assert keys_of(after) == {NODES_ANNOTATION, PLACED_ANNOTATION}
    assert [one["metadata"]["uid"] for one in pods_of(namespace, 2)] == before


@pytest.mark.parametrize("said", [{}, {"suspend": False}], ids=["unsaid", "suspend: false"])
def test_manifest_that_is_applied_again_resumes_a_waiting_job_only_if_it_says_so(
    namespace: Namespace, again: Again, said: dict[str, Any]
) -> None:
    manifest = ranks("train", 2, **said)
    again(manifest)
    again(manifest)
    assert held(now(namespace)) is not bool(said)
    if said:
        # Its pods wait, and a suspension from now on is its user's.
        assert keys_of(now(namespace)) == set()
        assert all(map(is_direct, pods_of(namespace, 2)))


def test_copies_of_our_keys_are_taken_off_a_new_job(user: Namespace) -> None:
    body = ranks("copy", 2, ours("x", annotations={NODES_ANNOTATION: "n,n", "a": "b"}))
    body["metadata"]["annotations"] = COPIED
    stored = tried(user, body)
    assert held(stored)
    assert keys_of(stored) == {SUSPENDED_FOR_ANNOTATION}
    assert stored["spec"]["template"]["metadata"]["annotations"] == {"a": "b"}
    body["spec"]["suspend"] = True
    assert keys_of(tried(user, body)) == set()


def test_user_can_not_have_a_job_placed_where_he_likes(user: Namespace) -> None:
    created(user, ranks("train", 2))
    path = path_of(user, "train")
    assert "are written by fluence" in refusal(lambda: user.api.patch(path, NODES))
    begun = {"spec": {"template": {"metadata": {"annotations": {PLACED_ANNOTATION: "2 job/train"}}}}}
    assert "are written by fluence" in refusal(lambda: user.api.patch(path, begun))
    resuming = {"spec": {**NODES["spec"], "suspend": False}}
    assert "are written by fluence" in refusal(lambda: user.api.patch(path, resuming))
    assert held(now(user))


def test_suspension_of_a_user_can_not_be_declared_ours(user: Namespace) -> None:
    created(user, ranks("train", 2, suspend=True))
    patch = {"metadata": {"annotations": COPIED}}
    assert "is written when a Job is created" in refusal(
        lambda: user.api.patch(path_of(user, "train"), patch)
    )
    for text in ("placement", "lunch"):
        body = ranks("late", 1, suspend=False)
        body["metadata"]["annotations"] = {SUSPENDED_FOR_ANNOTATION: text}
        assert keys_of(tried(user, body)) == set()


def test_user_may_take_over_a_suspension(user: Namespace) -> None:
    created(user, ranks("train", 2))
    user.api.patch(path_of(user, "train"), {"metadata": {"annotations": {SUSPENDED_FOR_ANNOTATION: None}}})
    assert now(user)["spec"]["suspend"] is True
    assert keys_of(now(user)) == set()


def test_job_that_its_user_resumes_is_his_to_suspend(user: Namespace, leader: Leader) -> None:
    created(user, ranks("train", 2))
    path = path_of(user, "train")
    user.api.patch(path, {"spec": {"suspend": False}})
    assert keys_of(now(user)) == set()
    assert all(map(is_direct, pods_of(user, 2)))
    user.api.patch(path, {"spec": {"suspend": True}})
    assert keys_of(now(user)) == set()
    pods_of(user, 0)


def test_job_that_its_user_suspends_and_resumes_keeps_its_plan(
    user: Namespace, namespace: Namespace, leader: Leader
) -> None:
    resumed(leader, namespace, ranks("train", 2), "a", "b")
    pods_of(namespace, 2)
    user.api.patch(path_of(user, "train"), {"spec": {"suspend": True}})
    pods_of(namespace, 0)
    assert not held(now(user))
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    user.api.patch(path_of(user, "train"), {"spec": {"suspend": False}})
    assert annotations_of(now(user)["spec"]["template"])[NODES_ANNOTATION] == "a,b"
    assert all(map(is_direct, pods_of(namespace, 2)))


def test_plan_that_a_user_wrote_on_a_bare_pod_is_none(user: Namespace) -> None:
    body = as_created_by_its_job("a;2999-01-01T00:00:00Z")
    body["metadata"]["annotations"][PLACED_ANNOTATION] = "1 job/j"
    assert is_direct(tried(user, body))
    del body["metadata"]["ownerReferences"]
    assert is_direct(tried(user, body))


def test_deadline_of_a_job_begins_when_it_is_resumed(leader: Leader, namespace: Namespace) -> None:
    limits: dict[str, Any] = {"activeDeadlineSeconds": 20, "ttlSecondsAfterFinished": 600}
    created(namespace, ranks("train", 2, **limits))
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    time.sleep(2)
    assert "startTime" not in now(namespace)["status"]
    leader.resume(namespace, "train", ["a", "b"])
    wait_for(lambda: now(namespace)["status"].get("startTime"), what="the Job to start")
    job = now(namespace)
    begun = datetime.fromisoformat(job["status"]["startTime"])
    assert (begun - datetime.fromisoformat(job["metadata"]["creationTimestamp"])).total_seconds() >= 2
    assert limits.items() <= job["spec"].items()
    assert not any(one["type"] == "Failed" for one in job["status"]["conditions"])


def test_account_of_the_service_creates_no_pods(leader: Leader, namespace: Namespace) -> None:
    assert tried(namespace, ours("trial"), leader.api)
    attempts = iter(range(10_000))

    def refused() -> bool:
        body = pod(f"real-{next(attempts)}", scheduler="nobody")
        return "as a dry run" in refusal(lambda: leader.api.create(body, namespace.name))

    wait_for(refused, what="the policy to count")
    assert "as a dry run" in refusal(lambda: leader.api.create(ours("real"), namespace.name))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"suspend": False, "parallelism": 3, "completions": 3}}, "changes nothing else"),
        ({"spec": {"suspend": False, "activeDeadlineSeconds": 1}}, "changes nothing else"),
        ({"spec": {"suspend": False, "backoffLimit": 0}}, "changes nothing else"),
        ({"spec": {"suspend": False, "ttlSecondsAfterFinished": 0}}, "changes nothing else"),
        ({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}, "changes nothing else"),
        ({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}, "changes nothing else"),
        ({"metadata": {"labels": {"a": "b"}}}, "changes nothing else"),
        ({"metadata": {"finalizers": ["a.example.com/b"]}}, "changes nothing else"),
        ({"metadata": {"annotations": {"a": "b"}}}, "its own annotations"),
        ({"metadata": {"annotations": {"kept": None}}}, "its own annotations"),
        ({"metadata": {"annotations": {NODES_ANNOTATION: "n"}}}, "its own annotations"),
        ({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}, "its own annotations"),
    ],
)
def test_account_of_the_service_changes_nothing_else_of_a_job(
    leader: Leader, namespace: Namespace, change: Manifest, why: str
) -> None:
    body = ranks("train", 2)
    body["metadata"]["annotations"] = {"kept": "yes"}
    created(namespace, body)
    path = path_of(namespace, "train")
    wait_for(
        lambda: "fluence-accounts-jobs" in refusal(lambda: leader.api.patch(path, change)),
        what="the policy to count",
    )
    assert why in refusal(lambda: leader.api.patch(path, change))


@pytest.mark.parametrize(
    "body",
    [
        ranks("train", 2, suspend=True),
        ranks("train", 2, pod("x"), suspend=True),
        ranks("train", 1),
    ],
    ids=["held by its user", "of another scheduler", "running"],
)
def test_account_of_the_service_leaves_other_jobs_alone(
    leader: Leader, namespace: Namespace, body: Manifest
) -> None:
    created(namespace, body)
    other = {"spec": {"suspend": not body["spec"].get("suspend")}}
    assert "fluence-accounts-jobs" in refusal(lambda: leader.api.patch(path_of(namespace, "train"), other))
