"""The cluster that the end-to-end tests run on: a local control plane, or the one that --kubeconfig names.

Tests that take ``control_plane`` break or restart it, or make nodes of their own shape: they are deselected
when the cluster is somebody else's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fluence_extender.localcluster import Api, ApiError, Component, ControlPlane, KubeletJudge
from tests.e2e.harness import Cluster, Namespace, wait_for
from tests.e2e.nodes import NodeFactory, existing_nodes, local_nodes


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "overcommits: the test expects that kubelet's admission refuses pods")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
    if config.getoption("--kubeconfig"):
        local = [item for item in ours if "control_plane" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=local)
        items[:] = [item for item in items if item not in local]


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The local control plane (no scheduler runs yet); its logs stay in pytest's temporary folder."""
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster under test, local or not."""
    path = request.config.getoption("--kubeconfig")
    if not path:
        plane = request.getfixturevalue("control_plane")
        yield Cluster(plane.api, plane.kubeconfig, plane.judge, plane)
        return
    kubeconfig = Path(path).absolute()
    judge = KubeletJudge(kubeconfig, enforce=False)
    judge.start()
    yield Cluster(Api(kubeconfig), kubeconfig, judge)
    judge.stop()


@pytest.fixture
def no_overcommit(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test if kubelet's admission, played or real, refused a pod meanwhile."""
    before = len(cluster.judge.violations)
    yield
    assert cluster.judge.settle(), "the judge of overcommitted nodes fell behind"
    found = cluster.judge.violations[before:]
    if request.node.get_closest_marker("overcommits"):
        assert found, "the test is marked as overcommitting a node, and none was"
    elif found:
        pytest.fail("overcommitted nodes:\n" + "\n".join(map(str, found)))


@pytest.fixture
def namespace(cluster: Cluster, no_overcommit: None) -> Iterator[Namespace]:
    """A fresh namespace; afterwards its pods are gone, the rest follows."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    path = f"/api/v1/namespaces/{name}"
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Namespace(name, cluster.api)
    cluster.judge.settle()
    # A namespace that is going takes no new pods, so that a Job can't replace those deleted here.
    cluster.api.delete(path)

    def empty() -> bool:
        with suppress(ApiError):
            cluster.api.delete(f"{path}/pods", gracePeriodSeconds="0")
        return not cluster.api.get(f"{path}/pods")["items"]

    wait_for(empty, 60, f"the pods of {name} to go")


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[NodeFactory]:
    """Gives nodes of at least the asked size: made for the test and removed after it, or picked from the
    cluster's.

    Called as `ControlPlane.add_nodes` is; names get a prefix of their own unless given.
    """
    if cluster.plane:
        with local_nodes(cluster.plane) as make:
            yield make
    else:
        yield existing_nodes(cluster.nodes(), cluster.pods())


@pytest.fixture
def default_scheduler(cluster: Cluster) -> Iterator[Component | None]:
    """A stock kube-scheduler for ``default-scheduler``; a cluster that isn't local brings its own."""
    if cluster.plane is None:
        yield None
        return
    scheduler = cluster.plane.start_scheduler()
    yield scheduler
    scheduler.stop()


@pytest.fixture
def service_account(cluster: Cluster, namespace: Namespace) -> Callable[[str], Path]:
    """Makes a ServiceAccount in the test's namespace and gives a kubeconfig with its token (local clusters
    only).
    """

    def make(name: str) -> Path:
        assert cluster.plane, "only the local control plane hands out kubeconfigs"
        namespace.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        return cluster.plane.kubeconfig_for_service_account(namespace.name, name)

    return make
