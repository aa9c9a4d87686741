"""Two pods {kube-scheduler, extender} of which one leads: gangs under way when the lead changes hands come out whole.

Each pod is played by two processes under a host name of their own, and its kubelet by the test.
"""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.conftest import agree
from tests.e2e.harness import Cluster, Namespace, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import ENGINE, Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence, over_http
from tests.e2e.workloads import gang
from tests.localcluster import ApiError, ControlPlane
from tests.localcluster.stack import Stack
from tests.network.gateway import Gateway
from tests.network.relay import Relay

LEASE = "fluence-system/fluence"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/fluence-system/leases/fluence"
DURATION = 15
PATIENCE = 180.0

StartPod = Callable[..., Stack]


@pytest.fixture
def start_pod(
    installation: Installation, fluence: Fluence, control_plane: ControlPlane
) -> Iterator[StartPod]:
    """Starts further pods of the Deployment; only they run meanwhile."""
    del fluence
    installation.usual.stop()
    with ExitStack() as running:
        running.callback(installation.usual.start)
        running.callback(_delete_lease, control_plane)
        _delete_lease(control_plane)

        def start(name: str, extenders: Path | None = None, schedulers: Path | None = None) -> Stack:
            pod = Stack(
                control_plane,
                kubeconfig=extenders or installation.kubeconfig,
                scheduler_kubeconfig=schedulers or installation.kubeconfig,
                arguments=("--engine", ENGINE),
                hostname=name,
                lease=LEASE,
                lease_duration=DURATION,
            )
            running.callback(pod.stop)
            pod.start()
            return pod

        yield start


def _delete_lease(plane: ControlPlane) -> None:
    try:
        plane.api.delete(LEASE_PATH)
    except ApiError as error:
        if error.status != 404:
            raise


def says(pod: Stack) -> str:
    """What its probe of readiness says, "" where it doesn't answer."""
    try:
        with urllib.request.urlopen(f"{pod.api_url}/readyz", timeout=5) as answer:
            return str(answer.read().decode()).strip()
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        # The last one where it was killed in the middle of its answer.
        return ""


def leads(pod: Stack) -> bool:
    return says(pod) == "ok"


def wait_until_leading(*pods: Stack) -> Stack:
    """The pod of ``pods`` that leads, once one does."""
    found = wait_for(
        lambda: next((pod for pod in pods if leads(pod)), None),
        PATIENCE,
        "a pod to lead",
        lambda: [says(pod) for pod in pods],
    )
    assert found is not None
    return found


def state_of(pod: Stack) -> Fluence:
    return Fluence(over_http(lambda: pod.api_url))


def kill(pod: Stack) -> None:
    """End both processes, as when their node loses power."""
    pod.extender.kill()
    assert pod.scheduler is not None
    pod.scheduler.kill()


def send(pod: Stack, number: signal.Signals) -> None:
    """Send the extender a signal."""
    assert pod.extender.pid is not None
    os.kill(pod.extender.pid, number)


class Witness:
    """Asks all pods again and again who leads: never two."""

    def __init__(self, *pods: Stack) -> None:
        self.pods = list(pods)
        self.twice: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self.twice

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            # The one that led before is asked last: it may have stopped since the first answered, not begun.
            first = [pod.extender.name for pod in self.pods if leads(pod)]
            again = [pod.extender.name for pod in reversed(self.pods) if leads(pod)]
            if len(first) > 1 and len(again) > 1:
                self.twice.append(f"{first}, {again}")


def wait_until_whole(
    cluster: Cluster, namespace: Namespace, history: History, count: int, leader: Stack
) -> None:
    """Wait until so many pods are bound, and the leader's ledger says the same as the cluster."""
    namespace.wait_until_bound(count, PATIENCE)
    history.wait(count)
    agree(cluster, state_of(leader))


