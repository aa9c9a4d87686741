"""The API server is asked no more than a pod needs before it is patched, and nothing is made in a dry run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.webhook.admission import look_up
from fluence_extender.webhook.contract import AdmissionRequest, Context, OwnedPods, ProducerUnknown
from fluence_extender.webhook.declaration import Unfit, read_declaration
from fluence_extender.webhook.limit_ranges import Bounds, ContainerBound
from fluence_extender.webhook.mutate import concerns, mutate
from tests.unit.webhook.pods import ALL, QPU, REQUEST, applied, container, env, grouped, pod

Json = dict[str, Any]
CONTEXT = Context()
BARE = REQUEST
ASKING = container(asks={QPU: "1"})


class Cluster:
    """Answers lookups and records them."""

    def __init__(self, produces: bool | None = True, size: int | None = 3, first: int = 0) -> None:
        self.produces, self.size, self.first = produces, size, first
        self.looked_up: list[str] = []
        self.read: list[str] = []

    async def is_producer(self, namespace: str, group: str, uid: str) -> bool:
        self.looked_up.append(f"producer of {namespace}/{group} by {uid}")
        if self.produces is None:
            raise ProducerUnknown("a Lease of others")
        return self.produces

    async def bounds(self, namespace: str) -> Bounds:
        self.read.append(namespace)
        return {"cpu": ContainerBound(minimum="1")}

    async def owned(self, namespace: str, kind: str, name: str) -> OwnedPods | None:
        self.looked_up.append(f"owner {kind} {namespace}/{name}")
        return None if self.size is None else OwnedPods(self.size, self.first)


async def settled(
    body: Json,
    cluster: Cluster,
    request: AdmissionRequest = BARE,
    handlers: tuple[str, ...] = ALL,
) -> AdmissionRequest:
    try:
        declared = read_declaration(body) if concerns(body, request) else None
    except Unfit:
        declared = None
    if declared is None:
        return request
    return await look_up(declared, request, handlers, cluster)


@pytest.mark.parametrize(
    "body",
    [
        pod(),
        grouped(size="2"),
        grouped(ASKING, mode="shared", index="1"),
        grouped(ASKING, mode="shared", scheduler="default-scheduler"),
        grouped(ASKING, mode="shared", size="none"),
        grouped(owner=("Job", "j")),
        grouped(owner=("ReplicaSet", "o")),
        grouped(owner=("StatefulSet", "o")),
        {"spec": {"schedulerName": "fluence"}},
        {},
    ],
)
async def test_most_pods_need_nothing(body: Json) -> None:
    cluster = Cluster()
    assert await settled(body, cluster) == BARE
    assert cluster.looked_up == cluster.read == []


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    "body",
    [pod(ASKING), grouped(ASKING), grouped(ASKING, mode="shared", size="1"), grouped(ASKING, mode="shared")],
)
async def test_our_containers_need_the_bounds_of_the_limit_ranges(body: Json, dry_run: bool) -> None:
    cluster = Cluster()
    request = await settled(body, cluster, replace(BARE, dry_run=dry_run))
    assert (cluster.read, request.bounds) == (["lab"], {"cpu": ContainerBound(minimum="1")})
    await settled(body, cluster, request)
    await settled(body, cluster, handlers=("fluxion", "gang"))
    assert cluster.read == ["lab"]


async def test_consumers_get_no_containers_of_ours() -> None:
    cluster = Cluster(produces=False)
    await settled(grouped(ASKING, mode="shared"), cluster)
    assert cluster.read == []


@pytest.mark.parametrize(
    "body", [grouped(ASKING, mode="shared", index="0"), grouped(ASKING, group="", observe="true")]
)
async def test_account_of_the_sidecar_is_no_matter_of_admission(body: Json) -> None:
    cluster = Cluster()
    request = await settled(body, cluster)
    assert cluster.looked_up == []
    after = applied(body, mutate(body, request, ALL, CONTEXT))
    assert after["spec"]["serviceAccountName"] == body["spec"]["serviceAccountName"]


async def test_pod_that_is_equal_to_all_others_looks_up_the_producer() -> None:
    cluster = Cluster(produces=True)
    request = await settled(grouped(ASKING, mode="shared"), cluster)
    assert cluster.looked_up == ["producer of lab/g by r1"]
    assert request.produces is True


async def test_pod_that_is_not_the_first_is_a_consumer() -> None:
    cluster = Cluster(produces=False)
    request = await settled(grouped(ASKING, mode="shared"), cluster)
    assert cluster.looked_up == ["producer of lab/g by r1"]
    assert request.produces is False


async def test_group_without_a_label_is_named_after_its_owner() -> None:
    cluster = Cluster(produces=False)
    await settled(grouped(ASKING, group="", mode="shared", owner=("ReplicaSet", "web-5")), cluster)
    assert cluster.looked_up == ["producer of lab/web-5 by r1"]


async def test_dry_run_reads_the_owner_and_makes_nothing() -> None:
    cluster = Cluster()
    dry = replace(BARE, dry_run=True)
    await settled(grouped(ASKING, mode="shared"), cluster, dry)
    await settled(grouped(ASKING, mode="shared", index="0"), cluster, dry)
    await settled(numbered("1"), cluster, dry)
    assert cluster.looked_up == ["owner StatefulSet lab/s"]


@pytest.mark.parametrize("index", [None, "0", "1"])
async def test_shared_job_of_one_pod_has_no_roles(index: str | None) -> None:
    body = grouped(ASKING, group="", mode="shared", owner=("Job", "j"), index=index)
    cluster = Cluster(size=1)
    request = await settled(body, cluster)
    assert cluster.looked_up == ["owner Job lab/j"]
    after = applied(body, mutate(body, request, ALL, CONTEXT))
    assert "FLUENCE_COORDINATION_ROLE" not in env(after)
    assert after["spec"]["initContainers"][0]["name"] == "fluence-stage"
    many = await settled(body, Cluster(size=2))
    assert "FLUENCE_COORDINATION_ROLE" in env(applied(body, mutate(body, many, ALL, CONTEXT)))


async def test_job_of_one_pod_may_share_a_labeled_group_with_others() -> None:
    cluster = Cluster(size=1)
    await settled(grouped(ASKING, mode="shared", owner=("Job", "j"), index="1"), cluster)
    assert cluster.looked_up == []


async def test_size_in_the_pods_annotation_is_not_looked_up() -> None:
    cluster = Cluster()
    await settled(grouped(ASKING, group="", mode="shared", owner=("Job", "j"), index="1", size="3"), cluster)
    assert cluster.looked_up == []


async def test_handlers_that_are_not_selected_need_nothing() -> None:
    cluster = Cluster()
    await settled(grouped(ASKING, mode="shared"), cluster, handlers=("fluxion", "gang"))
    await settled(grouped(owner=("ReplicaSet", "o")), cluster, handlers=("fluxion", "quantum"))
    assert cluster.looked_up == []


def numbered(number: str, **fields: Any) -> Json:
    body = grouped(ASKING, mode="shared", owner=("StatefulSet", "s"), **fields)
    body["metadata"].setdefault("labels", {})["apps.kubernetes.io/pod-index"] = number
    return body


@pytest.mark.parametrize("fields", [{}, {"group": ""}, {"size": "3"}])
@pytest.mark.parametrize(
    ("number", "first", "role"),
    [("5", 5, "producer"), ("6", 5, "consumer"), ("1", 0, "consumer"), ("0", 0, "producer")],
)
async def test_first_pod_of_a_stateful_set_produces_whatever_its_index(
    number: str, first: int, role: str, fields: Json
) -> None:
    body, cluster = numbered(number, **fields), Cluster(first=first)
    request = await settled(body, cluster)
    assert "owner StatefulSet lab/s" in cluster.looked_up or number == "0"
    after = applied(body, mutate(body, request, ALL, CONTEXT))
    assert env(after)["FLUENCE_COORDINATION_ROLE"] == role
    assert mutate(after, request, ALL, CONTEXT).patch == ()


async def test_index_0_produces_if_the_stateful_set_can_not_be_read() -> None:
    body = numbered("5")
    request = await settled(body, Cluster(size=None))
    assert env(applied(body, mutate(body, request, ALL, CONTEXT)))["FLUENCE_COORDINATION_ROLE"] == "consumer"


async def test_workers_of_a_leader_worker_set_begin_with_1_and_consume() -> None:
    body = numbered("1")
    body["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] = "1"
    cluster = Cluster(first=1)
    request = await settled(body, cluster)
    assert env(applied(body, mutate(body, request, ALL, CONTEXT)))["FLUENCE_COORDINATION_ROLE"] == "consumer"


async def test_warning_says_why_the_producer_is_unknown() -> None:
    body = grouped(ASKING, mode="shared")
    request = await settled(body, Cluster(produces=None))
    (warning,) = mutate(body, request, ALL, CONTEXT).warnings
    assert (
        "the producer of shared group 'g' couldn't be looked up (a Lease of others), so this pod is made one"
        in warning
    )


async def test_patched_pod_needs_nothing_any_more() -> None:
    cluster = Cluster()
    body = grouped(ASKING, mode="shared")
    request = await settled(body, cluster)
    after = applied(body, mutate(body, request, ALL, CONTEXT))
    assert env(after)["FLUENCE_COORDINATION_ROLE"] == "producer"
    cluster.looked_up.clear()
    known = replace(BARE, bounds={})
    assert await settled(after, cluster, known) == known
    assert cluster.looked_up == []
