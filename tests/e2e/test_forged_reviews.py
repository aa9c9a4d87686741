"""What other clients can do to the webhook, which any pod may call, and what its own account is worth to a thief."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest

from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.leader import mark_leader
from fluence_extender.model.coordination import COORDINATION_ANNOTATION, SHARED
from fluence_extender.model.names import (
    CREATED_BY_ANNOTATION,
    DEFAULT_NAMESPACE,
    GATE,
    LEADS_LABEL,
    WEBHOOK_NAME,
)
from fluence_extender.webhook.registration import PATH
from tests.core.classes import REQUIRED
from tests.e2e.admission import Admission, environment, made_for_sidecars, quantum, running
from tests.e2e.harness import Manifest, Namespace, documents, pod, wait_for
from tests.e2e.installation import BASE, Installation
from tests.e2e.workloads import labelled, ours
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.recipe import release
from tests.unit.webhook.reviews import written


@pytest.fixture(scope="module")
def admission(control_plane: ControlPlane, installation: Installation) -> Iterator[Admission]:
    with running(control_plane) as admission:
        admission.wait_until_called(quantum())
        yield admission


@pytest.fixture
def account(admission: Admission) -> Iterator[Api]:
    """The API server, by the token of the webhook's account."""
    opened = Api(admission.plane.kubeconfig_for_service_account("fluence-system", "fluence-webhook"))
    yield opened
    opened.close()


def answer_to(api: Api, verb: str, path: str, body: Manifest | None = None) -> str:
    """What the API server would say to a write; "" if it would accept it."""
    kind = "application/strategic-merge-patch+json" if verb == "PATCH" else "application/json"
    try:
        api.request(verb, path, body, query={"dryRun": "All"}, content_type=kind)
    except ApiError as error:
        return error.message
    return ""


def object_of(
    kind: str, name: str, version: str = "v1", created_by: str = WEBHOOK_NAME, **body: Any
) -> Manifest:
    metadata = {"name": name, "annotations": {CREATED_BY_ANNOTATION: created_by}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


VERSION = release().pod_groups
RBAC = "rbac.authorization.k8s.io/v1"
GRANTED = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]
BY_THEM = [{"kind": "ServiceAccount", "name": "theirs", "namespace": "default"}]
TO_SIDECARS = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "fluence-sidecar"}
FORGED: dict[str, tuple[str, Manifest]] = {
    "another account": ("serviceaccounts", object_of("ServiceAccount", "theirs")),
    "an account by others": (
        "serviceaccounts",
        object_of("ServiceAccount", "fluence-sidecar", created_by="me"),
    ),
    "a token of any account": (
        "secrets",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": "fluence-sidecar",
                "annotations": {
                    CREATED_BY_ANNOTATION: WEBHOOK_NAME,
                    "kubernetes.io/service-account.name": "clusterrole-aggregation-controller",
                },
            },
        },
    ),
    "another secret": ("secrets", object_of("Secret", "theirs")),
    "a secret with other content": (
        "secrets",
        object_of("Secret", "fluence-sidecar", stringData={"evil": "x"}),
    ),
    "another role": ("roles", object_of("Role", "theirs", RBAC, rules=GRANTED)),
    "a role with other rights": (
        "roles",
        object_of("Role", "fluence-sidecar", RBAC, rules=[{**GRANTED[0], "verbs": ["get", "watch"]}]),
    ),
    "rights for others": (
        "rolebindings",
        object_of("RoleBinding", "fluence-sidecar", RBAC, roleRef=TO_SIDECARS, subjects=BY_THEM),
    ),
}


@pytest.mark.parametrize("where", ["kube-system", "fluence-system"])
@pytest.mark.parametrize("what", ["a token of any account", "another secret", "another account"])
def test_its_account_makes_nothing_in_the_namespaces_of_the_cluster(
    account: Api, what: str, where: str
) -> None:
    resource, body = FORGED[what]
    path = f"/api/v1/namespaces/{where}/{resource}"
    wait_for(
        lambda: "fluence-accounts-sidecars" in answer_to(account, "POST", path, body), what="it to be refused"
    )


@pytest.mark.parametrize("what", FORGED)
def test_its_account_makes_nothing_but_the_account_of_sidecars(
    account: Api, namespace: Namespace, what: str
) -> None:
    resource, body = FORGED[what]
    namespace.create(object_of("Role", "fluence-sidecar", RBAC, rules=GRANTED))
    prefix = "/apis/rbac.authorization.k8s.io/v1" if body["apiVersion"] == RBAC else "/api/v1"
    path = f"{prefix}/namespaces/{namespace.name}/{resource}"
    wait_for(
        lambda: "fluence-webhook" in answer_to(account, "POST", path, body), what=f"{what} to be refused"
    )
    told = answer_to(account, "POST", path, body)
    assert "fluence-accounts-sidecars" in told or "attempting to grant RBAC permissions" in told, told


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
        {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}},
        {"metadata": {"labels": {"team": "evil"}}},
        {"metadata": {"finalizers": ["example.com/evil"]}},
        {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}},
        {"metadata": {"annotations": {"evil": "yes"}}},
        {"metadata": {"annotations": {"fluence.flux-framework.org/released": "yes"}}},
    ],
    ids=str,
)
def test_its_account_changes_nothing_of_pods_but_what_a_release_does(
    account: Api, namespace: Namespace, change: Manifest
) -> None:
    namespace.create(ours("p", cpu="9000", filtered=True))
    path = f"/api/v1/namespaces/{namespace.name}/pods/p"
    wait_for(lambda: "fluence-stamps" in answer_to(account, "PATCH", path, change), what="it to be refused")
    note = {"metadata": {"annotations": {"fluence.flux-framework.org/producer-seen": "true"}}}
    assert answer_to(account, "PATCH", path, note) == ""


