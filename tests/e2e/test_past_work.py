"""The account of past work on a real cluster and a real PostgreSQL: who sees what, and what a dead database stops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fluence_extender.model.names import ACCOUNT_LABEL
from tests.e2e.harness import Cluster, Manifest, Namespace, job, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import Plugin, user_shell
from tests.e2e.proxied import AGGREGATED, OTHERS, behind_proxy
from tests.e2e.service import Fluence
from tests.e2e.test_state_access import BINDINGS, bound
from tests.e2e.workloads import ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.unit.accounting.postgresql import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    made = PostgresServer()
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def exposed(installation: Installation, server: PostgresServer) -> Iterator[None]:
    """The service keeps its account in that server while this module runs."""
    with behind_proxy(installation, "--history", server.database()):
        yield


@pytest.fixture
def name(namespace: Namespace) -> str:
    """The name of a user."""
    return f"ada-{namespace.name}"


@pytest.fixture
def user(control_plane: ControlPlane, cluster: Cluster, namespace: Namespace, name: str) -> Iterator[Path]:
    """The kubeconfig of that user, who has the role ``edit`` in the test's namespace and may ask the service."""
    subjects = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
    edit = bound("RoleBinding", "edit", name, subjects)
    cluster.api.apply(edit | {"metadata": {"name": name, "namespace": namespace.name}})
    cluster.api.apply(bound("ClusterRoleBinding", "fluence-view", name, subjects))
    yield control_plane.kubeconfig_for(name)
    for one in (name, f"{name}-admin"):
        cluster.api.delete(f"{BINDINGS}/clusterrolebindings/{one}")


def asked(shell: Plugin, *words: str) -> list[Manifest]:
    """What the plugin prints as JSON."""
    ended = shell.fluence(*words, "-o", "json")
    assert ended.returncode == 0, ended.stderr
    found: list[Manifest] = json.loads(ended.stdout)["items"]
    return found


def test_users_see_their_own_work_and_those_who_run_the_queue_all_of_it(
    cluster: Cluster,
    namespace: Namespace,
    user: Path,
    name: str,
    own_nodes: NodeFactory,
    tmp_path: Path,
) -> None:
    (node,) = own_nodes(1, cpu="4")
    theirs = Namespace(OTHERS, cluster.api)
    mine = Namespace(namespace.name, Api(user))
    work = job("train", ours("x", cpu="1", labels={ACCOUNT_LABEL: "grant-17"}))

    def may_create() -> bool:
        with suppress(ApiError):
            mine.create(work)
            return True
        return False

    wait_for(may_create, what="the user's rights to be in force")
    secret = f"secret-{namespace.name}"
    theirs.create(ours(secret, cpu="1"))
    try:
        namespace.wait_until_bound(1)
        theirs.wait_for_phase(secret, "Running")
        shell = user_shell(user, namespace.name, tmp_path)
        (run,) = wait_for(lambda: asked(shell, "history", "job/train"), what="the account of the Job")
        assert (run["user"], run["account"], run["nodes"]) == (name, "grant-17", [node])
        assert {one["namespace"] for one in asked(shell, "history", "-A")} == {namespace.name}
        assert [one["name"] for one in asked(shell, "usage", "--by", "user")] == [name]
        assert [one["name"] for one in asked(shell, "usage", "--by", "account")] == ["grant-17"]
        table = shell.fluence("usage", "--by", "user")
        assert "only" in table.stderr or "may" in table.stderr, table.stderr
        assert shell.fluence("usage", "-o", "csv").stdout.startswith("queue,resource,backend,amount,unit\n")

        subjects = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
        admin = bound("ClusterRoleBinding", "fluence-queue-admin", f"{name}-admin", subjects)
        cluster.api.apply(admin)
        wait_for(
            lambda: OTHERS in {one["namespace"] for one in asked(shell, "history", "-A")},
            what="the right to see all past work",
        )
    finally:
        theirs.delete_pod(secret)


@pytest.mark.parametrize("fault", ["killed", "stopped"])
def test_database_that_is_away_keeps_nothing_from_being_placed(
    cluster: Cluster,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    server: PostgresServer,
    fault: str,
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(ours("before", cpu="1"))
    namespace.wait_for_phase("before", "Running")
    history = f"{AGGREGATED}/history?namespace={namespace.name}"

    def names() -> list[str]:
        return sorted(one["name"] for one in cluster.api.get(history)["items"])

    wait_for(lambda: names() == ["before"], what="the account of the first pod")
    if fault == "killed":
        server.kill()
    else:
        server.stop()
    try:
        namespace.create(*(ours(f"after-{number}", cpu="1") for number in range(3)))
        namespace.wait_until_bound(4)
        wait_for(lambda: fluence.metric("fluence_history_waiting") >= 3, what="accounts to wait")
        with pytest.raises(ApiError) as refused:
            cluster.api.get(history)
        assert refused.value.status == 503
        namespace.delete_pod("before")
    finally:
        if fault == "killed":
            server.restart()
        else:
            server.go_on()
    wait_for(lambda: fluence.metric("fluence_history_waiting") == 0, what="the accounts to be written")
    assert fluence.metric("fluence_history_lost_total") == 0
    wait_for(lambda: names() == ["after-0", "after-1", "after-2", "before"], what="all accounts to be shown")
