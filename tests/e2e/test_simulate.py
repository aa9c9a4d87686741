"""What-if and estimates on the real control plane: asked over HTTP and on both command lines; nothing is changed."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
import yaml

from fluence_extender.model.names import DURATION_ANNOTATION
from fluence_extender.whatif.estimates import MEASURE_PERIOD
from tests.e2e.commands import run
from tests.e2e.harness import Cluster, Manifest, Namespace, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import user_shell
from tests.e2e.proxied import behind_proxy
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang, indexed_job, ours

JSON = {"Content-Type": "application/json"}


def simulated(installation: Installation, namespace: Namespace, *manifests: Manifest) -> dict[str, Any]:
    """The service's answer."""
    url = f"{installation.stack.api_url}/v1/simulate?namespace={namespace.name}"
    body = json.dumps(manifests).encode()
    with urlopen(Request(url, body, JSON), timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_answer_comes_true(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(2, cpu="4")
    job = indexed_job("sim", ours("sim", cpu="2"), 4)
    said = simulated(installation, namespace, job)["gangs"][0]
    assert said["fits"]
    assert not fluence.gangs(namespace.name)
    namespace.create(job)
    pods = namespace.wait_until_bound(4)
    where = sorted(one["spec"]["nodeName"] for one in pods)
    assert where == sorted(one["node"] for one in said["placement"])
    again = simulated(installation, namespace, job)["gangs"][0]
    assert (again["fits"], again["reason"]) == (False, "busy: 0 of 4 fit now, short of cpu")
    assert simulated(installation, namespace, indexed_job("b", ours("b", cpu="9"), 2))["gangs"][0]["why"] == (
        "Unsatisfiable"
    )


def test_earliest_start_is_when_running_pods_say_that_they_end(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, installation: Installation
) -> None:
    own_nodes(1, cpu="4")
    namespace.create(ours("long", cpu="3", annotations={DURATION_ANNOTATION: "2h"}))
    started = datetime.fromisoformat(namespace.wait_for_phase("long", "Running")["status"]["startTime"])
    namespace.create(*gang("next", 2, cpu="2", annotations={DURATION_ANNOTATION: "1h"}))
    fluence.wait_for_reason(namespace.name, "next", "busy")

    def estimated() -> Any:
        found = fluence.gang(namespace.name, "next")
        return found if found and found["expected_start"] else None

    seen = wait_for(estimated, what="an estimate of the start")
    assert abs((datetime.fromisoformat(seen["expected_start"]) - started).total_seconds() - 7200) < 2
    assert "; expected to start about 20" in seen["reason"]
    said = simulated(installation, namespace, *gang("other", 2, cpu="2"))["gangs"][0]
    # The gang ahead has the node from then on for an hour.
    assert re.match("3h|2h5[0-9]m", said["earliestIn"])
    # The node is kept for the gang ahead, and what says nothing about its end would still be there.
    assert said["reductions"] == []
    short = gang("other", 2, cpu="2", annotations={DURATION_ANNOTATION: "1h"})
    assert [one["text"] for one in simulated(installation, namespace, *short)["gangs"][0]["reductions"]] == [
        "all 2 fit with 500m cpu each, not 2 cpu",
    ]
    # An estimate that stands for less than this isn't measured.
    time.sleep(2 * MEASURE_PERIOD)
    namespace.api.delete(f"/api/v1/namespaces/{namespace.name}/pods/long")
    namespace.wait_until_bound(2)

    def measured() -> bool:
        with urlopen(f"{installation.stack.api_url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return 'fluence_start_estimate_error_seconds_count{estimate="first"} 0' not in text

    wait_for(measured, what="the estimate's error to be measured")


def test_command_line_gives_the_same_answer_live_and_from_files(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    cluster: Cluster,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(ours("there", cpu="3"))
    namespace.wait_until_bound(1)
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(indexed_job("sim", ours("sim", cpu="2"), 3)))
    nodes = tmp_path / "cluster.json"
    items = [*cluster.api.get("/api/v1/nodes")["items"], *cluster.api.get("/api/v1/pods")["items"]]
    for item in items:
        item["kind"] = "Pod" if "containers" in item["spec"] else "Node"
    nodes.write_text(json.dumps({"kind": "List", "items": items}))
    live = run("simulate", "-f", str(job), "--kubeconfig", str(cluster.kubeconfig), "-o", "json")
    file = run("simulate", "-f", str(job), "--nodes", str(nodes), "-o", "json")
    served = simulated(installation, namespace, yaml.safe_load(job.read_text()))
    answers = [json.loads(live.stdout), json.loads(file.stdout), served]
    assert [one["fits"] for one in answers] == [False] * 3
    assert {one["gangs"][0]["reason"] for one in answers} == {"busy: 2 of 3 fit now, short of cpu"}
    assert (live.returncode, file.returncode) == (3, 3)


def test_who_would_make_way_is_named(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    cluster: Cluster,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(2, cpu="4")
    namespace.create(*gang("low", 2, cpu="3"))
    namespace.wait_until_bound(2)
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    class_name = f"what-if-{uuid4().hex[:6]}"
    urgent = {**head, "metadata": {"name": class_name}, "value": 1000}
    job = indexed_job("high", ours("high", cpu="4", priorityClassName=class_name), 2)
    text = f"would preempt 1 gang (2 pods): {namespace.name}/low (2)"

    def asked() -> Any:
        said = simulated(installation, namespace, job)["gangs"][0]["preemption"]
        return said if said and said["outcome"] == "Preempts" else None

    refused = simulated(installation, namespace, job)["gangs"][0]
    assert refused["why"] == "InvalidRequest"
    assert f"no PriorityClass with name {class_name} was found" in refused["reason"]
    cluster.apply(urgent)
    try:
        said = wait_for(asked, what="the gang that would be preempted")
        file = tmp_path / "job.yaml"
        file.write_text(yaml.safe_dump({**job, "metadata": {**job["metadata"], "namespace": namespace.name}}))
        live = run("simulate", "-f", str(file), "--kubeconfig", str(cluster.kubeconfig))
    finally:
        cluster.api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{class_name}")
    assert said["text"] == text
    assert len({one["node"] for one in said["placement"]}) == 2
    assert live.stdout.splitlines()[2:4] == [f"  {text}", live.stdout.splitlines()[3]], live
    assert live.stdout.splitlines()[3].startswith("  then on ")


def test_kubectl_fluence_asks_through_the_api_server(
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
    cluster: Cluster,
    installation: Installation,
    tmp_path: Path,
) -> None:
    own_nodes(1, cpu="4")
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(indexed_job("sim", ours("sim", cpu="1"), 4)))
    with behind_proxy(installation):
        shell = user_shell(cluster.kubeconfig, namespace.name, tmp_path)
        yes = shell.fluence("simulate", "-f", str(job))
        assert yes.stdout.splitlines()[0] == f"{namespace.name}/sim (4 pods): fits now", yes
        job.write_text(yaml.safe_dump(indexed_job("sim", ours("sim", cpu="1"), 5)))
        no = shell.fluence("simulate", "-f", str(job), "-o", "json")
        assert no.returncode == 3, no
        assert json.loads(no.stdout)["gangs"][0]["reductions"][0]["text"] == "4 of 5 members fit"
        bad = shell.fluence("simulate", "-f", "-", stdin="{")
        assert (bad.returncode, bad.stdout) == (1, ""), bad
        assert "standard input:1: isn't valid YAML" in bad.stderr


BAD: tuple[object, ...] = (
    3,
    {"kind": "Pod"},
    {"kind": "Job", "spec": 3},
    [],
    {"kind": "ConfigMap"},
)


@pytest.mark.parametrize("body", [b"", b"{", b"kind: Pod", *(json.dumps(one).encode() for one in BAD)])
def test_bad_questions_are_told(installation: Installation, fluence: Fluence, body: bytes) -> None:
    url = f"{installation.stack.api_url}/v1/simulate"
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(url, body, JSON, method="POST"), timeout=60)
    with caught.value as error:
        assert error.code == 400
        assert json.load(error)["detail"]
