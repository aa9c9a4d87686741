"""Consumers of a shared quantum job start with its task: webhook, interceptor, sidecar and scheduler together.

The vendor is a mock QPU over real HTTP whose clock the tests turn; the pod's containers run as processes with exactly
the pod's environment, the sidecar with exactly the rights of its account.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fluence_extender.coordination.mock_qpu import MockQpu, server
from fluence_extender.model.coordination import (
    CONSUMER_PRIORITY_CLASS,
    DISCOVERY_TIMEOUT_ANNOTATION,
    POLL_INTERVAL_ANNOTATION,
    READY_GATE,
    RELEASED_ANNOTATION,
    SIDECAR_ACCOUNT,
)
from fluence_extender.model.names import GROUP_LABEL
from tests.e2e.admitted import environment, gates_of, quantum, registered, sidecars_token
from tests.e2e.containers import RunningPod
from tests.e2e.harness import LONGEST, Manifest, Namespace, annotations_of, documents, job, node_of, wait_for
from tests.e2e.installation import BASE, Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.stack import Webhook

Write = Callable[[str], None]
SHIPPED = BASE.parent / "webhook"
PATCH = "application/strategic-merge-patch+json"
SUBMIT = """
import json, os, urllib.request
request = urllib.request.Request(os.environ["FLUXION_ENDPOINT"] + "/tasks", data=b"{}")
print(json.loads(urllib.request.urlopen(request).read())["id"])
"""


@dataclass
class Vendor:
    """A mock QPU at ``url``: a task has two others before it, each of which takes ten seconds of ``now``."""

    url: str = ""
    now: float = 0.0

    def pass_by(self, seconds: float) -> None:
        """Let time pass in its queue."""
        self.now += seconds


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    one = Vendor()
    with server("127.0.0.1", 0, MockQpu(2, 10.0, lambda: one.now)) as serving:
        monkeypatch.setattr(serving.RequestHandlerClass, "log_message", lambda *_: None)
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        one.url = f"http://127.0.0.1:{serving.server_port}"
        yield one
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def webhook(installation: Installation) -> Iterator[Webhook]:
    """The webhook, and the policy for sidecars."""
    api = installation.plane.api
    policy = documents(SHIPPED / "sidecars.yaml")
    for document in policy:
        api.apply(document)
    with registered(installation.plane) as webhook:
        yield webhook
    for document in reversed(policy):
        api.delete(api.path_of(document))


@pytest.fixture
def mock(resources: Write, vendor: Vendor, webhook: Webhook, namespace: Namespace) -> Vendor:
    """The vendor as a configured backend, known to the webhook."""
    resources(
        f"resources: [{{type: qpu, name: mock, attributes: {{vendor: mock, endpoint: '{vendor.url}'}}}}]"
    )
    path = f"/api/v1/namespaces/{namespace.name}/pods"

    def known() -> bool:
        made = namespace.api.request("POST", path, quantum("probe"), query={"dryRun": "All"})
        return "FLUXION_ENDPOINT" in environment(made)

    wait_for(known, what="the webhook to read resources.yaml")
    return vendor


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    return control_plane


def shared(namespace: Namespace, count: int, **notes: str) -> tuple[Manifest, list[str]]:
    """An indexed Job with one producer and consumers; the producer once it runs, and the consumers' names."""
    template = quantum("x", "g", mode="shared", annotations={POLL_INTERVAL_ANNOTATION: "0.2s", **notes})
    namespace.create(job("work", template, parallelism=count, completionMode="Indexed"))
    (lead,) = wait_for(lambda: namespace.pods(**{GROUP_LABEL: "g-producer"}), what="the producer")
    wait_for(lambda: len(gated(namespace)) == count - 1, what=f"{count - 1} consumers")
    name = lead["metadata"]["name"]
    return namespace.wait_for_phase(name, "Running"), gated(namespace)


