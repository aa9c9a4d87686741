"""The cluster that the end-to-end tests run on: a local control plane, or the one that --kubeconfig names.

Tests that take ``control_plane`` break or restart it, or make nodes of their own shape: they are deselected
when the cluster is somebody else's, and so are those that take no ``cluster``, which are alike everywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fluence_extender.model.names import DEFAULT_NAMESPACE, RESOURCES_CONFIGMAP, RESOURCES_KEY
from tests.e2e.admitted import registered, wait_until_called
from tests.e2e.deployed import Deployed, Operations
from tests.e2e.expected_pods import Leader, wait_until_in_force
from tests.e2e.harness import LONGEST, Cluster, Namespace, documents, wait_for
from tests.e2e.history import History, recorded
from tests.e2e.installation import BASE, Installation
from tests.e2e.job_sets import controlled
from tests.e2e.judge import KubeletJudge
from tests.e2e.nodes import FilledNodes, NodeFactory, existing_nodes, local_nodes
from tests.e2e.operators import KINDS, installed
from tests.e2e.proxied import OTHERS
from tests.e2e.service import (
    Fluence,
    admin_token,
    backends,
    discrepancies,
    over_http,
    through_api_server,
)
from tests.e2e.workloads import gang
from tests.localcluster import Api, ApiError, Component, ControlPlane
from tests.localcluster.stack import Webhook
from tests.network.gateway import Gateway

LONGEST_TEST = 900.0
"""Seconds: each wait of a test has a limit of its own, and tells what it waited for."""

ENDS_JOBS = "batch.kubernetes.io/job-tracking"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "overcommits: the test expects that kubelet's admission refuses pods")
    config.addinivalue_line("markers", "bounds: the test measures a bound, and isn't run again when it fails")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.e2e)
        # Four control planes share the machine with whatever else it runs. The summary names each test that is run
        # again. A bound that doesn't hold is a fault, however rarely.
        if item.get_closest_marker("bounds") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONGEST_TEST))
    if config.getoption("--kubeconfig"):
        local = [item for item in ours if local_only(getattr(item, "fixturenames", ()))]
        config.hook.pytest_deselected(items=local)
        items[:] = [item for item in items if item not in local]


def local_only(fixtures: Collection[str]) -> bool:
    """Whether a test with these fixtures has nothing to do with a cluster that isn't local."""
    return "control_plane" in fixtures or not {"cluster", "rig"} & {*fixtures}


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The local control plane (no scheduler runs yet); its logs stay in pytest's temporary folder."""
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as plane:
        for document in documents(BASE / "namespace.yaml"):
            plane.api.apply(document)
        yield plane


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster under test, local or not."""
    path = request.config.getoption("--kubeconfig")
    plane: ControlPlane | None = None if path else request.getfixturevalue("control_plane")
    kubeconfig = Path(path).absolute() if plane is None else plane.kubeconfig
    api = Api(kubeconfig) if plane is None else plane.api
    with KubeletJudge(kubeconfig, enforce=plane is not None) as judge:
        yield Cluster(api, kubeconfig, judge, plane)


@pytest.fixture
def no_overcommit(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test if kubelet's admission, played or real, refused a pod meanwhile."""
    before = len(cluster.judge.violations)
    yield
    assert cluster.judge.settle(LONGEST), "the judge of overcommitted nodes fell behind"
    found = cluster.judge.violations[before:]
    if request.node.get_closest_marker("overcommits"):
        assert found, "the test is marked as overcommitting a node, and none was"
    elif found:
        pytest.fail("overcommitted nodes:\n" + "\n".join(map(str, found)))


