"""Labels of flux-k8s on a Deployment, ReplicaSet or StatefulSet itself: who hands them on, and the gangs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fluence_extender.kinds.replicas import labels_for_template
from fluence_extender.model.names import COSCHEDULING_GROUP, FLUX_SIZE
from tests.core.labelled_objects import BOTH, GROUP, OBJECTS, SIZE, labelled
from tests.e2e.harness import Manifest, Namespace, wait_for
from tests.e2e.history import History
from tests.e2e.nodes import NodeFactory
from tests.e2e.service import Fluence

APPS = "/apis/apps/v1/namespaces"
KEYS = (COSCHEDULING_GROUP, FLUX_SIZE)


def here(namespace: Namespace, body: Manifest) -> Manifest:
    """The object in the test's namespace."""
    made = copy.deepcopy(body)
    made["metadata"]["namespace"] = namespace.name
    return made


def carried(body: Manifest) -> dict[str, str]:
    """What the template says of its gang."""
    labels = body["spec"]["template"]["metadata"]["labels"]
    return {key: labels[key] for key in KEYS if key in labels}


def created(namespace: Namespace, body: Manifest) -> Manifest:
    """The object as it would be created."""
    collection = namespace.api.path_of(body).rpartition("/")[0]
    return namespace.api.request("POST", collection, body, query={"dryRun": "All"})


def test_policy_and_simulation_hand_the_same_labels_on(fluence: Fluence, namespace: Namespace) -> None:
    for what, (case, _) in OBJECTS.items():
        body = here(namespace, case)
        stored = created(namespace, body)
        assert carried(stored) == carried(body) | labels_for_template(body), what
        others = body["spec"]["template"]["metadata"]["labels"].items()
        assert others <= stored["spec"]["template"]["metadata"]["labels"].items(), what


def test_names_that_the_api_server_makes_are_no_groups(fluence: Fluence, namespace: Namespace) -> None:
    body = here(namespace, labelled(SIZE))
    body["metadata"]["generateName"] = f"{body['metadata'].pop('name')}-"
    assert carried(created(namespace, body)) == SIZE


@pytest.mark.parametrize("scheduler", ["default-scheduler", "somebody-elses"])
def test_objects_of_other_schedulers_are_left_alone(
    fluence: Fluence, namespace: Namespace, scheduler: str
) -> None:
    body = here(namespace, labelled(BOTH))
    body["spec"]["template"]["spec"]["schedulerName"] = scheduler
    assert carried(created(namespace, body)) == {}


def test_large_object_hands_its_labels_on(fluence: Fluence, namespace: Namespace) -> None:
    """What an expression may cost is limited; beyond that the policy does nothing."""
    others = {f"example.org/{number}": "x" for number in range(500)}
    body = here(namespace, labelled({**GROUP, **others}, own=others))
    (container,) = body["spec"]["template"]["spec"]["containers"]
    told = [{"name": f"V{number}", "value": "x" * 100} for number in range(100)]
    body["spec"]["template"]["spec"]["containers"] = [
        container | {"name": f"c{number}", "env": told} for number in range(40)
    ]
    kept = Kept(namespace, body)
    assert kept.says() == {**GROUP, FLUX_SIZE: "3"}
    assert kept.patch(metadata={"labels": {FLUX_SIZE: "2"}}) == BOTH


class Kept:
    """An object on the API server that is written again and again; its pods wait, there are no nodes."""

    def __init__(self, namespace: Namespace, body: Manifest) -> None:
        self._api = namespace.api
        self.path = namespace.api.path_of(body)
        self._api.apply(body)

    @property
    def now(self) -> Manifest:
        return self._api.get(self.path)

    def says(self) -> dict[str, str]:
        return carried(self.now)

    def apply(self, body: Manifest) -> dict[str, str]:
        self._api.apply(body)
        return self.says()

    def replace(self, body: Manifest) -> dict[str, str]:
        self._api.request("PUT", self.path, body)
        return self.says()

    def patch(self, **body: Any) -> dict[str, str]:
        self._api.patch(self.path, body)
        return self.says()

    def scale(self, replicas: int) -> dict[str, str]:
        self._api.patch(f"{self.path}/scale", {"spec": {"replicas": replicas}})
        return self.says()


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize("labels", [GROUP, SIZE])
def test_what_was_put_on_a_template_stays(
    kind: str, labels: dict[str, str], fluence: Fluence, namespace: Namespace
) -> None:
    body, larger = (here(namespace, labelled(labels, kind, replicas)) for replicas in (3, 5))
    kept = Kept(namespace, body)
    first = kept.says()
    assert first[FLUX_SIZE] == labels.get(FLUX_SIZE, "3")
    assert kept.apply(body) == first
    assert kept.apply(larger) == first
    assert kept.scale(2) == first
    assert kept.replace(larger) == first
    assert kept.replace(body) == first
    assert kept.patch(metadata={"annotations": {"note": "x"}, "labels": {"other": "y"}}) == first
    assert kept.patch(metadata={"labels": dict.fromkeys(labels)}) == first
    # Without the labels and without what they have put there nothing says that it is a gang.
    assert kept.replace(here(namespace, labelled(None, kind))) == {}


