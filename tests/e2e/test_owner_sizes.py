"""Gangs by label whose size only their owner states: whole or not at all, without the admission webhook too."""

from __future__ import annotations

import pytest

from fluence_extender.model.names import GROUP_SIZE_ANNOTATION
from tests.e2e.admitted import wait_for_sizes, wait_until_called
from tests.e2e.harness import Manifest, Namespace, node_of, wait_for
from tests.e2e.history import History
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence
from tests.e2e.workloads import deployment, labelled, ours
from tests.localcluster.stack import Webhook

APPS = "/apis/apps/v1/namespaces"


def replicated(kind: str, name: str, replicas: int) -> Manifest:
    """Pods of one CPU with a group's label and without a size."""
    made = deployment(name, labelled(ours("x", cpu="1"), name), replicas) | {"kind": kind}
    if kind == "StatefulSet":
        made["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return made


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_gang_is_as_large_as_its_owner_wants_while_no_webhook_runs(
    kind: str, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(replicated(kind, "trio", 3))
    waiting = fluence.wait_for_reason(
        namespace.name, "trio", "unsatisfiable: 2 of 3 members would fit if nothing else ran, short of cpu"
    )
    assert waiting["size"] == 3
    assert not history.bound
    own_nodes(1, cpu="1")
    namespace.wait_until_bound(3)


def test_waiting_gang_follows_its_owner_as_it_is_scaled(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="2")
    namespace.create(replicated("Deployment", "web", 3))
    fluence.wait_for_reason(
        namespace.name, "web", "unsatisfiable: 2 of 3 members would fit if nothing else ran, short of cpu"
    )
    assert not history.bound
    namespace.api.patch(f"{APPS}/{namespace.name}/deployments/web", {"spec": {"replicas": 2}})
    namespace.wait_until_bound(2)
    assert fluence.wait_for_state(namespace.name, "web", "bound")["size"] == 2


def test_pods_of_a_rollout_are_members_of_the_same_gang(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="5")
    namespace.create(replicated("Deployment", "web", 4))
    before = {one["metadata"]["uid"] for one in namespace.wait_until_bound(4)}
    template = {"template": {"metadata": {"annotations": {"example.com/version": "2"}}}}
    namespace.api.patch(f"{APPS}/{namespace.name}/deployments/web", {"spec": template})

    def rolled_out() -> bool:
        assert {one["size"] for one in fluence.gangs(namespace.name)} == {4}
        now = {one["metadata"]["uid"] for one in namespace.pods() if node_of(one)}
        return len(now) == 4 and not now & before

    wait_for(rolled_out, what="the rollout", seen=lambda: fluence.gangs(namespace.name))


def test_rollout_of_a_deployment_with_an_annotated_size_goes_on(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="5")
    web = deployment("serve", ours("x", cpu="1"), 2)
    web["spec"]["template"]["metadata"].setdefault("annotations", {})[GROUP_SIZE_ANNOTATION] = "2"
    namespace.create(web)
    before = {one["metadata"]["uid"] for one in namespace.wait_until_bound(2)}
    template = {"template": {"metadata": {"annotations": {"example.com/version": "2"}}}}
    namespace.api.patch(f"{APPS}/{namespace.name}/deployments/serve", {"spec": template})

    def rolled_out() -> bool:
        now = {one["metadata"]["uid"] for one in namespace.pods() if node_of(one)}
        return len(now) == 2 and not now & before

    wait_for(rolled_out, what="the rollout", seen=lambda: fluence.gangs(namespace.name))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_gang_with_a_podgroup_of_ours_follows_its_owner_as_it_is_scaled(
    kind: str, webhook: Webhook, fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(3, cpu="1")
    namespace.create(replicated(kind, "web", 4))
    wait_for_sizes(namespace, {"web": 4})
    namespace.api.patch(f"{APPS}/{namespace.name}/{kind.lower()}s/web", {"spec": {"replicas": 3}})
    namespace.wait_until_bound(3)
    assert fluence.wait_for_state(namespace.name, "web", "bound")["size"] == 3


def test_pods_from_before_and_after_an_outage_of_the_webhook_are_one_gang(
    installation: Installation,
    webhook: Webhook,
    fluence: Fluence,
    namespace: Namespace,
    own_nodes: NodeFactory,
) -> None:
    own_nodes(1, cpu="4")
    webhook.stop()
    namespace.create(replicated("Deployment", "trio", 3))
    lost, *kept = namespace.wait_until_bound(3)
    webhook.start()
    wait_until_called(installation.plane.api)
    namespace.delete_pod(lost["metadata"]["name"])
    wait_for_sizes(namespace, {"trio": 3})

    def whole_again() -> bool:
        now = {one["metadata"]["uid"] for one in namespace.pods() if node_of(one)}
        return len(now) == 3 and lost["metadata"]["uid"] not in now

    wait_for(whole_again, what="the replacement", seen=lambda: fluence.gangs(namespace.name))
    (found,) = fluence.gangs(namespace.name)
    assert (found["state"], found["size"], len(found["members"])) == ("bound", 3, 3)
    assert {one["metadata"]["uid"] for one in kept} < {one["uid"] for one in found["members"]}
