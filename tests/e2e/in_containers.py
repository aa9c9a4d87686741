"""The quantum examples on a cluster whose nodes run containers: what they write to their logs.

Run by tests/kind/run.sh; the name keeps it out of runs on the local control plane, where nothing writes a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from fluence_extender.model.coordination import READY_GATE
from fluence_extender.model.names import BACKEND_ANNOTATION, GROUP_LABEL, RESOURCES_CONFIGMAP, RESOURCES_KEY
from tests.e2e.admitted import environment, gates_of, quantum
from tests.e2e.harness import (
    Cluster,
    Manifest,
    Namespace,
    annotations_of,
    documents,
    job,
    phase_of,
    pod,
    wait_for,
)
from tests.localcluster import ApiError

FOLDER = Path(__file__).parents[2] / "examples" / "quantum"
LONG = 240.0


@pytest.fixture
def backends(cluster: Cluster, namespace: Namespace) -> Iterator[None]:
    """The backends of the examples, the mock one in this namespace."""
    document = yaml.safe_load((FOLDER / "resources.yaml").read_text())
    document["attributes"]["mock"]["endpoint"] = f"http://mock-qpu.{namespace.name}.svc:8080"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RESOURCES_CONFIGMAP, "namespace": "fluence-system"},
        "data": {RESOURCES_KEY: yaml.safe_dump(document)},
    }
    cluster.apply(config_map)
    path = f"/api/v1/namespaces/{namespace.name}/pods"

    def known() -> bool:
        made = namespace.api.request("POST", path, quantum("probe"), query={"dryRun": "All"})
        return "FLUXION_ENDPOINT" in environment(made)

    wait_for(known, LONG, "the webhook to read resources.yaml")
    yield
    with suppress(ApiError):
        cluster.api.delete(f"/api/v1/namespaces/fluence-system/configmaps/{RESOURCES_CONFIGMAP}")


def log(namespace: Namespace, pod: str, container: str) -> str:
    """What a container has written so far; nothing before it has started."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}/log"
    try:
        answer = namespace.api.get(path, container=container)
    except ApiError as error:
        if "waiting to start" in error.message or "is not available" in error.message:
            return ""
        raise
    return str(answer.get("text", answer))


def wait_for_log(namespace: Namespace, pod: str, container: str, text: str) -> None:
    what = f"{text!r} in the log of {container} in {pod}"
    wait_for(lambda: text in log(namespace, pod, container), LONG, what)


def test_programs_see_their_backend_and_consumers_their_task(backends: None, namespace: Namespace) -> None:
    namespace.create(*documents(FOLDER / "01-mock-qpu.yaml"))
    wait_for(
        lambda: phase_of(namespace.pod("hello-quantum")) in ("Running", "Succeeded"), LONG, "hello-quantum"
    )
    backend = annotations_of(namespace.pod("hello-quantum"))[BACKEND_ANNOTATION]
    assert backend == "mock_qpu"
    wait_for_log(namespace, "hello-quantum", "main", f"BACKEND={backend}")
    wait_for_log(namespace, "hello-quantum", "main", "submitted mock-")

    namespace.create(*documents(FOLDER / "02-shared-gang.yaml"))
    (lead,) = wait_for(lambda: namespace.pods(**{GROUP_LABEL: "shared-producer"}), LONG, "the producer")
    name = lead["metadata"]["name"]
    wait_for_log(namespace, name, "main", f"submitted mock-1 to {backend}")
    wait_for_log(namespace, name, "fluence-sidecar", "queued, position 2")
    wait_for_log(namespace, name, "fluence-sidecar", "consumers may start")
    for one in namespace.pods(**{GROUP_LABEL: "shared"}):
        wait_for_log(namespace, one["metadata"]["name"], "main", f"working on mock-1 of {backend}")
        assert READY_GATE not in gates_of(namespace.pod(one["metadata"]["name"]))
    wait_for(
        lambda: phase_of(namespace.pod(name)) == "Succeeded",
        LONG,
        "the producer to succeed: no sidecar keeps it",
    )


def test_jobs_of_both_schedulers_write_their_logs(namespace: Namespace) -> None:
    words = {"fluence": "potato", "default-scheduler": "not potato"}
    for scheduler, text in words.items():
        template = pod("x", scheduler=scheduler, cpu="100m")
        template["spec"]["containers"][0] |= {"image": "busybox:1.37", "command": ["echo", text]}
        namespace.create(job(scheduler, template))
    for scheduler, text in words.items():
        assert log_of_job(namespace, scheduler) == text


def log_of_job(namespace: Namespace, name: str) -> str:
    """What the pod of a Job has written, once it has succeeded."""

    def done() -> Manifest | None:
        return next(
            (one for one in namespace.pods(**{"job-name": name}) if phase_of(one) == "Succeeded"), None
        )

    one = wait_for(done, LONG, f"the pod of {name} to succeed")
    return log(namespace, one["metadata"]["name"], "main").strip()


def test_observed_pod_is_told_of_in_the_sidecars_log(backends: None, namespace: Namespace) -> None:
    mock = documents(FOLDER / "01-mock-qpu.yaml")[:2]
    namespace.create(*mock, *documents(FOLDER / "03-observe.yaml"))
    wait_for_log(namespace, "observed", "fluence-sidecar", "found a task of the producer")
    wait_for_log(namespace, "observed", "fluence-sidecar", "the task is about to run")
    wait_for(lambda: phase_of(namespace.pod("observed")) == "Succeeded", LONG, "observed to succeed")