def test_standby_stays_warm_says_so_and_writes_nothing(
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    start_pod: StartPod,
    history: History,
    control_plane: ControlPlane,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(2, cpu="4")
    leader = start_pod("fluence-a")
    wait_until_leading(leader)
    with Gateway(control_plane.url, control_plane.access.authority_file) as gateway:
        standby = start_pod("fluence-b", gateway.kubeconfig(installation.kubeconfig, tmp_path / "b"))
        namespace.create(*gang("g", 6, cpu="1"))
        wait_until_whole(cluster, namespace, history, 6, leader)
        wait_for(lambda: (says(leader), says(standby)) == ("ok", "standby"), what="one to lead")
        mirror = state_of(standby)
        wait_for(
            lambda: mirror.allocations(namespace.name) == state_of(leader).allocations(namespace.name),
            what="the standby to mirror what is bound",
        )
        mirror.wait_for_state(namespace.name, "g", "bound")
        assert (state_of(leader).metric("fluence_leader"), mirror.metric("fluence_leader")) == (1, 0)
        assert not [one for one in gateway.requests if one.pod_write]


def test_standby_completes_what_a_killed_leader_had_begun(
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    start_pod: StartPod,
    history: History,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_nodes(4, cpu="8")
    first = start_pod("fluence-a")
    wait_until_leading(first)
    second = start_pod("fluence-b")
    with Witness(first, second):
        namespace.create(*gang("large", 30, cpu="1"))
        history.wait(1)
        kill(first)
        namespace.create(*gang("next", 2, cpu="1"))
        held = wait_for(lambda: _holder(cluster).startswith("fluence-b_"), PATIENCE, "the lease to be taken")
        assert held
        taken = time.monotonic()
        wait_until_whole(cluster, namespace, history, 32, second)
    later = [at - taken for at, _ in history.bound.values() if at > taken]
    if later:
        with capsys.disabled():
            print(f"\nfirst Binding {min(later):.2f} s after the lease was taken, last {max(later):.2f} s")
    first.start()
    assert wait_for(lambda: says(first) == "standby", what="the killed pod to stand by")


def _holder(cluster: Cluster) -> str:
    return str(cluster.api.get(LEASE_PATH)["spec"].get("holderIdentity") or "")


def test_extender_that_hung_writes_nothing_when_it_goes_on(
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    start_pod: StartPod,
    history: History,
    control_plane: ControlPlane,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(4, cpu="8")
    with Gateway(control_plane.url, control_plane.access.authority_file) as gateway:
        hung = start_pod("fluence-a", gateway.kubeconfig(installation.kubeconfig, tmp_path / "a"))
        wait_until_leading(hung)
        other = start_pod("fluence-b")
        namespace.create(*gang("large", 30, cpu="1"))
        history.wait(1)
        send(hung, signal.SIGSTOP)
        try:
            # Kubelet's probe of the extender's port fails, so it ends the scheduler: that lets go of the lease.
            assert not says(hung)
            assert hung.scheduler is not None
            hung.scheduler.stop(10)
            wait_until_leading(other)
            wait_until_whole(cluster, namespace, history, 30, other)
            namespace.create(*gang("waits", 4, cpu="1"))
            written = sum(one.pod_write for one in gateway.requests)
        finally:
            send(hung, signal.SIGCONT)
        wait_for(
            lambda: says(hung) == "standby", what="the hung extender to stand by", seen=lambda: says(hung)
        )
        for number in range(2):
            namespace.delete_pod(f"large-{number}")
        namespace.wait_until_bound(32, PATIENCE)
        assert sum(one.pod_write for one in gateway.requests) == written
        assert wait_until_leading(other)


def test_partitioned_leader_is_replaced_and_stands_by_afterwards(
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    start_pod: StartPod,
    history: History,
    control_plane: ControlPlane,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(4, cpu="8")
    with Relay(control_plane.url) as relay:
        beyond = relay.kubeconfig(installation.kubeconfig, tmp_path / "a")
        lost = start_pod("fluence-a", beyond, beyond)
        wait_until_leading(lost)
        other = start_pod("fluence-b")
        with Witness(lost, other):
            namespace.create(*gang("large", 30, cpu="1"))
            history.wait(1)
            relay.silence()
            namespace.create(*gang("next", 2, cpu="1"))
            wait_until_leading(other)
            assert not leads(lost)
            wait_until_whole(cluster, namespace, history, 32, other)
            relay.restore()
            assert lost.scheduler is not None
            scheduler = lost.scheduler
            wait_for(lambda: not scheduler.running, PATIENCE, "the scheduler that lost its lease to end")
            scheduler.start()
            wait_for(lambda: says(lost) == "standby", PATIENCE, "the partitioned pod to stand by")
            namespace.delete_pod("large-0")
            namespace.create(*gang("last", 1, cpu="1"))
            namespace.wait_until_bound(32, PATIENCE)
        agree(cluster, state_of(other))


def test_rolling_update_with_gangs_in_flight_is_harmless(
    cluster: Cluster,
    namespace: Namespace,
    own_nodes: NodeFactory,
    start_pod: StartPod,
    history: History,
) -> None:
    own_nodes(6, cpu="8")
    old = [start_pod("fluence-a"), start_pod("fluence-b")]
    wait_until_leading(*old)
    made = 0
    new: list[Stack] = []
    for number, pod in enumerate(old):
        new.append(start_pod(f"fluence-new-{number}"))
        for _ in range(3):
            namespace.create(*gang(f"g{made}", 8, cpu="1"))
            made += 1
        history.wait(24 * number + 1)
        # Kubelet asks both containers to end; the scheduler's hook lets the extender go first.
        pod.extender.stop(10)
        assert pod.scheduler is not None
        pod.scheduler.stop(10)
        namespace.wait_until_bound(24 * (number + 1), PATIENCE)
    leader = wait_until_leading(*new)
    wait_until_whole(cluster, namespace, history, 8 * made, leader)
    spans = {f"g{number}": history.span(f"g{number}-") for number in range(made)}
    assert all(span < PATIENCE for span in spans.values())
    assert len({node_of(pod) for pod in namespace.pods()}) == 6
