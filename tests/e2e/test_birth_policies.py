"""Jobs that are placed at birth, as the API server and the Job controller treat them; the test plays the leader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.errors import Conflict
from fluence_extender.gangs.membership.foreseen import unpinnable
from fluence_extender.model.names import (
    DOMAIN,
    GATE,
    MARK_RESOURCE,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    PLACED_LABEL,
    QUEUE_LABEL,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from fluence_extender.model.workload import Job
from tests.core.marks import PODS
from tests.e2e.births import (
    GATED_JOBS_PATH,
    REQUIRED,
    Leader,
    as_created_by_its_job,
    created,
    held,
    keys_of,
    named,
    path_of,
    pinned_to,
    pods_of,
    ranks,
    refusal,
    resumed,
    suspended,
    terms_of,
    tried,
)
from tests.e2e.harness import LONGEST, Manifest, Namespace, documents, job, pod, wait_for
from tests.e2e.installation import BASE, gates_of
from tests.e2e.test_marks import ADDED_BY, patches_of, sidecars_added
from tests.e2e.workloads import QPU, ours

QUEUE = "kueue.x-k8s.io/queue-name"
HELD = {SUSPENDED_FOR_ANNOTATION, PLACED_LABEL}
JOB_SET = ("JobSet", "jobset.x-k8s.io/v1alpha2")


def of(kind: str, version: str) -> dict[str, Any]:
    owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "1", "controller": True}
    return {"ownerReferences": [owner]}


def in_queue(body: Manifest, labels: dict[str, str], **meta: Any) -> Manifest:
    return body | {"metadata": {"name": "j", "labels": {QUEUE_LABEL: "physics", **labels}, **meta}}


def test_indexed_job_waits_without_pods_until_the_leader_names_their_nodes(
    leader: Leader, namespace: Namespace
) -> None:
    stored = created(namespace, ranks("train", 3))
    assert held(stored)
    assert keys_of(stored) == HELD
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    assert not namespace.pods()
    leader.resume(namespace, "train", ["a", "b", "a"])
    pods = pods_of(namespace, 3)
    assert [pinned_to(one) for one in pods] == ["a", "b", "a"]
    assert all("managedFields" not in one["metadata"] for one in pods)
    assert keys_of(namespace.api.get(path_of(namespace, "train"))) == {
        *(NODES_ANNOTATION, PLACED_ANNOTATION, PLACED_LABEL)
    }


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


def test_replaced_pod_gets_the_node_of_its_index(leader: Leader, namespace: Namespace) -> None:
    resumed(leader, namespace, ranks("train", 2), "a", "b")
    lost = pods_of(namespace, 2)[1]["metadata"]["uid"]
    namespace.delete_pod(pods_of(namespace, 2)[1]["metadata"]["name"])
    wait_for(lambda: lost not in {one["metadata"]["uid"] for one in namespace.pods()}, what="it to go")
    assert [pinned_to(one) for one in pods_of(namespace, 2)] == ["a", "b"]


def test_pods_of_a_listed_job_wait_at_the_gate(leader: Leader, namespace: Namespace) -> None:
    full = resumed(leader, namespace, ranks("full", 2), "a", "b")
    pods_of(namespace, 2)
    leader.gate_jobs({full["metadata"]["uid"]: "node a is gone"})

    def gated() -> bool:
        trial = as_created_by_its_job("a,b", uid=full["metadata"]["uid"])
        return not pinned_to(tried(namespace, trial))

    wait_for(gated, what="the API server to read it")
    for one in pods_of(namespace, 2):
        namespace.delete_pod(one["metadata"]["name"])
    wait_for(lambda: all(gates_of(one) for one in namespace.pods()), what="successors")
    assert [pinned_to(one) for one in pods_of(namespace, 2)] == ["", ""]
    assert pinned_to(tried(namespace, as_created_by_its_job("a,b", uid="another"))) == "a"
    leader.gate_jobs({})
    wait_for(lambda: not gated(), what="the API server to read it")


def test_job_that_grows_beyond_its_nodes_has_the_rest_at_the_gate(
    leader: Leader, namespace: Namespace
) -> None:
    resumed(leader, namespace, ranks("elastic", 2), "a", "b")
    pods_of(namespace, 2)
    namespace.api.patch(path_of(namespace, "elastic"), {"spec": {"parallelism": 3, "completions": 3}})
    assert [pinned_to(one) for one in pods_of(namespace, 3)] == ["a", "b", ""]


def test_job_that_is_suspended_again_gets_other_nodes(leader: Leader, namespace: Namespace) -> None:
    resumed(leader, namespace, ranks("train", 2), "a", "b")
    pods_of(namespace, 2)
    assert held(leader.suspend(namespace, "train"))
    pods_of(namespace, 0)
    wait_for(lambda: suspended(namespace, "train"), what="the Job controller")
    leader.resume(namespace, "train", ["c", "d"])
    assert [pinned_to(one) for one in pods_of(namespace, 2)] == ["c", "d"]


def test_job_that_is_resumed_without_nodes_has_its_pods_at_the_gate(
    leader: Leader, namespace: Namespace
) -> None:
    resumed(leader, namespace, ranks("train", 2))
    assert [gates_of(one) for one in pods_of(namespace, 2)] == [[GATE], [GATE]]


def test_terms_that_a_user_wrote_are_kept_and_confined_to_the_node(
    leader: Leader, namespace: Namespace
) -> None:
    labelled = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    elsewhere = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["z"]}]}
    wish = [{"weight": 1, "preference": labelled}]
    wanted = {REQUIRED: {"nodeSelectorTerms": [labelled, {}, elsewhere, labelled | elsewhere]}}
    for affinity, terms in (
        (None, [{"matchFields": [named("a")]}]),
        ({"podAffinity": {}}, [{"matchFields": [named("a")]}]),
        (
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}},
            [{"matchFields": [named("a")]}],
        ),
        (
            {"nodeAffinity": wanted},
            [
                labelled | {"matchFields": [named("a")]},
                {},
                {"matchFields": [*elsewhere["matchFields"], named("a")]},
                labelled | {"matchFields": [*elsewhere["matchFields"], named("a")]},
            ],
        ),
    ):
        template = ours("born", affinity=affinity) if affinity else None
        stored = tried(namespace, as_created_by_its_job("a", template=template))
        assert pinned_to(stored) == "a"
        assert terms_of(stored) == terms
        kept = ((affinity or {}).get("nodeAffinity") or {}).get(
            "preferredDuringSchedulingIgnoredDuringExecution"
        )
        assert stored["spec"]["affinity"]["nodeAffinity"].get(
            "preferredDuringSchedulingIgnoredDuringExecution"
        ) == (kept)


def with_terms(*terms: Manifest) -> Manifest:
    return ours("born", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}})


ANY = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
LONG = ",".join(["node-0123456789abcdef0123456789abcdef-a"] * 5000)


@pytest.mark.parametrize(
    ("body", "node"),
    [
        (as_created_by_its_job("a,b", "1"), "b"),
        (as_created_by_its_job("a,b", "2"), ""),
        (as_created_by_its_job("a,b", "1.5"), ""),
        (as_created_by_its_job("a,b", "first"), ""),
        (as_created_by_its_job("a,b", "99999999999999999999"), ""),
        (as_created_by_its_job(""), ""),
        (as_created_by_its_job(None), ""),
        (as_created_by_its_job(",b"), ""),
        (as_created_by_its_job("No/Node"), ""),
        (as_created_by_its_job("a", template=with_terms(*[ANY] * 16)), "a"),
        (as_created_by_its_job("a", template=with_terms(*[ANY] * 17)), ""),
        (as_created_by_its_job("a", template=with_terms({})), ""),
        (as_created_by_its_job(LONG, "4999"), "node-0123456789abcdef0123456789abcdef-a"),
        (as_created_by_its_job(LONG + ",n" * 2401, "0"), ""),
    ],
    ids=[
        *("in range", "beyond the last", "a fraction", "no number", "huge", "no nodes", "no annotation"),
        *("empty name", "no name", "16 terms", "17 terms", "empty term", "5,000 nodes", "too long"),
    ],
)
def test_pod_gets_its_node_or_the_gate(
    leader: Leader, namespace: Namespace, body: Manifest, node: str
) -> None:
    assert pinned_to(tried(namespace, body)) == node


def test_pod_with_gates_or_without_job_or_label_gets_the_gate(leader: Leader, namespace: Namespace) -> None:
    gated = as_created_by_its_job("a", template=ours("born", schedulingGates=[{"name": "example.com/quota"}]))
    bare, controlled, unlabelled = (as_created_by_its_job("a") for _ in range(3))
    del bare["metadata"]["ownerReferences"]
    controlled["metadata"]["ownerReferences"][0] |= {"kind": "ReplicaSet", "apiVersion": "apps/v1"}
    del unlabelled["metadata"]["labels"][PLACED_LABEL]
    for body in (gated, bare, controlled, unlabelled):
        stored = tried(namespace, body)
        assert pinned_to(stored) == ""
        assert GATE in gates_of(stored)


@pytest.mark.parametrize(
    "what", ["plain", "with a device", "with a device in an init container", "with stamps"]
)
def test_pinned_pod_is_marked_for_its_devices_and_stamps(
    leader: Leader, namespace: Namespace, what: str
) -> None:
    body, marked = PODS[what]
    notes = body["metadata"].get("annotations") or {}
    template = {**body, "metadata": {"name": "born", "labels": {}, "annotations": notes}}
    stored = tried(namespace, as_created_by_its_job("a", template=template))
    assert pinned_to(stored) == "a"
    assert (MARK_RESOURCE in (stored["spec"]["containers"][0]["resources"].get("requests") or {})) is marked


def test_pod_is_patched_once(leader: Leader, namespace: Namespace) -> None:
    """An empty patch costs the API server as much as any."""
    body = as_created_by_its_job("a")
    wait_for(lambda: patches_of(namespace.api, body, "fluence-births") == 1, what="one patch")
    assert patches_of(namespace.api, body, "fluence-gate") == 0


def test_job_whose_pods_get_devices_from_others_without_the_mark_is_not_placed_at_birth(
    leader: Leader, namespace: Namespace
) -> None:
    with sidecars_added(namespace.api):
        for name in ADDED_BY:

            def changed(by: str = name) -> Manifest | None:
                body = as_created_by_its_job("a", template=ours("born", labels={"sidecar": by}))
                stored = tried(namespace, body)
                return stored if len(stored["spec"]["containers"]) == 2 else None

            stored = wait_for(changed, what="the policy to count")
            assert pinned_to(stored) == "a"
            marked = MARK_RESOURCE in (stored["spec"]["containers"][0]["resources"].get("requests") or {})
            assert (unpinnable(decode_pod(json.dumps(stored).encode())) == "") is marked, name


def test_pod_at_the_gate_is_marked_unless_it_is_only_tried(leader: Leader, namespace: Namespace) -> None:
    body = as_created_by_its_job(None)
    trial = tried(namespace, body)
    # The garbage collector deletes it soon, because its Job doesn't exist.
    kept = namespace.api.request("POST", f"/api/v1/namespaces/{namespace.name}/pods", body)
    for stored, marked in ((kept, True), (trial, False)):
        assert gates_of(stored) == [GATE]
        requests = stored["spec"]["containers"][0]["resources"].get("requests") or {}
        assert (MARK_RESOURCE in requests) is marked


def test_without_the_list_only_pods_that_may_be_pinned_are_refused(
    leader: Leader, namespace: Namespace
) -> None:
    def refused() -> str:
        return refusal(lambda: tried(namespace, as_created_by_its_job("a")))

    namespace.api.delete(GATED_JOBS_PATH)
    try:
        assert "'fluence-births' denied request" in wait_for(refused, what="pods to be refused")
        assert gates_of(tried(namespace, ours("plain"))) == [GATE]
        assert not gates_of(tried(namespace, pod("theirs")))
        assert tried(namespace, ranks("j", 2, pod("x")))
    finally:
        for document in documents(BASE / "suspend.yaml"):
            namespace.api.apply(document)
        wait_for(lambda: not refused(), what="the API server to read it")


def test_list_counts_again_after_the_policies_were_deleted_and_installed_anew(
    leader: Leader, namespace: Namespace
) -> None:
    api, installed = namespace.api, [*documents(BASE / "suspend.yaml"), *documents(BASE / "gate.yaml")]
    for document in reversed(installed):
        api.delete(api.path_of(document))

    def pinned() -> bool:
        trial = as_created_by_its_job("a", uid="listed")
        return PLACED_LABEL in trial["metadata"]["labels"] and pinned_to(tried(namespace, trial)) == "a"

    def ended() -> bool:
        return not gates_of(tried(namespace, ours("plain")))

    try:
        wait_for(ended, what="the policies to end")
    finally:
        for document in installed:
            api.apply(document)
    wait_for(lambda: gates_of(tried(namespace, ours("plain"))), what="the policies to count")
    wait_for(lambda: not refusal(pinned) and pinned(), what="the list to count")
    leader.gate_jobs({"listed": "node a is gone"})
    wait_for(lambda: not pinned(), what="the list to be read")
    leader.gate_jobs({})
    wait_for(pinned, what="the list to be read")


def test_qpu_job_is_held_and_its_pods_are_pinned_and_marked(leader: Leader, namespace: Namespace) -> None:
    resumed(leader, namespace, ranks("quantum", 2, ours("x", requests={QPU: 1})), "a", "b")
    for one in pods_of(namespace, 2):
        assert pinned_to(one)
        assert MARK_RESOURCE in one["spec"]["containers"][0]["resources"]["requests"]


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
        (foreseen,) = await cluster.foresee(await now())
        assert (foreseen.requests["cpu"], foreseen.node, foreseen.gates) == (1000, "", (GATE,))
        await settled(0, lambda job: cluster.resume(job, ["a", "b"], "2 job/train"))
        await settled(2, cluster.hold_job)
        await settled(0, lambda job: cluster.resume(job, ["c", "d"], "2 job/train"))
        await cluster.gate_jobs({"u": "node c is gone"})
        assert await cluster.gated_jobs() == {"u": "node c is gone"}
        assert (await now()).nodes == ("c", "d")
    assert [pinned_to(one) for one in pods_of(namespace, 2)] == ["c", "d"]
    leader.gate_jobs({})