@pytest.fixture
def namespace(cluster: Cluster, no_overcommit: None) -> Iterator[Namespace]:
    """A fresh namespace; afterwards its pods are gone, the rest follows."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Namespace(name, cluster.api)
    cluster.judge.settle(LONGEST)
    empty(cluster.api, name)


@pytest.fixture
def others(control_plane: ControlPlane, namespace: Namespace) -> Iterator[Namespace]:
    """A namespace in which the user has no rights."""
    name = f"{namespace.name}-others"
    control_plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield Namespace(name, control_plane.api)
    empty(control_plane.api, name)


def empty(api: Api, namespace: str) -> None:
    """Delete a namespace, and wait until its pods are gone; what else is in it follows.

    Nobody's finalizers keep a pod: a test that ended early may have left some.
    """
    path = f"/api/v1/namespaces/{namespace}"
    # A namespace that is going takes no new pods, so that a Job can't replace those deleted here.
    with suppress(ApiError):
        api.delete(path)

    def gone() -> bool:
        with suppress(ApiError):
            api.delete(f"{path}/pods", gracePeriodSeconds="0")
        left = api.get(f"{path}/pods")["items"]
        for one in left:
            if set(one["metadata"].get("finalizers") or ()) - {ENDS_JOBS}:
                with suppress(ApiError):
                    api.patch(f"{path}/pods/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
        return not left

    wait_for(gone, LONGEST, f"the pods of {namespace} to go")


@pytest.fixture
def nodes(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[NodeFactory]:
    """Gives nodes of at least the asked size: made for the test and removed after it, or picked from the
    cluster's.

    Called as `ControlPlane.add_nodes` is; names get a prefix of their own unless given. Where the service runs, it
    knows them, and no others, before the test goes on.
    """
    if cluster.plane is None:
        yield existing_nodes(cluster.nodes(), cluster.pods())
        return

    def known() -> None:
        if "fluence" in request.fixturenames:
            installed: Installation = request.getfixturevalue("installation")
            if installed.stack.extender.running:
                Fluence(
                    over_http(lambda: installed.stack.api_url, admin_token(installed.plane))
                ).wait_for_nodes(cluster.nodes())

    with local_nodes(cluster.plane, known) as make:
        yield make


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
def service_account(control_plane: ControlPlane, namespace: Namespace) -> Callable[[str], Path]:
    """Makes a ServiceAccount in the test's namespace and gives a kubeconfig with its token."""

    def make(name: str) -> Path:
        namespace.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        return control_plane.kubeconfig_for_service_account(namespace.name, name)

    return make


@pytest.fixture
def own_nodes(control_plane: ControlPlane, nodes: NodeFactory) -> NodeFactory:
    """Gives nodes of exactly the asked size; they are the only ones in the cluster (local clusters only).

    They join one after the other, so that their order by name is also that by age.
    """

    def make(count: int = 1, *, prefix: str = "n", **shape: Any) -> list[str]:
        unique = f"{prefix}-{uuid.uuid4().hex[:4]}"
        return [name for number in range(count) for name in nodes(1, names=[f"{unique}-{number}"], **shape)]

    return make


