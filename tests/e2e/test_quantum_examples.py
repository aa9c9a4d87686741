"""The examples of examples/quantum do what they say, against vendors that the test serves.

Their programs run as they stand in the manifests; where a vendor's SDK would be installed, a stand-in of the same
interface is found.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.coordination.mock_qpu import MockQpu, server
from fluence_extender.model.coordination import POLL_INTERVAL_ANNOTATION, READY_GATE
from fluence_extender.model.names import GROUP_LABEL
from tests.e2e.admitted import containers, environment, gates_of, quantum
from tests.e2e.containers import RunningPod
from tests.e2e.harness import LONGEST, Manifest, Namespace, documents, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.sdks import installed
from tests.e2e.service import Fluence
from tests.localcluster import ControlPlane
from tests.localcluster.stack import Webhook
from tests.unit.coordination.servers import FakeBraket, FakeIbm, serving

Write = Callable[[str], None]
FOLDER = Path(__file__).parents[2] / "examples" / "quantum"


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    return control_plane


@contextmanager
def mock_qpu(now: Callable[[], float], port: int = 0) -> Iterator[str]:
    with server("127.0.0.1", port, MockQpu(2, 10.0, now)) as listening, pytest.MonkeyPatch.context() as patch:
        patch.setattr(listening.RequestHandlerClass, "log_message", lambda *_: None)
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def configure(resources: Write, namespace: Namespace, endpoint: str = "http://127.0.0.1:9") -> None:
    """Have the backends of the examples, the mock one at ``endpoint``, known to the webhook."""
    document = yaml.safe_load((FOLDER / "resources.yaml").read_text())
    document["attributes"]["mock"]["endpoint"] = endpoint
    resources(yaml.safe_dump(document))
    path = f"/api/v1/namespaces/{namespace.name}/pods"

    def known() -> bool:
        made = namespace.api.request("POST", path, quantum("probe"), query={"dryRun": "All"})
        return {"FLUXION_ENDPOINT", "FLUXION_ARN", "FLUXION_QRMI_TYPE"} <= environment(made).keys()

    wait_for(known, what="the webhook to read resources.yaml")


def create(namespace: Namespace, example: str) -> None:
    """Create what is ours of an example; it looks at its task often."""
    for document in documents(FOLDER / f"{example}.yaml"):
        template = document if document["kind"] == "Pod" else document["spec"].get("template", {})
        if template.get("spec", {}).get("schedulerName") == "fluence":
            template["metadata"]["annotations"][POLL_INTERVAL_ANNOTATION] = "0.2s"
            namespace.create(document)


def secret(namespace: Namespace, name: str, said: Mapping[str, str]) -> None:
    head: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    namespace.create({**head, "stringData": dict(said)})


def producer(namespace: Namespace, group: str) -> Manifest:
    (found,) = wait_for(lambda: namespace.pods(**{GROUP_LABEL: f"{group}-producer"}), what="the producer")
    wait_for(lambda: len(waiting(namespace)) == 2, what="two gated consumers")
    return namespace.wait_for_phase(found["metadata"]["name"], "Running")


def waiting(namespace: Namespace) -> list[str]:
    return [one["metadata"]["name"] for one in namespace.pods() if READY_GATE in gates_of(one)]


def wait_for_log(running: RunningPod, text: str) -> None:
    wait_for(lambda: text in running.log.read_text(), LONGEST, f"{text!r} in the log", running.log.read_text)


def consumers_say(
    namespace: Namespace, plane: ControlPlane, group: str, at: Path, **mounts: Path
) -> set[str]:
    """What the two consumers print first, once they run."""
    said = set()
    for one in namespace.pods(**{GROUP_LABEL: group}):
        pod = namespace.wait_for_phase(one["metadata"]["name"], "Running")
        with RunningPod(plane, pod, at / pod["metadata"]["name"], mounted(mounts)) as running:
            said.add(running.main().splitlines()[0])
    return said


def mounted(mounts: Mapping[str, Path]) -> dict[str, Path]:
    return {f"/{name}": path for name, path in mounts.items()}


def test_1_mock_qpu(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write,
    plane: ControlPlane, tmp_path: Path,
) -> None:  # fmt: skip
    own_nodes(1, cpu="2")
    with mock_qpu(lambda: 0.0) as url:
        configure(resources, namespace, url)
        create(namespace, "01-mock-qpu")
        pod = namespace.wait_for_phase("hello-quantum", "Running")
        with RunningPod(plane, pod, tmp_path / "pod") as running:
            running.stage()
            assert running.main() == "BACKEND=mock_qpu\nsubmitted mock-0"
    assert "fluence-sidecar" not in containers(pod)


def test_2_shared_gang(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write,
    plane: ControlPlane, tmp_path: Path,
) -> None:  # fmt: skip
    own_nodes(1, cpu="2")
    now = [0.0]
    with mock_qpu(lambda: now[0]) as url:
        configure(resources, namespace, url)
        create(namespace, "02-shared-gang")
        with RunningPod(plane, producer(namespace, "shared"), tmp_path / "lead") as running:
            running.stage()
            running.sidecar()
            said: list[str] = []
            program = threading.Thread(target=lambda: said.append(running.main()))
            program.start()
            wait_for_log(running, "queued, position 2")
            assert len(waiting(namespace)) == 2
            now[0] = 10.0
            wait_for(lambda: not waiting(namespace), LONGEST, "the consumers", running.log.read_text)
            now[0] = 100.0
            program.join(LONGEST)
            assert said == ["submitted mock-0 to mock_qpu\nthe task is completed"]
        assert consumers_say(namespace, plane, "shared", tmp_path) == {"working on mock-0 of mock_qpu"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_1_and_2_applied_back_to_back_before_the_backend_listens(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write,
    plane: ControlPlane, tmp_path: Path,
) -> None:  # fmt: skip
    own_nodes(1, cpu="2")
    now, port, said = [0.0], free_port(), dict[str, str]()
    configure(resources, namespace, f"http://127.0.0.1:{port}")
    create(namespace, "01-mock-qpu")
    create(namespace, "02-shared-gang")
    lead = producer(namespace, "shared")
    first = RunningPod(plane, namespace.wait_for_phase("hello-quantum", "Running"), tmp_path / "hello")
    with first, RunningPod(plane, lead, tmp_path / "lead") as second:
        programs = []
        for name, running in (("hello", first), ("lead", second)):
            running.stage()
            program = threading.Thread(
                target=lambda name=name, running=running: said.update({name: running.main()})
            )
            program.start()
            programs.append(program)
        second.sidecar()
        with mock_qpu(lambda: now[0], port):
            wait_for_log(second, "queued, position 2")
            assert len(waiting(namespace)) == 2
            now[0] = 10.0
            wait_for(lambda: not waiting(namespace), LONGEST, "the consumers", second.log.read_text)
            now[0] = 100.0
            for program in programs:
                program.join(LONGEST)
            tasks = {"mock-0", "mock-1"}
            (theirs,) = (one for one in tasks if f"submitted {one} to mock_qpu" in said["lead"])
            (other,) = tasks - {theirs}
            assert said["hello"] == f"BACKEND=mock_qpu\nsubmitted {other}"
            assert said["lead"] == f"submitted {theirs} to mock_qpu\nthe task is completed"
            assert consumers_say(namespace, plane, "shared", tmp_path) == {f"working on {theirs} of mock_qpu"}


def test_3_observe(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write,
    plane: ControlPlane, tmp_path: Path,
) -> None:  # fmt: skip
    own_nodes(1, cpu="2")
    now = [0.0]
    with mock_qpu(lambda: now[0]) as url:
        configure(resources, namespace, url)
        create(namespace, "03-observe")
        with RunningPod(plane, namespace.wait_for_phase("observed", "Running"), tmp_path / "pod") as running:
            running.stage()
            sidecar = running.sidecar()
            program = threading.Thread(target=running.main)
            program.start()
            wait_for_log(running, "queued, position 2")
            now[0] = 10.0
            wait_for_log(running, "the task is about to run")
            now[0] = 100.0
            program.join(LONGEST)
            sidecar.terminate()
            assert sidecar.wait(LONGEST) == 0


def test_4_braket(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write,
    plane: ControlPlane, tmp_path: Path,
) -> None:  # fmt: skip
    own_nodes(1, cpu="4")
    sdk = installed("amazon-braket-sdk", tmp_path / "sdk")
    braket = FakeBraket()
    with serving(braket.answer) as url:
        configure(resources, namespace)
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL_BRAKET": url}
        secret(namespace, "aws", keys)
        create(namespace, "04-braket")
        lead = producer(namespace, "braket")
        with RunningPod(plane, lead, tmp_path / "lead", {"/sdk": sdk}) as running:
            running.stage()
            # The program ends before the sidecar begins, which finds the task by its tag.
            arn = "arn:aws:braket:us-west-1:123456789012:quantum-task/made-0"
            assert running.main().splitlines()[0] == f"submitted {arn} to rigetti_ankaa_3"
            assert braket.tasks[0]["tags"] == {"fluence-pod-uid": lead["metadata"]["uid"]}
            running.sidecar()
            wait_for_log(running, "queued, position 2")
            assert len(waiting(namespace)) == 2
            braket.tasks[0]["queue"] = {"queue": "QUANTUM_TASKS_QUEUE", "position": "1"}
            wait_for(lambda: not waiting(namespace), LONGEST, "the consumers", running.log.read_text)
        said = consumers_say(namespace, plane, "braket", tmp_path, sdk=sdk)
        assert said == {f"working on {arn} of rigetti_ankaa_3"}


def test_5_ibm(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, resources: Write,
    plane: ControlPlane, tmp_path: Path,
) -> None:  # fmt: skip
    own_nodes(1, cpu="4")
    sdk, circuit = installed("qrmi", tmp_path / "sdk"), tmp_path / "circuit"
    circuit.mkdir()
    (circuit / "sampler.json").write_text("{}")
    ibm = FakeIbm(waiting={"ibm_fez": 12})
    ibm.add("job-1", "Queued")
    with serving(ibm.answer) as url:
        configure(resources, namespace)
        named = {
            "ENDPOINT": f"{url}/api/v1",
            "IAM_ENDPOINT": url,
            "IAM_APIKEY": "key",
            "SERVICE_CRN": "crn:v1:bluemix",
        }
        secret(namespace, "ibm", {f"ibm_fez_QRMI_IBM_QRS_{name}": value for name, value in named.items()})
        create(namespace, "05-ibm")
        mounts = {"/sdk": sdk, "/circuit": circuit}
        with RunningPod(plane, producer(namespace, "ibm"), tmp_path / "lead", mounts) as running:
            running.stage()
            running.sidecar()
            wait_for_log(running, "following tasks")
            # QRMI's tasks have no tags: the sidecar is told by the interceptor.
            assert running.main() == "submitted job-1 to ibm_fez\ncounts"
            wait_for_log(running, "the producer has submitted a task")
            wait_for_log(running, "status=queued")
            assert len(waiting(namespace)) == 2
            ibm.jobs["job-1"]["state"] = {"status": "Running"}
            wait_for(lambda: not waiting(namespace), LONGEST, "the consumers", running.log.read_text)
        said = consumers_say(namespace, plane, "ibm", tmp_path, sdk=sdk, circuit=circuit)
        assert said == {"working on job-1 of ibm_fez"}