def gated(namespace: Namespace) -> list[str]:
    return [one["metadata"]["name"] for one in namespace.pods() if READY_GATE in gates_of(one)]


def wait_until_released(namespace: Namespace, running: RunningPod) -> None:
    def log() -> str:
        return running.log.read_text()

    wait_for(lambda: not gated(namespace), LONGEST, "all consumers to be released", log)


def parts_of(fluence: Fluence, namespace: Namespace) -> dict[str, Manifest]:
    """The parts of gangs in quantum jobs, by name."""
    return {one["name"]: one["quantum"] for one in fluence.gangs(namespace.name) if one["quantum"]}


def test_36_38_39_42_43_consumers_start_when_the_task_is_next_and_others_make_way(
    mock: Vendor,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    plane: ControlPlane,
    tmp_path: Path,
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(ours("low", cpu="2500m"))
    namespace.wait_for_phase("low", "Running")
    lead, consumers = shared(namespace, 3)
    assert len(consumers) == 2
    with RunningPod(plane, lead, tmp_path / "lead") as running:
        running.stage()
        sidecar = running.sidecar()
        task = running.python(SUBMIT)
        wait_for(lambda: f"task={task}" in running.log.read_text(), what="the sidecar to find the task")
        wait_for(lambda: "queued, position 2" in running.log.read_text(), what="the sidecar to follow it")
        assert gated(namespace) == consumers
        producing = {"role": "producer", "partner": "g", "task": task, "status": "queued, position 2"}
        parts = wait_for(
            lambda: found if (found := parts_of(fluence, namespace)).get("g-producer") == producing else None,
            what="the service to show where the task is",
        )
        assert (parts["g"]["role"], parts["g"]["partner"]) == ("consumer", "g-producer")
        mock.pass_by(10)
        wait_until_released(namespace, running)
        decided = annotations_of(namespace.pod(lead["metadata"]["name"]))[RELEASED_ANNOTATION]
        assert decided == f"task {task} is queued, position 1 (pod {lead['metadata']['uid']})"
        for name in consumers:
            pod = namespace.wait_for_phase(name, "Running")
            assert pod["spec"]["priorityClassName"] == CONSUMER_PRIORITY_CLASS
            found = environment(pod)
            assert found["FLUENCE_QUANTUM_JOB_ID"] == task
            assert found["FLUXION_BACKEND"] == environment(lead)["FLUXION_BACKEND"] == "mock"
            assert found["FLUXION_VENDOR"] == "mock"
        assert "low" not in {one["metadata"]["name"] for one in namespace.pods() if node_of(one)}
        sidecar.send_signal(signal.SIGTERM)
        assert sidecar.wait(LONGEST) == 0


def test_40_consumers_start_all_the_same_where_no_task_is_found(
    mock: Vendor,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    plane: ControlPlane,
    tmp_path: Path,
) -> None:
    own_nodes(1, cpu="4")
    lead, consumers = shared(namespace, 3, **{DISCOVERY_TIMEOUT_ANNOTATION: "1s"})
    with RunningPod(plane, lead, tmp_path / "lead") as running:
        sidecar = running.sidecar()
        wait_until_released(namespace, running)
        for name in consumers:
            assert environment(namespace.wait_for_phase(name, "Running"))["FLUENCE_QUANTUM_JOB_ID"] == ""
        sidecar.send_signal(signal.SIGTERM)
        assert sidecar.wait(LONGEST) == 1
    assert (
        "no task was found within 1 s"
        in annotations_of(namespace.pod(lead["metadata"]["name"]))[RELEASED_ANNOTATION]
    )


def test_killed_sidecar_goes_on_where_it_stopped_and_late_consumers_need_none(
    mock: Vendor,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    plane: ControlPlane,
    tmp_path: Path,
) -> None:
    own_nodes(1, cpu="4")
    lead, consumers = shared(namespace, 3)
    with RunningPod(plane, lead, tmp_path / "lead") as running:
        running.stage()
        task = running.python(SUBMIT)
        first = running.sidecar()
        wait_for(lambda: task in running.log.read_text(), what="the sidecar to find the task by its tag")
        first.kill()
        first.wait(LONGEST)
        assert gated(namespace) == consumers
        mock.pass_by(100)
        second = running.sidecar()
        wait_until_released(namespace, running)
        second.kill()
        second.wait(LONGEST)
        # A consumer that takes another one's place: nobody but the webhook's process can release it now.
        namespace.delete_pod(consumers[0])

        def replaced() -> list[Manifest]:
            return [
                one
                for one in namespace.pods(**{GROUP_LABEL: "g"})
                if one["metadata"]["name"] not in consumers and "deletionTimestamp" not in one["metadata"]
            ]

        (late,) = wait_for(replaced, what="another consumer")
        found = environment(namespace.wait_for_phase(late["metadata"]["name"], "Running"))
        assert (found["FLUENCE_QUANTUM_JOB_ID"], found["FLUXION_BACKEND"]) == (task, "mock")


def test_account_of_sidecars_changes_nothing_else_of_pods(
    mock: Vendor, fluence: Fluence, namespace: Namespace, sidecars: Api
) -> None:
    namespace.create(quantum("q-1", "g", mode="shared", index="1", size=2))
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    before = namespace.pod("q-1")
    for change in (
        {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
        {"spec": {"nodeSelector": {"evil": "yes"}}},
        {"metadata": {"labels": {"team": "evil"}}},
        {"metadata": {"finalizers": ["example.com/evil"]}},
        {"metadata": {"annotations": {"evil": "yes"}}},
        {"metadata": {"annotations": {"fluence.flux-framework.org/backend": "evil"}}},
        {"metadata": {"annotations": {"fluence.flux-framework.org/coordination": None}}},
    ):
        # Two policies protect the binding's annotations, and the API server answers with either one's refusal.
        with pytest.raises(ApiError, match=r"fluence-sidecar|fluence-stamps") as refused:
            sidecars.patch(f"{path}/q-1", change, PATCH)
        assert refused.value.status in (403, 422), change
    now = namespace.pod("q-1")
    assert now["metadata"]["labels"] == before["metadata"]["labels"]
    assert gates_of(now) == gates_of(before)
    released = {
        "metadata": {"annotations": {RELEASED_ANNOTATION: "x"}},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": READY_GATE}]},
    }
    with pytest.raises(ApiError, match="until its producer's task is about to run"):
        sidecars.patch(f"{path}/q-1", released, PATCH)
    own = quantum("q-2", "g", mode="shared", index="2", size=3, priorityClassName="system-cluster-critical")
    namespace.create(own)
    sidecars.patch(f"{path}/q-2", released, PATCH)
    assert READY_GATE not in gates_of(namespace.pod("q-2"))


@pytest.fixture
def sidecars(namespace: Namespace, plane: ControlPlane, mock: Vendor) -> Iterator[Api]:
    """The API server, by the account of the namespace's sidecars, which is made for the first producer."""
    namespace.create(quantum("q-0", "g", mode="shared", index="0", size=2))
    token = wait_for(lambda: sidecars_token(namespace), what="the token of the sidecar")
    api = Api(plane.access.for_token(f"{namespace.name}.{SIDECAR_ACCOUNT}", token))
    path = f"/api/v1/namespaces/{namespace.name}/pods/q-0"
    wait_for(lambda: _may(api, path, RELEASED_ANNOTATION), what="the rights to be in force")
    wait_for(lambda: not _may(api, path, "evil"), what="the policy to be in force")
    yield api
    api.close()


def _may(api: Api, path: str, annotation: str) -> bool:
    change = {"metadata": {"annotations": {annotation: "tried"}}}
    try:
        api.request("PATCH", path, change, query={"dryRun": "All"}, content_type=PATCH)
    except ApiError as error:
        if error.status not in (403, 422):
            raise
        return False
    return True