EVIL = {"matchExpressions": [{"key": "evil", "operator": "Exists"}]}


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [{"name": "main", "image": "evil"}]}},
        {"spec": {"nodeSelector": {"evil": "yes"}}},
        {"spec": {"schedulingGates": [{"$patch": "delete", "name": "others"}]}},
        {"metadata": {"labels": {"team": "evil"}}},
        {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [EVIL]}}}}},
        {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}},
        {"metadata": {"finalizers": ["example.com/evil"]}},
        {"metadata": {"annotations": {"fluence.flux-framework.org/producer-seen": "true"}}},
    ],
    ids=str,
)
def test_account_of_the_extender_changes_nothing_of_pods_but_what_steering_does(
    admission: Admission, namespace: Namespace, change: Manifest
) -> None:
    namespace.create(ours("p", cpu="9000", schedulingGates=[{"name": "others"}, {"name": GATE}]))
    path = f"/api/v1/namespaces/{namespace.name}/pods/p"
    api = Api(admission.plane.kubeconfig_for_service_account("fluence-system", "fluence"))
    wait_for(lambda: "fluence-stamps" in answer_to(api, "PATCH", path, change), what="it to be refused")
    ungated = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    assert answer_to(api, "PATCH", path, ungated) == ""
    api.close()


LEADS = {"metadata": {"labels": {LEADS_LABEL: "true"}}}


@pytest.fixture
def replica(control_plane: ControlPlane) -> Iterator[str]:
    """The path of a pod of the extender's Deployment, which no scheduler takes."""
    (deployment,) = documents(BASE / "deployment.yaml")
    template = deployment["spec"]["template"]
    name = "fluence-7d4c-x"
    control_plane.api.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": DEFAULT_NAMESPACE,
                "labels": template["metadata"]["labels"],
            },
            "spec": template["spec"] | {"schedulerName": "nobody"},
        }
    )
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods/{name}"
    yield path
    control_plane.api.delete(path)


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [{"name": "extender", "image": "evil"}]}},
        {"metadata": {"labels": {"team": "evil"}}},
        {"metadata": {"labels": {LEADS_LABEL: "true", "team": "evil"}}},
        {"metadata": {"labels": {LEADS_LABEL: "true", "app.kubernetes.io/name": "fluence-webhook"}}},
        {"metadata": {"labels": {LEADS_LABEL: "true"}, "annotations": {"evil": "yes"}}},
        {"metadata": {"labels": {LEADS_LABEL: "true"}, "finalizers": ["example.com/evil"]}},
    ],
    ids=str,
)
def test_account_of_the_extender_changes_nothing_of_its_own_pods_but_which_one_leads(
    admission: Admission, replica: str, account: Api, change: Manifest
) -> None:
    api = Api(admission.plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence"))
    wait_for(lambda: "fluence-stamps" in answer_to(api, "PATCH", replica, change), what="it to be refused")
    assert answer_to(api, "PATCH", replica, LEADS) == ""
    assert answer_to(account, "PATCH", replica, LEADS) != ""
    api.close()


def test_account_of_the_extender_labels_no_other_pod_as_the_leader(
    admission: Admission, namespace: Namespace
) -> None:
    labels = {"app.kubernetes.io/name": "fluence"}
    namespace.create(pod("posing", scheduler="nobody", labels=labels))
    api = Api(admission.plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence"))
    path = f"/api/v1/namespaces/{namespace.name}/pods/posing"
    wait_for(lambda: "fluence-stamps" in answer_to(api, "PATCH", path, LEADS), what="it to be refused")
    api.close()


async def test_leader_takes_the_label_from_the_pod_that_led_before(
    control_plane: ControlPlane, admission: Admission, replica: str
) -> None:
    def labels(path: str) -> Manifest:
        found: Manifest = control_plane.api.get(path)["metadata"]["labels"]
        return found

    before = control_plane.api.get(replica)
    other = f"{replica}-2"
    metadata = {"name": other.rpartition("/")[2], "namespace": DEFAULT_NAMESPACE}
    spec = {key: value for key, value in before["spec"].items() if key != "nodeName"}
    control_plane.api.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata | {"labels": before["metadata"]["labels"] | LEADS["metadata"]["labels"]},
            "spec": spec,
        }
    )
    kubeconfig = admission.plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence")
    try:
        async with connect(str(kubeconfig)) as connection:
            name = replica.rpartition("/")[2]
            await mark_leader(connection, DEFAULT_NAMESPACE, name)
            assert labels(replica)[LEADS_LABEL] == "true"
            assert LEADS_LABEL not in labels(other)
            version = control_plane.api.get(replica)["metadata"]["resourceVersion"]
            await mark_leader(connection, DEFAULT_NAMESPACE, name)
            assert control_plane.api.get(replica)["metadata"]["resourceVersion"] == version
            await mark_leader(connection, DEFAULT_NAMESPACE, "runs-outside-of-a-pod")
            assert labels(replica)[LEADS_LABEL] == "true"
    finally:
        control_plane.api.delete(other)


