"""Groups of pods that the webhook has linked: their size, their PodGroup, their gate, their first pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from fluence_extender.cluster.bodies import AnyPodGroup
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.errors import Conflict, Invalid
from fluence_extender.cluster.objects import ApiPodGroups
from fluence_extender.kinds.podgroups import (
    CoschedulingGroup,
    PodGroup,
    decode_coscheduling_group,
    decode_pod_group,
)
from tests.e2e.admitted import (
    containers,
    environment,
    groups,
    quantum,
    sizes,
    wait_for_sizes,
)
from tests.e2e.harness import Manifest, Namespace, job, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.operators import installed
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, gang, labelled, ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.stack import Webhook

# Who says how large a group is, and what becomes of it.


def test_owners_say_the_size_of_a_group(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="16")
    stateful = deployment("states", labelled(ours("x", cpu="1"), "states"), 3)
    stateful |= {"kind": "StatefulSet"}
    stateful["spec"] |= {"serviceName": "states", "podManagementPolicy": "Parallel"}
    namespace.create(
        job("batch", labelled(ours("x", cpu="1"), "batch"), parallelism=4),
        deployment("web", labelled(ours("x", cpu="1"), "web"), 2),
        stateful,
    )
    wait_for_sizes(namespace, {"batch": 4, "web": 2, "states": 3})
    namespace.wait_until_bound(9)
    owned = groups(namespace.api, namespace.name)["batch"]["metadata"]["ownerReferences"]
    assert [(one["kind"], one["name"]) for one in owned] == [("Job", "batch")]


def test_label_without_webhook_in_between_is_a_gang_all_the_same(
    webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    """Pods linked to a PodGroup that nobody makes, because the webhook went down right after, are placed too."""
    own_nodes(1, cpu="4")
    webhook.process.kill()
    bodies = gang("orphan", 2, cpu="1")
    for body in bodies:
        body["spec"]["schedulingGroup"] = {"podGroupName": "orphan"}
    namespace.create(*bodies)
    namespace.wait_until_bound(2)
    assert sizes(namespace) == {}
    webhook.start()
    wait_for_sizes(namespace, {"orphan": 2})


def test_podgroups_of_ours_suit_kube_schedulers_own_gang_cycle(
    webhook: Webhook,
    installation: Installation,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
) -> None:
    own_nodes(2, cpu="2")
    with installation.other(feature_gates={"GenericWorkload": True, "GangScheduling": True}):
        namespace.create(*gang("cycle", 3, cpu="1"), ours("single", cpu="1"))
        namespace.wait_until_bound(4)
        wait_for_sizes(namespace, {"cycle": 3})


@pytest.mark.parametrize("kind", [PodGroup, CoschedulingGroup])
def test_podgroups_of_both_kinds_are_made_resized_where_that_is_allowed_and_removed_as_seen(
    kind: type[AnyPodGroup], control_plane: ControlPlane, namespace: Namespace
) -> None:
    api = control_plane.api
    decode = decode_pod_group if kind is PodGroup else decode_coscheduling_group

    def seen() -> AnyPodGroup:
        listed = groups(api, namespace.name) if kind is PodGroup else coscheduled(api, namespace.name)
        return decode(json.dumps(listed["g"]).encode())

    async def work() -> None:
        name = (namespace.name, "g")
        async with connect(str(control_plane.kubeconfig)) as connection:
            made = ApiPodGroups(connection)
            await made.make(kind, name, 3, None, namespace.name)
            with pytest.raises(Conflict):
                await made.make(kind, name, 4, None)
            first = seen()
            assert first.provenance.by == "fluence-webhook"
            if kind is PodGroup:
                # Immutable up to v1alpha3, and so nobody asks twice.
                with suppress(Invalid):
                    await made.resize(first, 5)
            else:
                await made.resize(first, 5)
                now = seen()
                assert isinstance(now, CoschedulingGroup)
                assert now.min_member == 5
                # It has changed since it was seen: somebody may have made it his own.
                with pytest.raises(Conflict):
                    await made.remove(first)
            await remove_as_seen(made, seen)

    # A release whose PodGroups have no priority drops it.
    made_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    api.apply(made_class | {"metadata": {"name": namespace.name}})
    with installed(api, *([] if kind is PodGroup else ["CoschedulingGroup"])):
        asyncio.run(work())
        wait_for(
            lambda: "g" not in (groups if kind is PodGroup else coscheduled)(api, namespace.name),
            what="the group to go",
        )
    api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{namespace.name}")


async def remove_as_seen(groups: ApiPodGroups, seen: Callable[[], AnyPodGroup]) -> None:
    """Remove a group; the controller manager, which writes to native ones too, may come first."""
    while True:
        try:
            await groups.remove(seen())
        except Conflict:
            continue
        return


def coscheduled(api: Api, namespace: str) -> dict[str, Manifest]:
    """The PodGroups of scheduling.x-k8s.io by name."""
    listed = api.get(f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups")
    return {one["metadata"]["name"]: one for one in listed["items"]}


def test_first_pod_of_a_stateful_set_that_begins_elsewhere_produces(
    webhook: Webhook, namespace: Namespace
) -> None:
    template = quantum("x", "late", mode="shared")
    labels = {**template["metadata"]["labels"], "app": "late"}
    annotations = template["metadata"]["annotations"]
    spec = {
        "replicas": 2,
        "ordinals": {"start": 3},
        "podManagementPolicy": "Parallel",
        "serviceName": "late",
        "selector": {"matchLabels": {"app": "late"}},
        "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": template["spec"]},
    }
    namespace.create(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "late"}, "spec": spec}
    )
    pods = namespace.wait_for_pods(lambda pods: len(pods) == 2, "2 pods")
    roles = {one["metadata"]["name"]: environment(one)["FLUENCE_COORDINATION_ROLE"] for one in pods}
    assert roles == {"late-3": "producer", "late-4": "consumer"}
    wait_for_sizes(namespace, {"late": 1, "late-producer": 1})


def test_quantum_pod_is_admitted_where_a_limit_range_asks_for_more_than_ours_need(
    webhook: Webhook, namespace: Namespace
) -> None:
    bounds = {"type": "Container", "min": {"cpu": "150m", "memory": "300Mi"}, "max": {"cpu": "8"}}
    metadata = {"name": "no-dwarfs"}
    namespace.create(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [bounds]}}
    )
    body = quantum("one", observe="true", cpu="1", memory="1Gi")
    # The API server and the webhook learn of it at times of their own.
    wait_for(
        lambda: refused(namespace, ours("dwarf", cpu="100m")) and not refused(namespace, body),
        what="small containers to be refused, and ours to be made large enough",
    )
    (stored,) = namespace.create(body)
    for name, cpu in (("fluence-stage", "200m"), ("fluence-sidecar", "150m")):
        asked = containers(stored)[name]["resources"]
        assert asked["requests"] == {"cpu": cpu, "memory": "300Mi"}
        assert asked["limits"]["cpu"] == cpu


def refused(namespace: Namespace, pod: Manifest) -> bool:
    """Whether the API server would refuse the pod."""
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    try:
        namespace.api.request("POST", path, pod, query={"dryRun": "All"})
    except ApiError as error:
        return error.status == 403
    return False
