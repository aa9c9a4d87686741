"""Objects that anybody may create are decoded in linear time, and a pod has few rules that are compared with nodes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fluence_extender.cluster.decode.pod import MOST_PORTS, MOST_RULES, MOST_VALUES, decode_pod
from fluence_extender.gangs.membership.workloads import WorkloadIndex, owner_topology
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob, decode_job_set
from fluence_extender.model.names import (
    JOB_INDEX,
    JOB_SET_NAME,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
)
from fluence_extender.model.notation import natural_order
from fluence_extender.model.pod import HostPort, Pod
from fluence_extender.placement.topology_constraints import SLICE_REQUIRED
from fluence_extender.room.holdings import ports_clash
from tests.core.growth import assert_linear

Json = dict[str, Any]


def pod_body(spec: Json, status: Json | None = None, **meta: Any) -> bytes:
    identity = {"name": "p", "namespace": "ns", "uid": "u"}
    containers = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    return json.dumps(
        {"metadata": identity | meta, "spec": containers | spec, "status": status or {}}
    ).encode()


def affinity(terms: list[Json]) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def near(terms: list[Json]) -> Json:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def expression(*values: str) -> Json:
    return {"key": "k", "operator": "In", "values": list(values)}


def amounts(index: int) -> Json:
    return {"requests": {f"x.io/a{index}": "1"}}


HOSTILE: Mapping[str, Callable[[int], bytes]] = {
    "terms": lambda n: pod_body(affinity([{"matchExpressions": [expression("v")]}] * n)),
    "fields": lambda n: pod_body(affinity([{"matchFields": [expression("v")] * n}])),
    "values": lambda n: pod_body(affinity([{"matchExpressions": [expression(*map(str, range(n)))]}])),
    "tolerations": lambda n: pod_body({"tolerations": [{"operator": "Exists"}] * n}),
    "node selectors": lambda n: pod_body({"nodeSelector": {f"k{i}": "v" for i in range(n)}}),
    "near terms": lambda n: pod_body(near([{"labelSelector": {"matchLabels": {"a": "b"}}}] * n)),
    "host ports": lambda n: pod_body(
        {"containers": [{"name": "c", "ports": [{"hostPort": i + 1} for i in range(n)]}]}
    ),
    "gates": lambda n: pod_body({"schedulingGates": [{"name": f"g{i}"} for i in range(n)]}),
    "containers": lambda n: pod_body(
        {"containers": [{"name": f"c{i}", "resources": amounts(i)} for i in range(n)]},
        {"containerStatuses": [{"name": f"c{i}", "resources": amounts(i)} for i in range(n)]},
    ),
    "sidecars": lambda n: pod_body(
        {
            "initContainers": [
                {"name": f"s{i}", "restartPolicy": "Always", "resources": amounts(i)} for i in range(n)
            ]
        }
    ),
    "init containers after sidecars": lambda n: pod_body(
        {
            "initContainers": [
                {"name": f"s{i}", "restartPolicy": "Always" if i < n // 2 else None, "resources": amounts(i)}
                for i in range(n)
            ]
        }
    ),
    "labels": lambda n: pod_body({}, labels={f"l{i}": "v" for i in range(n)}),
    "require annotations": lambda n: pod_body(
        {}, annotations={f"fluence.flux-framework.org/require-a{i}": "v" for i in range(n)}
    ),
    "owners": lambda n: pod_body({}, ownerReferences=[{"kind": "Job", "name": "j", "uid": "u"}] * n),
    "conditions": lambda n: pod_body({}, {"conditions": [{"type": "T", "status": "F"}] * n}),
    "volumes": lambda n: pod_body({"volumes": [{"name": "v"}] * n}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_to_decode_a_pod_grows_with_the_pod(kind: str) -> None:
    assert_linear(lambda raw: decode_pod(raw).requires, HOSTILE[kind])


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("terms", MOST_RULES // 2),
        ("fields", MOST_RULES - 1),
        ("values", MOST_VALUES),
        ("tolerations", MOST_RULES),
        ("node selectors", MOST_RULES),
        ("near terms", MOST_RULES),
        ("host ports", MOST_PORTS),
        ("require annotations", MOST_RULES),
    ],
)
def test_pod_with_more_rules_than_are_compared_is_never_planned(kind: str, most: int) -> None:
    assert decode_pod(HOSTILE[kind](most)).problem == ""
    beyond = decode_pod(HOSTILE[kind](most + 1))
    assert f" {most} are the most" in beyond.problem or f" {MOST_RULES} are the most" in beyond.problem
    assert (beyond.tolerations, beyond.node_selector, beyond.affinity, beyond.pod_affinity) == (
        (),
        {},
        None,
        (),
    )


def test_pod_with_too_many_rules_still_holds_what_it_requests() -> None:
    assert decode_pod(HOSTILE["tolerations"](10_000)).requests["cpu"] == 1000


def test_forms_of_large_pods_are_not_kept() -> None:
    decode_pod(pod_body({}))
    tracemalloc.start()
    try:
        for index in range(40):
            decode_pod(pod_body({"overhead": {f"x.io/{index}": "1", "x.io/" + "a" * 500_000: "1"}}))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 4_000_000


def job_set_with_pods(count: int) -> tuple[JobSet, list[Pod]]:
    names = [f"r{index}" for index in range(count)]
    jobs = tuple(ReplicatedJob(name, 1, ("first",) if index % 2 else ()) for index, name in enumerate(names))
    pods = [
        Pod(
            "ns",
            f"p-{name}",
            f"u-{name}",
            labels={JOB_SET_NAME: "js", REPLICATED_JOB: name, REPLICATED_JOB_REPLICAS: "1", JOB_INDEX: "0"},
            annotations={SLICE_REQUIRED: "rack"},
        )
        for name in names
    ]
    return JobSet("ns", "js", "u", jobs), pods


def test_time_to_recognize_the_pods_of_a_job_set_grows_with_them() -> None:
    def recognize(given: tuple[JobSet, list[Pod]]) -> None:
        index = WorkloadIndex()
        # The stages are computed once for each JobSet, so each run has one of its own.
        index.put(JobSet("ns", "js", "u", given[0].jobs))
        for pod in given[1]:
            index.membership(pod)
            owner_topology(index, pod)

    assert_linear(recognize, job_set_with_pods)


def test_time_to_decode_a_job_set_grows_with_it() -> None:
    def body(count: int) -> bytes:
        replicated = [{"name": f"r{i}", "dependsOn": [{"name": f"r{i - 1}"}]} for i in range(count)]
        return json.dumps({"metadata": {"name": "js"}, "spec": {"replicatedJobs": replicated}}).encode()

    assert_linear(lambda raw: decode_job_set(raw).stages, body)


def test_time_to_compare_host_ports_grows_with_them() -> None:
    def ports(count: int) -> tuple[list[HostPort], list[HostPort]]:
        return [HostPort(one) for one in range(count)], [HostPort(count + one) for one in range(count)]

    assert_linear(lambda given: ports_clash(*given), ports)


def test_name_of_any_number_of_digits_has_an_order() -> None:
    assert natural_order("n" + "9" * 5000) < natural_order("n1" + "0" * 5000)
    assert natural_order("n007") < natural_order("n8")
    assert natural_order("n7") != natural_order("n007")
    assert_linear(natural_order, lambda n: "1" * n)
    assert_linear(natural_order, lambda n: "a1" * n)