def test_its_account_changes_no_pod_of_another_scheduler(account: Api, namespace: Namespace) -> None:
    namespace.create(pod("theirs", scheduler="somebody-elses"))
    path = f"/api/v1/namespaces/{namespace.name}/pods/theirs"
    note = {"metadata": {"annotations": {"fluence.flux-framework.org/producer-seen": "true"}}}
    wait_for(
        lambda: "fluence-direct and no others" in answer_to(account, "PATCH", path, note),
        what="it to be refused",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]},
        {
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
            ]
        },
        {"matchConditions": []},
        {"matchConditions": [{"name": "all", "expression": "true"}]},
        {"name": "another.fluence.flux-framework.org"},
    ],
    ids=str,
)
def test_its_account_registers_it_for_no_other_objects(
    admission: Admission, account: Api, change: Manifest
) -> None:
    stored = admission.registration()
    wider = {**stored, "webhooks": [{**stored["webhooks"][0], **change}, stored["webhooks"][1]]}
    wait_for(
        lambda: "fluence-accounts-registration" in answer_to(account, "PUT", PATH, wider),
        what="it to be refused",
    )
    stored = admission.registration()
    stored["webhooks"][0]["timeoutSeconds"] = 7
    assert answer_to(account, "PUT", PATH, stored) == ""


def test_its_account_touches_no_pod_group_of_others(account: Api, namespace: Namespace) -> None:
    collection = f"/apis/{VERSION}/namespaces/{namespace.name}/podgroups"
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    theirs = object_of("PodGroup", "theirs", VERSION, created_by="me", spec=spec)
    namespace.api.request("POST", collection, theirs)

    def refused(verb: str, path: str, body: Manifest | None = None) -> bool:
        return "fluence-accounts-podgroups" in answer_to(account, verb, path, body)

    wait_for(lambda: refused("POST", collection, theirs), what="the policy to be in force")
    assert refused("PATCH", f"{collection}/theirs", {"metadata": {"labels": {"a": "b"}}})
    assert refused("DELETE", f"{collection}/theirs")
    assert (
        answer_to(
            account,
            "POST",
            collection,
            {**object_of("PodGroup", "x", VERSION), "spec": spec},
        )
        == ""
    )


# What a client that isn't the API server can do: any pod may call the webhook.


def equal(name: str, group: str) -> Manifest:
    """A quantum pod of a shared group whose pods are all equal."""
    made = labelled(quantum(name), group, 6)
    made["metadata"]["annotations"][COORDINATION_ANNOTATION] = SHARED
    return made


def test_forged_reviews_make_nothing_and_keep_no_group_from_its_producer(
    admission: Admission, namespace: Namespace
) -> None:
    # Each request without an index waits five seconds for the pod of the claim before it, which never comes.
    for number in range(4):
        forged = equal(f"forged-{number}", "lab")
        forged["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = str(number % 3)
        for body in (forged, equal(f"forged-{number}", "lab")):
            review = written(body, uid=f"forged-{number}", namespace=namespace.name)
            answer = json.loads(admission.replicas[number % 2].post("/mutate", review))
            assert answer["response"]["allowed"]
    assert made_for_sidecars(admission, namespace.name) == []
    (first,) = namespace.create(equal("genuine-0", "lab"))
    (second,) = namespace.create(equal("genuine-1", "lab"))
    roles = [environment(one)["FLUENCE_COORDINATION_ROLE"]["value"] for one in (first, second)]
    assert roles == ["producer", "consumer"]
    assert made_for_sidecars(admission, "kube-public") == []


@pytest.mark.parametrize("where", ["../kube-system", "kube-system/pods?x=", "UPPER", ""])
def test_review_of_a_namespace_that_can_not_be_reaches_no_path(admission: Admission, where: str) -> None:
    review = written(equal("forged", "lab"), namespace=where)
    if not where:
        assert "patch" not in json.loads(admission.replicas[0].post("/mutate", review))["response"]
        return
    with pytest.raises(urllib.error.HTTPError) as refused:
        admission.replicas[0].post("/mutate", review)
    assert refused.value.code == 400
    refused.value.close()