def test_another_value_of_the_objects_label_is_passed_on(fluence: Fluence, namespace: Namespace) -> None:
    kept = Kept(namespace, here(namespace, labelled(GROUP)))
    assert kept.says() == {**GROUP, FLUX_SIZE: "3"}
    assert kept.patch(metadata={"labels": {FLUX_SIZE: "2"}}) == BOTH
    assert kept.patch(metadata={"labels": {FLUX_SIZE: "5"}}, spec={"replicas": 5}) == {
        **GROUP,
        FLUX_SIZE: "5",
    }
    assert kept.patch(metadata={"labels": {COSCHEDULING_GROUP: "h"}}) == {
        COSCHEDULING_GROUP: "h",
        FLUX_SIZE: "5",
    }
    own = {"template": {"metadata": {"labels": {FLUX_SIZE: "4"}}}}
    assert kept.patch(spec=own)[FLUX_SIZE] == "4"
    assert kept.patch(metadata={"labels": {FLUX_SIZE: "6"}})[FLUX_SIZE] == "4"


def test_a_group_that_is_named_later_replaces_the_name_that_was_made(
    fluence: Fluence, namespace: Namespace
) -> None:
    kept = Kept(namespace, here(namespace, labelled(SIZE)))
    assert kept.says() == {COSCHEDULING_GROUP: f"fluence-group-{namespace.name}-web", **SIZE}
    assert kept.patch(metadata={"labels": GROUP}) == BOTH


def test_what_the_template_says_is_not_overwritten_by_labels_that_come_later(
    fluence: Fluence, namespace: Namespace
) -> None:
    own = {COSCHEDULING_GROUP: "own", FLUX_SIZE: "4"}
    kept = Kept(namespace, here(namespace, labelled(None, own=own)))
    assert kept.patch(metadata={"labels": BOTH}) == own


def test_an_object_that_is_labelled_later_becomes_a_gang(fluence: Fluence, namespace: Namespace) -> None:
    kept = Kept(namespace, here(namespace, labelled(None)))
    assert kept.says() == {}
    assert kept.patch(metadata={"labels": GROUP}) == {**GROUP, FLUX_SIZE: "3"}


def replica_sets(namespace: Namespace) -> list[str]:
    items = namespace.api.get(f"{APPS}/{namespace.name}/replicasets")["items"]
    return [one["metadata"]["name"] for one in items]


def test_deployment_starts_whole_and_scaling_does_not_roll_it_out_anew(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="2")
    body = here(namespace, labelled(GROUP))
    kept = Kept(namespace, body)
    fluence.wait_for_reason(namespace.name, "g", "unsatisfiable: 2 of 3 members would fit")
    assert not history.bound
    own_nodes(1, cpu="3")
    namespace.wait_until_bound(3)
    fluence.wait_for_state(namespace.name, "g", "bound")
    first = replica_sets(namespace)
    assert len(first) == 1
    kept.scale(5)
    namespace.wait_until_bound(5)
    kept.apply(here(namespace, labelled(GROUP, replicas=2)))
    namespace.wait_for_pods(lambda pods: len(pods) == 2, "the Deployment to have two pods")
    observed = kept.now["metadata"]["generation"]
    wait_for(lambda: kept.now["status"].get("observedGeneration", 0) >= observed, what="its controller")
    assert replica_sets(namespace) == first
    gang = fluence.gang(namespace.name, "g")
    assert gang is not None
    assert (gang["size"], gang["state"]) == (3, "bound")


def test_deployment_with_a_size_alone_can_be_rolled_out(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory
) -> None:
    own_nodes(1, cpu="4")
    kept = Kept(namespace, here(namespace, labelled({FLUX_SIZE: "3"})))
    namespace.wait_until_bound(3)
    before = {one["metadata"]["uid"] for one in namespace.pods()}
    kept.patch(spec={"template": {"metadata": {"annotations": {"version": "2"}}}})

    def rolled_out() -> bool:
        status = kept.now["status"]
        done = status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 3
        return done and not before & {one["metadata"]["uid"] for one in namespace.pods()}

    wait_for(rolled_out, what="the Deployment to be rolled out", seen=lambda: kept.now["status"])


def test_stateful_set_that_starts_its_pods_at_once_starts_whole(
    fluence: Fluence, namespace: Namespace, own_nodes: NodeFactory, history: History
) -> None:
    own_nodes(1, cpu="2")
    Kept(namespace, here(namespace, labelled({FLUX_SIZE: "3"}, "StatefulSet")))
    group = f"fluence-group-{namespace.name}-web"
    fluence.wait_for_reason(namespace.name, group, "unsatisfiable: 2 of 3 members would fit")
    assert not history.bound
    own_nodes(1, cpu="2")
    namespace.wait_until_bound(3)
    fluence.wait_for_state(namespace.name, group, "bound")
