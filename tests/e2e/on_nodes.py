"""The examples on real nodes, as far as in_containers.py doesn't go: gangs, vendors, and a restricted namespace.

And what shows on real nodes alone: the image's own engine, and a pod that kubelet itself rejects.

Run by ``python -m tests.nodes``, whose images have stand-ins for the vendors' SDKs; the name keeps it out of runs on
other clusters.
"""

from __future__ import annotations

from pathlib import Path

from fluence_extender.model.coordination import READY_GATE
from fluence_extender.model.names import BACKEND_ANNOTATION, GROUP_LABEL
from tests.e2e.admitted import gates_of
from tests.e2e.harness import (
    Cluster,
    Manifest,
    Namespace,
    annotations_of,
    documents,
    node_of,
    phase_of,
    wait_for,
)
from tests.e2e.in_containers import FOLDER, LONG, backends, log, wait_for_log
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import user_shell
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang
from tests.localcluster.recipe import release
from tests.nodes.network import CONTROL
from tests.unit.coordination.servers import FakeBraket, FakeIbm, serving

__all__ = ["backends"]

EXAMPLES = FOLDER.parent
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
# Kubelet takes it from nobody unless it is told to.
FORBIDDEN = {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}
ARN = "arn:aws:braket:us-west-1:123456789012:quantum-task/made-0"


def apply(namespace: Namespace, *names: str) -> None:
    """Create the objects of examples as they stand."""
    for name in names:
        namespace.create(*documents(EXAMPLES / f"{name}.yaml"))


def nodes_of(namespace: Namespace, group: str) -> list[str]:
    """Where the members of a group are."""
    return [node_of(one) for one in namespace.pods(**{GROUP_LABEL: group})]


def wait_for_end(namespace: Namespace, job: str, count: int = 1) -> None:
    """Wait until so many pods of a Job have succeeded."""

    def done() -> bool:
        return [phase_of(one) for one in namespace.pods(**{"job-name": job})].count("Succeeded") == count

    wait_for(done, LONG, f"{job} to succeed")


def secret(namespace: Namespace, name: str, said: dict[str, str]) -> None:
    """Create a Secret."""
    namespace.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": said})


def test_gangs_of_the_examples_run(cluster: Cluster, namespace: Namespace, fluence: Fluence) -> None:
    apply(
        namespace,
        "01-single-pod",
        "02-gang-by-label",
        "04-native-podgroup",
        "05-mixed-gang",
        "06-shared-node",
    )
    lasting = 1 + 3 + 2 + 2 + 3
    wait_for(
        lambda: [phase_of(one) for one in namespace.pods()].count("Running") == lasting,
        LONG,
        "the gangs to run",
    )
    assert len(set(nodes_of(namespace, "neighbours"))) == 1
    group = cluster.api.get(f"/apis/{release().pod_groups}/namespaces/{namespace.name}/podgroups/native")
    conditions = {one["type"]: one["status"] for one in group["status"]["conditions"]}
    assert conditions[release().pod_group_condition] == "True"
    apply(namespace, "08-too-big")
    fluence.wait_for_reason(namespace.name, "too-big", "unsatisfiable")
    assert nodes_of(namespace, "too-big") == ["", ""]


def test_halves_of_a_core_fill_cores_on_the_engine_of_the_image(
    namespace: Namespace, fluence: Fluence, room: NodeFactory
) -> None:
    room(1, cpu="2")
    namespace.create(*gang("halves", 4, cpu="500m"))
    fluence.wait_for_state(namespace.name, "halves", "bound")
    namespace.create(*gang("more", 1, cpu="100m"))
    fluence.wait_for_reason(namespace.name, "more", "busy: 0 of 1 fit now, short of cpu")


def test_member_that_its_kubelet_rejects_is_named_at_once(
    cluster: Cluster, namespace: Namespace, fluence: Fluence, tmp_path: Path
) -> None:
    sound, unsound = gang("pair", 2, cpu="100m")
    unsound["spec"]["securityContext"] = FORBIDDEN
    namespace.create(sound, unsound)
    seen = fluence.wait_for_reason(namespace.name, "pair", "kubelet rejected pair-1 on ")
    assert (seen["state"], seen["why"]) == ("committed", "Rejected")
    assert "SysctlForbidden" in seen["reason"]
    told = user_shell(cluster.kubeconfig, namespace.name, tmp_path).fluence("why", "pair")
    assert "kubelet rejected pair-1" in " ".join(told.stdout.split()), told.stderr
    namespace.delete_pod("pair-1")
    namespace.create(*gang("pair", 1, first=2, size=2, cpu="100m"))
    fluence.wait_for_state(namespace.name, "pair", "bound")


