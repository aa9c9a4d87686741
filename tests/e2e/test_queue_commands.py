"""The queue as users meet it: kubectl through the API server, with no more than their own rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fluence_extender.model.names import AFTER_ANNOTATION, HOLD_ANNOTATION
from tests.e2e.expected_pods import ranks
from tests.e2e.harness import RUN_FOR, Cluster, Manifest, Namespace, annotations_of, job, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import Plugin, user_shell
from tests.e2e.proxied import behind_proxy
from tests.e2e.service import Fluence
from tests.e2e.test_state_access import bound
from tests.e2e.workloads import ours
from tests.localcluster import Api, ControlPlane

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LOOK = ("queue", "show", "-o", "json")


@pytest.fixture(scope="module", autouse=True)
def exposed(installation: Installation) -> Iterator[None]:
    """The service is reached through the API server while this module runs."""
    with behind_proxy(installation):
        yield


@pytest.fixture
def user(control_plane: ControlPlane, cluster: Cluster, namespace: Namespace) -> Iterator[Path]:
    """The kubeconfig of a user with the role ``edit`` in the test's namespace, who may ask the service."""
    name = f"ada-{namespace.name}"
    subjects = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
    edit = bound("RoleBinding", "edit", name, subjects)
    cluster.api.apply(edit | {"metadata": {"name": name, "namespace": namespace.name}})
    cluster.api.apply(bound("ClusterRoleBinding", "fluence-view", name, subjects))
    yield control_plane.kubeconfig_for(name)
    cluster.api.delete(f"{BINDINGS}/{name}")


@pytest.fixture
def shell(user: Path, namespace: Namespace, tmp_path: Path) -> Plugin:
    """The user's shell."""
    shell = user_shell(user, namespace.name, tmp_path)
    wait_for(lambda: shell.fluence(*LOOK).returncode == 0, what="the user's rights to be in force")
    return shell


def line(shell: Plugin) -> dict[str, Manifest]:
    """The gangs in line that the user sees, by name."""
    ended = shell.fluence(*LOOK)
    assert ended.returncode == 0, ended.stderr
    return {one["name"]: one for one in json.loads(ended.stdout)["items"]}


def noted(manifest: Manifest, **annotations: str) -> Manifest:
    """The object with annotations of its own."""
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def test_user_holds_and_releases_his_own_job_and_sees_its_place(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, user: Path, shell: Plugin
) -> None:
    own_nodes(1, cpu="4")

    def told() -> set[tuple[str, str]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events"
        ours = ("Held", "Admitted")
        return {
            (one["reason"], one["type"]) for one in namespace.api.get(path)["items"] if one["reason"] in ours
        }

    mine = Namespace(namespace.name, Api(user))
    mine.create(noted(ranks("train", 2, ours("x", cpu="1")), **{HOLD_ANNOTATION: "true"}))
    wait_for(lambda: line(shell).get("train", {}).get("why") == "Held", what="the Job to be held")
    found = line(shell)["train"]
    assert (found["position"], found["held"], found["queue"]) == (1, True, "default")
    assert found["user"] == f"ada-{namespace.name}"
    assert f"annotation {HOLD_ANNOTATION} is true" in found["reason"]
    assert not namespace.pods()
    shown = shell.fluence("why", "train").stdout
    assert "queue     default, place 1 in line" in shown
    assert "Held" in shell.fluence("jobs", "-o", "wide").stdout
    # A reason is announced once it has stood for a moment.
    wait_for(lambda: told() == {("Held", "Normal")}, what="the hold to be announced", seen=told)
    ended = shell.fluence("queue", "release", "train")
    assert (ended.returncode, ended.stdout) == (0, "job.batch/train annotated\n"), ended.stderr
    namespace.wait_until_bound(2)
    wait_for(lambda: "train" not in line(shell), what="the line to be empty")

    wait_for(lambda: told() == {("Held", "Normal"), ("Admitted", "Normal")}, what="the events", seen=told)


def test_job_starts_after_the_one_it_waits_for(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, user: Path, shell: Plugin
) -> None:
    own_nodes(1, cpu="4")
    mine = Namespace(namespace.name, Api(user))
    main = ranks("main", 2, ours("x", cpu="1"))
    mine.create(noted(main, **{AFTER_ANNOTATION: "ok:job/prep"}))

    def reason() -> str:
        return str(line(shell).get("main", {}).get("reason", ""))

    wait_for(
        lambda: "Job prep, which doesn't exist" in reason(), what="the dependency to be named", seen=reason
    )
    mine.create(job("prep", ours("x", cpu="1", annotations={RUN_FOR: "6s"})))
    wait_for(lambda: reason() == "waits for Job prep to succeed", what="main to wait", seen=reason)
    assert {one["metadata"]["labels"]["batch.kubernetes.io/job-name"] for one in namespace.pods()} == {"prep"}
    namespace.wait_until_bound(3)
    (first,) = namespace.pods(**{"batch.kubernetes.io/job-name": "prep"})
    assert first["status"]["phase"] == "Succeeded"


def test_rights_of_the_user_limit_what_he_holds(
    fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory, shell: Plugin
) -> None:
    own_nodes(1, cpu="4")
    cluster.api.create(ours("theirs", cpu="1"), "default")
    try:
        fluence.wait_for_state("default", "theirs", "bound")
        ended = shell.fluence("queue", "hold", "pod/theirs", "-n", "default")
        assert ended.returncode != 0
        assert "forbidden" in ended.stderr.lower()
        assert HOLD_ANNOTATION not in annotations_of(
            cluster.api.get("/api/v1/namespaces/default/pods/theirs")
        )
        paused = shell.fluence("queue", "pause", "default")
        assert paused.returncode != 0
        listed = shell.fluence("queue")
        assert listed.stdout.splitlines()[1].split()[0] == "default"
    finally:
        cluster.api.delete("/api/v1/namespaces/default/pods/theirs", gracePeriodSeconds="0")