@pytest.fixture
def room(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[NodeFactory]:
    """Gives nodes with exactly the asked room, and no other node has any: `own_nodes`, or a cluster's own, filled.

    What depends on the size of nodes, and not on their room alone, is for ``own_nodes``.
    """
    if cluster.plane:
        yield request.getfixturevalue("own_nodes")
        return
    name = f"filling-{uuid.uuid4().hex[:6]}"
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    filled = FilledNodes(cluster, Namespace(name, cluster.api))
    yield filled
    filled.close()
    empty(cluster.api, name)


@pytest.fixture
def operations(cluster: Cluster, request: pytest.FixtureRequest) -> Operations:
    """What an operator may do to the service under test."""
    if cluster.plane:
        installed: Installation = request.getfixturevalue("installation")
        return installed
    return Deployed(cluster.api)


@pytest.fixture(scope="session")
def installation(control_plane: ControlPlane) -> Iterator[Installation]:
    """The service on the local control plane, under the rights that deploy/ grants it."""
    installed = Installation(control_plane)
    with installed.usual:
        yield installed


@pytest.fixture(scope="module")
def gateway(
    control_plane: ControlPlane, installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """What stands between the service and the API server while the tests of a module run."""
    with Gateway(control_plane.url, control_plane.access.authority_file) as gateway:
        kubeconfig = tmp_path_factory.mktemp("gateway") / "kubeconfig"
        gateway.kubeconfig(installation.kubeconfig, kubeconfig)
        with installation.other("--kubeconfig", str(kubeconfig)):
            yield gateway


@pytest.fixture(scope="module")
def only_webhook(installation: Installation) -> Iterator[Webhook]:
    """The webhook of a module's tests, whatever they do to it."""
    with registered(installation.plane) as webhook:
        yield webhook


@pytest.fixture
def webhook(installation: Installation, only_webhook: Webhook) -> Webhook:
    """The API server asks a webhook of ours about each new pod, over TLS that it verifies."""
    only_webhook.start()
    wait_until_called(installation.plane.api)
    return only_webhook


@pytest.fixture(scope="module")
def leader(installation: Installation) -> Iterator[Leader]:
    """The service's account, with which a test does what the leader would; the service itself is stopped."""
    installation.usual.stop()
    played = Leader(Api(installation.kubeconfig))
    wait_until_in_force(installation.plane.api)
    yield played
    installation.usual.start()


@pytest.fixture(scope="module")
def operators(installation: Installation) -> Iterator[None]:
    """Other projects' kinds of workloads are served, and the service knows."""
    with installed(installation.plane.api, *KINDS):
        installation.crash()
        installation.revive()
        yield


@pytest.fixture(scope="module")
def job_set_controller(
    installation: Installation, operators: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A controller that follows all JobSets."""
    plane = installation.plane
    with controlled(plane.api, plane.kubeconfig, tmp_path_factory.mktemp("jobset") / "log"):
        yield


@pytest.fixture
def fluence(
    cluster: Cluster, namespace: Namespace, nodes: NodeFactory, request: pytest.FixtureRequest
) -> Iterator[Fluence]:
    """The state API of the service under test.

    After each test the ledger must agree with the cluster, first with the test's pods still there, then without them;
    and the service's log must tell of no fault.
    """
    if not cluster.plane:
        yield from agreeing(cluster, Fluence(through_api_server(cluster.api)), namespace)
        return
    installed: Installation = request.getfixturevalue("installation")
    installed.mend()
    log = cluster.plane.log(installed.stack.extender.name)
    before = log.stat().st_size
    yield from agreeing(cluster, local_service(installed), namespace)
    told = log.read_bytes()[before:].decode()
    assert "Traceback" not in told, told
    assert "planning failed" not in told, told


def local_service(installed: Installation) -> Fluence:
    """The service on the local control plane, asked as the admin."""
    return Fluence(over_http(lambda: installed.stack.api_url, admin_token(installed.plane)))


def agreeing(cluster: Cluster, fluence: Fluence, namespace: Namespace) -> Iterator[Fluence]:
    """``fluence``, and afterwards the checks that hold after every test."""
    yield fluence
    agree(cluster, fluence)
    cluster.judge.settle(LONGEST)
    empty(cluster.api, namespace.name)
    agree(cluster, fluence)
    assert not fluence.allocations(namespace.name)
    wait_for(
        lambda: not fluence.gangs(namespace.name),
        what="the gangs to be forgotten",
        seen=lambda: fluence.gangs(namespace.name),
    )


def agree(cluster: Cluster, fluence: Fluence) -> None:
    """Wait until the ledger and the cluster say the same."""
    wait_for(
        lambda: not discrepancies(cluster, fluence),
        LONGEST,
        "the ledger and the cluster to agree",
        lambda: discrepancies(cluster, fluence),
    )


@pytest.fixture
def gangs(fluence: Fluence, cluster: Cluster, namespace: Namespace, own_nodes: NodeFactory) -> Iterator[None]:
    """A gang of the user's namespace, and one of another."""
    own_nodes(1, cpu="8")
    theirs = gang("secret", 2, cpu="1")
    namespace.create(*gang("mine", 2, cpu="1"))
    for one in theirs:
        cluster.api.create(one, OTHERS)
    fluence.wait_for_state(namespace.name, "mine", "bound")
    fluence.wait_for_state(OTHERS, "secret", "bound")
    yield
    for one in theirs:
        path = f"/api/v1/namespaces/{OTHERS}/pods/{one['metadata']['name']}"
        cluster.api.delete(path, gracePeriodSeconds="0")
    wait_for(lambda: not fluence.gangs(OTHERS), what="the other gang to go")


@pytest.fixture
def history(namespace: Namespace) -> Iterator[History]:
    """Who was bound when, from the beginning of the test on; nobody may ever move."""
    with recorded(namespace) as history:
        yield history


@pytest.fixture
def resources(cluster: Cluster, fluence: Fluence) -> Iterator[Callable[[str], None]]:
    """Writes resources.yaml into its ConfigMap; it is gone again after the test."""
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{RESOURCES_CONFIGMAP}"

    def write(text: str) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RESOURCES_CONFIGMAP, "namespace": DEFAULT_NAMESPACE},
            "data": {RESOURCES_KEY: text},
        }
        cluster.api.apply(document)

    yield write
    with suppress(ApiError):
        cluster.api.delete(path)
    wait_for(lambda: not backends(fluence), LONGEST, "the virtual resources to go", lambda: backends(fluence))
