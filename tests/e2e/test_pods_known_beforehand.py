"""Pods that are placed before they exist: they are created as expected, as the embedded cluster admits them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.embeddedcluster.admission import admit, admit_job
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.job import decode_job
from fluence_extender.model.names import COMPLETION_INDEX, NODES_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.e2e.expected_pods import (
    Leader,
    as_created_by_its_job,
    created,
    held,
    keys_of,
    path_of,
    pods_of,
    ranks,
    suspended,
    tried,
)
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.e2e.installation import Installation
from tests.e2e.test_policies_of_expected_pods import ANY, JOB_SET, LEFT_ALONE, of, with_terms
from tests.e2e.workloads import QPU, ours


async def test_pods_are_born_as_they_were_foreseen(
    leader: Leader, namespace: Namespace, installation: Installation
) -> None:
    created(namespace, ranks("train", 2, ours("x", requests={"cpu": "1", QPU: "1"}, labels={"a": "b"})))
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    job = decode_job(json.dumps(namespace.api.get(path_of(namespace, "train"))).encode())
    async with connect(str(installation.kubeconfig)) as connection, open_cluster(connection) as cluster:
        (expected,) = await cluster.dry_run(job)
        await cluster.resume(job, ("a", "b"))
    assert (expected.gates, expected.affinity, expected.direct) == ((), None, True)
    born = decode_pod(json.dumps(pods_of(namespace, 2)[0]).encode())
    same = replace(expected, name=born.name, uid=born.uid, resource_version=born.resource_version)
    later = replace(same, annotations=born.annotations, told=born.told)
    assert replace(later, created=born.created) == born


HELD: dict[str, Manifest] = {
    "a gang": ranks("j", 2),
    "a gang with a label of another kind": ranks("j", 3, ours("x", labels={"a": "b"})),
    "a JobSet's": ranks("j", 2) | {"metadata": {"name": "j", **of(*JOB_SET)}},
    "a JobSet's of one pod": ranks("j", 1) | {"metadata": {"name": "j", **of(*JOB_SET)}},
    "with copies": ranks("j", 2, ours("x", annotations={NODES_ANNOTATION: "n,n"})),
}


@pytest.mark.parametrize("what", [*HELD, *LEFT_ALONE])
def test_embedded_cluster_admits_jobs_as_the_policies_do(
    leader: Leader, namespace: Namespace, what: str
) -> None:
    body = {**HELD, **LEFT_ALONE}[what]
    embedded, real = admit_job(copy.deepcopy(body)), tried(namespace, copy.deepcopy(body))
    assert (held(embedded), keys_of(embedded)) == (held(real), keys_of(real))
    assert held(real) is (what in HELD)


PODS: dict[str, Manifest] = {
    "in range": as_created_by_its_job("a,b", "1"),
    "beyond the last": as_created_by_its_job("a,b", "2"),
    "no number": as_created_by_its_job("a,b", "first"),
    "huge": as_created_by_its_job("a,b", "99999999999999999999"),
    "no nodes": as_created_by_its_job(""),
    "no annotation": as_created_by_its_job(None),
    "empty name": as_created_by_its_job(",b"),
    "with terms": as_created_by_its_job("a", template=with_terms(ANY, {})),
    "with an empty term": as_created_by_its_job("a", template=with_terms({})),
    "with a device": as_created_by_its_job("a", template=ours("born", requests={QPU: 1})),
    "with gates": as_created_by_its_job("a", template=ours("born", schedulingGates=[{"name": "x.y/z"}])),
}


@pytest.mark.parametrize("what", PODS)
def test_embedded_cluster_admits_pods_as_the_policies_do(
    leader: Leader, namespace: Namespace, what: str
) -> None:
    body = copy.deepcopy(PODS[what])
    # The garbage collector deletes this one: its Job doesn't exist.
    real = decode_pod(json.dumps(created(namespace, body)).encode())
    body["metadata"] |= {"namespace": namespace.name}
    embedded = admit(copy.deepcopy(body), parse_resources("resources: [{type: qpu, name: q, count: 1}]"))
    assert fate(embedded) == fate(real)


def fate(pod: Pod) -> tuple[str, str, tuple[str, ...], dict[str, Any]]:
    keys = (NODES_ANNOTATION, COMPLETION_INDEX)
    return pod.scheduler, pod.node, pod.gates, {key: pod.annotations.get(key) for key in keys}
