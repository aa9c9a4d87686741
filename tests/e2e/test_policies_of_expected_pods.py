"""Jobs placed before their pods exist, as API server and Job controller treat them; the test plays the leader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.errors import Conflict
from fluence_extender.kinds.job import Job, decode_job
from fluence_extender.model.names import (
    DOMAIN,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUE_LABEL,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from tests.e2e.expected_pods import (
    REQUIRED,
    Leader,
    bound_at_birth,
    created,
    held,
    is_direct,
    keys_of,
    path_of,
    pods_of,
    ranks,
    resumed,
    suspended,
    tried,
)
from tests.e2e.harness import LONGEST, Manifest, Namespace, job, pod, wait_for
from tests.e2e.nodes import NodeFactory
from tests.e2e.workloads import QPU, ours

QUEUE = "kueue.x-k8s.io/queue-name"
HELD = {SUSPENDED_FOR_ANNOTATION}
BINDS = 600.0
"""Seconds for which a plan binds pods, longer than any test takes."""

JOB_SET = ("JobSet", "jobset.x-k8s.io/v1alpha2")


def of(kind: str, version: str) -> dict[str, Any]:
    owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "1", "controller": True}
    return {"ownerReferences": [owner]}


def in_queue(body: Manifest, labels: dict[str, str], **meta: Any) -> Manifest:
    return body | {"metadata": {"name": "j", "labels": {QUEUE_LABEL: "physics", **labels}, **meta}}


def test_indexed_job_waits_without_pods_until_the_leader_names_their_nodes(
    leader: Leader, namespace: Namespace, nodes: NodeFactory
) -> None:
    a, b = nodes(2, cpu="1")
    stored = created(namespace, ranks("train", 3))
    assert held(stored)
    assert keys_of(stored) == HELD
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    assert not namespace.pods()
    leader.resume(namespace, "train", [a, b, a], BINDS)
    assert [bound_at_birth(one) for one in pods_of(namespace, 3)] == [a, b, a]
    assert keys_of(namespace.api.get(path_of(namespace, "train"))) == {NODES_ANNOTATION, PLACED_ANNOTATION}


def test_job_that_a_cron_job_made_is_suspended(leader: Leader, namespace: Namespace) -> None:
    nightly = ranks("nightly", 2)
    nightly["metadata"] |= of("CronJob", "batch/v1")
    assert held(tried(namespace, nightly))


@pytest.mark.parametrize(
    "noted", [{}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"labels": {}, "annotations": {}}]
)
def test_job_keeps_the_labels_and_annotations_that_it_has(
    leader: Leader, namespace: Namespace, noted: Manifest
) -> None:
    body = ranks("noted", 2)
    body["metadata"] |= noted
    body["spec"]["template"]["metadata"] = dict(noted)
    stored = tried(namespace, body)
    assert held(stored)
    assert keys_of(stored) == HELD
    for where in (stored["metadata"], stored["spec"]["template"]["metadata"]):
        assert all(where[kind].items() >= entries.items() for kind, entries in noted.items() if entries)


SUSPENDED_UNTIL_THEIR_TURN: dict[str, Manifest] = {
    "not indexed": in_queue(ranks("j", 2, completionMode="NonIndexed"), {}),
    "a work queue": in_queue(job("j", ours("x"), completions=0), {}),
    "of more indexes than pods": in_queue(ranks("j", 2, completions=3), {}),
    "of one pod": in_queue(ranks("j", 1), {}),
    "whose template names the queue": job("j", ours("x", labels={QUEUE_LABEL: "physics"})),
    "a CronJob's": in_queue(job("j", ours("x")), {}, **of("CronJob", "batch/v1")),
    "of a queue, for Kueue": in_queue(job("j", ours("x")), {QUEUE: "q"}),
    "for Kueue": job("j", ours("x")) | {"metadata": {"name": "j", "labels": {QUEUE: "q"}}},
    "for Kueue, suspended as Kueue's users do it": job("j", ours("x"), suspend=True)
    | {"metadata": {"name": "j", "labels": {QUEUE: "q"}}},
}
SUSPENDED_UNTIL_THEIR_TURN["a work queue"]["spec"].pop("completions")


@pytest.mark.parametrize("what", SUSPENDED_UNTIL_THEIR_TURN)
def test_job_of_a_queue_is_suspended_until_its_turn(leader: Leader, namespace: Namespace, what: str) -> None:
    stored = tried(namespace, SUSPENDED_UNTIL_THEIR_TURN[what])
    assert held(stored)
    assert keys_of(stored) == {SUSPENDED_FOR_ANNOTATION}


LEFT_ALONE: dict[str, Manifest] = {
    "held by its user": ranks("j", 2, suspend=True),
    "opted out": ranks("j", 2) | {"metadata": {"name": "j", "labels": {SUSPEND_LABEL: NEVER_SUSPEND}}},
    "a RayJob's": ranks("j", 2) | {"metadata": {"name": "j", **of("RayJob", "ray.io/v1")}},
    "of a kind that is called JobSet too": ranks("j", 2)
    | {"metadata": {"name": "j", **of("JobSet", "x.y/v1")}},
    "a JobSet's that its JobSet suspends": ranks("j", 2, suspend=True)
    | {"metadata": {"name": "j", **of(*JOB_SET)}},
    "a JobSet's that opts out": ranks("j", 2)
    | {"metadata": {"name": "j", "labels": {SUSPEND_LABEL: NEVER_SUSPEND}, **of(*JOB_SET)}},
    "of pods that Kueue counts": ranks("j", 2, ours("x", labels={QUEUE: "q"}))
    | {"metadata": {"name": "j", "labels": {"a": "b"}}},
    "of another scheduler": ranks("j", 2, pod("x", scheduler="volcano")),
    "not indexed": ranks("j", 2, completionMode="NonIndexed"),
    "of more indexes than pods": ranks("j", 2, completions=3),
    "of one pod": ranks("j", 1),
    "of no pod": ranks("j", 0),
    "run by another controller": ranks("j", 2, managedBy="example.com/controller"),
    "of a queue, held by its user": in_queue(job("j", ours("x"), suspend=True), {}),
    "of a queue, opted out": in_queue(job("j", ours("x")), {SUSPEND_LABEL: NEVER_SUSPEND}),
    "of a queue and of no pod": in_queue(job("j", ours("x"), parallelism=0), {}),
    "of a queue, a RayJob's": in_queue(job("j", ours("x")), {}, **of("RayJob", "ray.io/v1")),
    "of a queue and of another scheduler": in_queue(job("j", pod("x")), {}),
    "gated by others": ranks("j", 2, ours("x", schedulingGates=[{"name": "example.com/quota"}])),
    "with a node": ranks("j", 2, ours("x", nodeName="n")),
}


@pytest.mark.parametrize("what", LEFT_ALONE)
@pytest.mark.parametrize("copied", [False, True], ids=["plain", "with copies of our keys"])
def test_job_is_left_alone(leader: Leader, namespace: Namespace, what: str, copied: bool) -> None:
    body = LEFT_ALONE[what]
    ours_too = body["spec"]["template"]["spec"]["schedulerName"] == "fluence"
    if copied and ours_too:
        notes = {SUSPENDED_FOR_ANNOTATION: SUSPENDED_FOR_PLACEMENT, "a": "b"}
        template = body["spec"]["template"]
        written = {NODES_ANNOTATION: "n,n", PLACED_ANNOTATION: "2 job/j"}
        noted = template["metadata"] | {"annotations": written}
        body = body | {
            "metadata": body["metadata"] | {"annotations": notes},
            "spec": body["spec"] | {"template": template | {"metadata": noted}},
        }
    stored = tried(namespace, body)
    assert bool(stored["spec"].get("suspend")) is bool(body["spec"].get("suspend"))
    assert keys_of(stored) == set()


def test_jobs_of_a_namespace_that_opts_out_are_left_alone(leader: Leader, namespace: Namespace) -> None:
    label = {"metadata": {"labels": {SUSPEND_LABEL: NEVER_SUSPEND}}}
    namespace.api.patch(f"/api/v1/namespaces/{namespace.name}", label)
    wait_for(lambda: not held(tried(namespace, ranks("j", 2))), what="the label to count")
    body = ranks("j", 2, ours("x", annotations={NODES_ANNOTATION: "n,n"}))
    assert keys_of(tried(namespace, body)) == set()


def test_jobs_whose_pods_become_ours_by_their_namespace_are_left_alone(
    leader: Leader, namespace: Namespace
) -> None:
    label = {"metadata": {"labels": {f"{DOMAIN}/intake": "all"}}}
    namespace.api.patch(f"/api/v1/namespaces/{namespace.name}", label)
    assert keys_of(tried(namespace, ranks("j", 2, pod("x")))) == set()


def test_replaced_pod_gets_the_node_of_its_index_while_the_plan_is_fresh(
    leader: Leader, namespace: Namespace, nodes: NodeFactory
) -> None:
    a, b = nodes(2, cpu="1")
    created(namespace, ranks("train", 2))
    leader.resume(namespace, "train", [a, b], BINDS)
    lost = pods_of(namespace, 2)[1]["metadata"]
    namespace.delete_pod(lost["name"])
    wait_for(lambda: lost["uid"] not in {one["metadata"]["uid"] for one in namespace.pods()}, what="it to go")
    assert [bound_at_birth(one) for one in pods_of(namespace, 2)] == [a, b]


def test_pods_that_a_job_has_beyond_its_plan_are_direct(
    leader: Leader, namespace: Namespace, nodes: NodeFactory
) -> None:
    a, b = nodes(2, cpu="1")
    created(namespace, ranks("elastic", 2))
    leader.resume(namespace, "elastic", [a, b], BINDS)
    pods_of(namespace, 2)
    namespace.api.patch(path_of(namespace, "elastic"), {"spec": {"parallelism": 3, "completions": 3}})
    pods = pods_of(namespace, 3)
    assert [bound_at_birth(one) for one in pods[:2]] == [a, b]
    assert is_direct(pods[2])


def test_job_that_is_sent_back_gets_other_nodes(
    leader: Leader, namespace: Namespace, nodes: NodeFactory
) -> None:
    a, b, c, d = nodes(4, cpu="1")
    created(namespace, ranks("train", 2))
    leader.resume(namespace, "train", [a, b], BINDS)
    pods_of(namespace, 2)
    assert held(leader.suspend(namespace, "train"))
    pods_of(namespace, 0)
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    leader.resume(namespace, "train", [c, d], BINDS)
    assert [bound_at_birth(one) for one in pods_of(namespace, 2)] == [c, d]


def test_pods_of_a_job_that_is_resumed_without_nodes_are_direct(leader: Leader, namespace: Namespace) -> None:
    resumed(leader, namespace, ranks("train", 2))
    assert all(map(is_direct, pods_of(namespace, 2)))


def with_terms(*terms: Manifest) -> Manifest:
    return ours("born", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}})


ANY = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}


def test_pods_of_a_quantum_job_are_direct(leader: Leader, namespace: Namespace) -> None:
    created(namespace, ranks("quantum", 2, ours("x", requests={QPU: 1})))
    leader.resume(namespace, "quantum", ["a", "b"], BINDS)
    assert all(map(is_direct, pods_of(namespace, 2)))


async def test_writes_of_the_service_are_what_its_account_may_do(
    leader: Leader, namespace: Namespace
) -> None:
    created(namespace, ranks("train", 2, ours("x", cpu="1")))

    async def now() -> Job:
        raw = await asyncio.to_thread(namespace.api.get, path_of(namespace, "train"))
        return decode_job(json.dumps(raw).encode())

    async def settled(pods: int, write: Callable[[Job], Awaitable[None]]) -> None:
        """Write once that many pods exist; the Job controller may write as well meanwhile."""
        await asyncio.to_thread(pods_of, namespace, pods)
        if not pods:
            await asyncio.to_thread(wait_for, lambda: suspended(namespace, "train"))
        async with asyncio.timeout(LONGEST):
            while True:
                with suppress(Conflict):
                    return await write(await now())

    async with connect(str(leader.api.kubeconfig)) as connection, open_cluster(connection) as cluster:
        (expected,) = await cluster.dry_run(await now())
        assert (expected.requests["cpu"], expected.node, expected.direct) == (1000, "", True)
        await settled(0, lambda job: cluster.resume(job, ["a", "b"], "2 job/train"))
        await settled(2, lambda job: cluster.hold_job(job, (1767323045.0, -1)))
        await settled(0, lambda job: cluster.resume(job, ["c", "d"], "2 job/train"))
        assert (await now()).nodes == ("c", "d")
    assert all(map(is_direct, pods_of(namespace, 2)))