def test_podgroup_names_the_member_that_its_kubelet_rejects(
    cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    group, sound, unsound = documents(EXAMPLES / "04-native-podgroup.yaml")
    unsound["spec"]["securityContext"] = FORBIDDEN
    namespace.create(group, sound, unsound)
    path = f"/apis/{release().pod_groups}/namespaces/{namespace.name}/podgroups/native"

    def rejected() -> str:
        conditions = {one["type"]: one for one in cluster.api.get(path)["status"].get("conditions") or ()}
        found = conditions.get(release().pod_group_condition, {})
        return str(found["message"]) if found.get("reason") == "Rejected" else ""

    told = wait_for(rejected, LONG, "the condition of the PodGroup")
    assert told.startswith("kubelet rejected native-1 on ")
    assert "SysctlForbidden" in told


def test_jobs_of_the_examples_run_to_their_end(namespace: Namespace, fluence: Fluence) -> None:
    apply(namespace, "03-gang-by-job", "09-default-scheduler", "10-topology")
    wait_for_end(namespace, "simulation", 4)
    wait_for_end(namespace, "ours")
    wait_for_end(namespace, "theirs")
    wait_for_end(namespace, "exchange", 4)
    assert len(set(nodes_of(namespace, "exchange"))) == 1
    said = {
        log(namespace, one["metadata"]["name"], "rank").strip()
        for one in namespace.pods(**{"job-name": "simulation"})
    }
    assert said == {f"rank {number} of 4" for number in range(4)}


def test_quantum_pod_is_told_its_backend(backends: None, namespace: Namespace, fluence: Fluence) -> None:
    apply(namespace, "07-quantum")
    wait_for_log(namespace, "quantum", "main", "running on ibm_fez")
    assert annotations_of(namespace.pod("quantum"))[BACKEND_ANNOTATION] == "ibm_fez"


def producer(namespace: Namespace, group: str) -> str:
    """The name of a shared job's producer, once its two consumers wait for its task."""
    (found,) = wait_for(lambda: namespace.pods(**{GROUP_LABEL: f"{group}-producer"}), LONG, "the producer")
    wait_for(lambda: len(waiting(namespace)) == 2, LONG, "two gated consumers")
    return str(found["metadata"]["name"])


def waiting(namespace: Namespace) -> list[str]:
    """The consumers that wait for their task."""
    return [one["metadata"]["name"] for one in namespace.pods() if READY_GATE in gates_of(one)]


def wait_for_consumers(namespace: Namespace, group: str, text: str) -> None:
    """Wait until both consumers have written what they do, and all of the job has succeeded."""
    for one in namespace.pods(**{GROUP_LABEL: group}):
        wait_for_log(namespace, one["metadata"]["name"], "main", text)
    wait_for_end(namespace, group, 3)


def test_consumers_of_a_braket_task_are_released(
    backends: None, namespace: Namespace, fluence: Fluence
) -> None:
    braket = FakeBraket()
    with serving(braket.answer, CONTROL) as url:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-west-1"}
        secret(namespace, "aws", {**keys, "AWS_ENDPOINT_URL_BRAKET": url})
        apply(namespace, "quantum/04-braket")
        name = producer(namespace, "braket")
        wait_for_log(namespace, name, "main", f"submitted {ARN} to rigetti_ankaa_3")
        assert braket.tasks[0]["tags"] == {"fluence-pod-uid": namespace.pod(name)["metadata"]["uid"]}
        wait_for_log(namespace, name, "fluence-sidecar", "queued, position 2")
        assert len(waiting(namespace)) == 2
        braket.tasks[0]["queue"] = {"queue": "QUANTUM_TASKS_QUEUE", "position": "1"}
        wait_for_consumers(namespace, "braket", f"working on {ARN} of rigetti_ankaa_3")


def test_consumers_of_an_ibm_task_are_released(
    backends: None, namespace: Namespace, fluence: Fluence
) -> None:
    ibm = FakeIbm(waiting={"ibm_fez": 12})
    ibm.add("job-1", "Queued")
    with serving(ibm.answer, CONTROL) as url:
        named = {
            "ENDPOINT": f"{url}/api/v1",
            "IAM_ENDPOINT": url,
            "IAM_APIKEY": "key",
            "SERVICE_CRN": "crn:v1:bluemix",
        }
        secret(namespace, "ibm", {f"ibm_fez_QRMI_IBM_QRS_{name}": value for name, value in named.items()})
        circuit: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "circuit"}}
        namespace.create({**circuit, "data": {"sampler.json": "{}"}})
        apply(namespace, "quantum/05-ibm")
        name = producer(namespace, "ibm")
        wait_for_log(namespace, name, "main", "submitted job-1 to ibm_fez")
        wait_for_log(namespace, name, "fluence-sidecar", "the producer has submitted a task")
        wait_for_log(namespace, name, "fluence-sidecar", "status=queued")
        assert len(waiting(namespace)) == 2
        ibm.jobs["job-1"]["state"] = {"status": "Running"}
        wait_for_consumers(namespace, "ibm", "working on job-1 of ibm_fez")


def test_shared_job_runs_in_a_restricted_namespace(
    backends: None, cluster: Cluster, namespace: Namespace, fluence: Fluence
) -> None:
    cluster.api.patch(f"/api/v1/namespaces/{namespace.name}", {"metadata": {"labels": RESTRICTED}})
    for document in [*documents(FOLDER / "01-mock-qpu.yaml"), *documents(FOLDER / "02-shared-gang.yaml")]:
        spec = {"Pod": document.get("spec")}.get(
            document["kind"], document["spec"].get("template", {}).get("spec")
        )
        if spec:
            spec["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
            for container in spec["containers"]:
                container["securityContext"] = CONFINED
        namespace.create(document)
    name = producer(namespace, "shared")
    wait_for_log(namespace, name, "fluence-sidecar", "consumers may start")
    wait_for_consumers(namespace, "shared", "of mock_qpu")
