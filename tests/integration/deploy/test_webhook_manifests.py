"""deploy/webhook: held against what the webhook says of itself and needs."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender import __version__
from fluence_extender.apps.cli import webhook
from fluence_extender.apps.settings import WebhookSettings
from fluence_extender.apps.webhook import webhook_target
from fluence_extender.cluster.port import DEVICE_KINDS, QUEUE_KINDS
from fluence_extender.cluster.sources import OPTIONAL
from fluence_extender.http.listeners.serving import ANSWER_GRACE
from fluence_extender.identity.authority import SECRET
from fluence_extender.identity.registration import OWNER, OWNER_LABEL, is_ours
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.model.coordination import CONSUMER_PRIORITY_CLASS, SIDECAR_ACCOUNT, TOKEN_KEY
from fluence_extender.model.names import RESOURCES_CONFIGMAP, WEBHOOK_NAME
from fluence_extender.webhook.producers import CLAIMS
from fluence_extender.webhook.registration import ServiceTarget, registration
from fluence_extender.webhook.sidecar_account import RULES
from tests.integration.deploy.containers import started
from tests.integration.deploy.roles import bound_to, rights

Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]

ACCOUNT = "fluence-webhook"

# Every call in all namespaces, as (API group, resource, verb).
CALLS = {
    ("", "pods", "get"),  # the image that its own pod runs
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "pods", "patch"),  # consumers whom no sidecar can release any more
    ("batch", "jobs", "get"),
    ("batch", "jobs", "list"),
    ("batch", "jobs", "watch"),
    *(
        (api.group, api.plural, verb)
        for kind, (api, _) in OPTIONAL.items()
        if kind not in (*QUEUE_KINDS, *DEVICE_KINDS)
        for verb in ("list", "watch")
    ),
    # The PodGroups of gangs.
    *(
        (api.group, api.plural, verb)
        for kind, (api, _) in OPTIONAL.items()
        if kind in (PodGroup, CoschedulingGroup)
        for verb in ("create", "patch", "delete")
    ),
    *(("apps", kind, verb) for kind in ("replicasets", "statefulsets") for verb in ("list", "watch")),
    ("apps", "statefulsets", "get"),  # which of its pods is the first
    ("authentication.k8s.io", "tokenreviews", "create"),  # to authenticate a client that asks for metrics
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ("", "limitranges", "list"),  # what containers may ask for
    # The account of sidecars, and its token.
    ("", "serviceaccounts", "create"),
    ("", "secrets", "create"),
    ("rbac.authorization.k8s.io", "roles", "create"),
    ("rbac.authorization.k8s.io", "rolebindings", "create"),
}

# The same of single objects, whose name the rule says.
NAMED_CALLS = {
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", WEBHOOK_NAME, "get"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", WEBHOOK_NAME, "update"),
    ("scheduling.k8s.io", "priorityclasses", CONSUMER_PRIORITY_CLASS, "get"),
    ("scheduling.k8s.io", "priorityclasses", CONSUMER_PRIORITY_CLASS, "use"),  # it removes their gate
    *(("", "secrets", SIDECAR_ACCOUNT, verb) for verb in ("get", "update")),
    ("", "serviceaccounts/token", SIDECAR_ACCOUNT, "create"),
    *(("", "serviceaccounts", SIDECAR_ACCOUNT, verb) for verb in ("get", "update")),
    *(("rbac.authorization.k8s.io", "roles", SIDECAR_ACCOUNT, verb) for verb in ("get", "update")),
    *(("rbac.authorization.k8s.io", "rolebindings", SIDECAR_ACCOUNT, verb) for verb in ("get", "update")),
}

# Calls in its own namespace.
OWN_NAMED_CALLS = {
    ("", "secrets", SECRET, "get"),
    ("", "secrets", SECRET, "update"),
    ("", "configmaps", RESOURCES_CONFIGMAP, "list"),
    ("", "configmaps", RESOURCES_CONFIGMAP, "watch"),
    ("", "configmaps", CLAIMS, "get"),
    ("", "configmaps", CLAIMS, "update"),
}


def split(role: Manifest) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str, str]]]:
    """A role's rights on all objects, and those on single ones."""
    everywhere = rights({"rules": [rule for rule in role["rules"] if "resourceNames" not in rule]})
    named = {
        (group, resource, name, verb)
        for rule in role["rules"]
        for name in rule.get("resourceNames", ())
        for group, resource, verb in rights({"rules": [rule]})
    }
    return everywhere, named


def pod(objects: Objects) -> Manifest:
    spec = objects["Deployment", "fluence-webhook"]["spec"]["template"]["spec"]
    return dict(spec)


def container(objects: Objects) -> Manifest:
    return started(objects["Deployment", ACCOUNT], "webhook")


def settings(objects: Objects) -> WebhookSettings:
    arguments = container(objects)["args"]
    assert arguments[0] == "webhook"
    parameters = dict(webhook.make_context("webhook", arguments[1:]).params)
    parameters.pop("log_format")
    return WebhookSettings(**parameters)


def test_the_cluster_role_grants_exactly_the_calls_made(objects: Objects) -> None:
    assert split(objects["ClusterRole", ACCOUNT]) == (CALLS, NAMED_CALLS)


def test_it_has_what_it_grants_to_sidecars(objects: Objects) -> None:
    """The API server lets nobody grant what he hasn't got himself."""
    assert rights({"rules": RULES}) <= rights(objects["ClusterRole", ACCOUNT])


@pytest.mark.parametrize(
    "policy", ["stamps", "accounts-sidecars", "accounts-podgroups", "accounts-registration"]
)
def test_what_a_role_can_not_restrict_a_policy_does(objects: Objects, policy: str) -> None:
    """Without one of them the right to create Secrets, or to patch pods, would be a right to everything."""
    spec = objects["ValidatingAdmissionPolicy", f"fluence-{policy}"]["spec"]
    assert f"'system:serviceaccount:fluence-system:{ACCOUNT}'" in spec["matchConditions"][0]["expression"]
    assert spec["failurePolicy"] == "Fail"
    binding = objects["ValidatingAdmissionPolicyBinding", f"fluence-{policy}"]["spec"]
    assert binding == {"policyName": f"fluence-{policy}", "validationActions": ["Deny"]}


def test_condition_for_writes_of_pods_says_what_the_validations_say(objects: Objects) -> None:
    """The validations are evaluated only where it says that one isn't met. It can't use variables."""
    spec = objects["ValidatingAdmissionPolicy", "fluence-stamps"]["spec"]
    (condition,) = ("".join(one["expression"].split()) for one in spec["matchConditions"])
    for rule in spec["validations"][1:3]:
        text = "".join(rule["expression"].split()).removeprefix("!variables.service||")
        text = text.removeprefix("oldObject==null||")
        webhook = "request.userInfo.username.endsWith('-webhook')"
        assert text.replace("variables.webhook", webhook) in condition


def test_the_policy_admits_the_registration_that_the_webhook_writes(objects: Objects) -> None:
    (rule,) = objects["ValidatingAdmissionPolicy", "fluence-accounts-registration"]["spec"]["validations"]
    text = " ".join(rule["expression"].split()).replace('" + "', "")
    for hook in registration(webhook_target(settings(objects)))["webhooks"]:
        assert f"'{hook['name']}'" in text
        assert f'"{hook["matchConditions"][0]["expression"]}"' in text
        (pods,) = hook["rules"]
        assert (pods["apiGroups"], pods["resources"], pods["operations"]) == ([""], ["pods"], ["CREATE"])


def test_every_right_to_create_without_a_name_is_under_a_policy(objects: Objects) -> None:
    creates = {(group, resource) for group, resource, verb in CALLS if verb in ("create", "patch")}
    covered = {
        (group, resource)
        for (kind, name), item in objects.items()
        if kind == "ValidatingAdmissionPolicy" and name.startswith(("fluence-accounts-", "fluence-stamps"))
        for rule in item["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    # A review is an answer; no object is made.
    reviews = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}
    assert creates - reviews <= covered


def test_the_claims_are_made_empty(objects: Objects) -> None:
    claims = objects["ConfigMap", CLAIMS]
    assert claims["metadata"]["namespace"] == "fluence-system"
    assert "data" not in claims


def test_in_its_own_namespace_it_keeps_its_secret_and_reads_the_resources_file(objects: Objects) -> None:
    role = objects["Role", ACCOUNT]
    assert role["metadata"]["namespace"] == "fluence-system"
    assert split(role) == (set(), OWN_NAMED_CALLS)


def test_the_service_account_gets_no_further_roles(objects: Objects) -> None:
    assert bound_to(objects, ACCOUNT) == {("ClusterRole", ACCOUNT), ("Role", ACCOUNT)}


def test_it_may_make_no_registrations_and_no_secrets_but_those_of_sidecars(objects: Objects) -> None:
    """Either would let whoever takes it over take over the cluster."""
    for kind in ("ClusterRole", "Role"):
        for _, resource, verb in rights(objects[kind, ACCOUNT]):
            assert resource != "mutatingwebhookconfigurations" or verb in ("get", "update")
            assert resource != "secrets" or verb in ("get", "create", "update")
    validations = objects["ValidatingAdmissionPolicy", "fluence-accounts-sidecars"]["spec"]["validations"]
    told = " ".join(one["expression"] for one in validations)
    assert f"object.metadata.?name.orValue('') == '{SIDECAR_ACCOUNT}'" in told
    assert "variables.body.?type.orValue('Opaque') == 'Opaque'" in told
    assert f"key == '{TOKEN_KEY}'" in told
    (rule,) = RULES
    listed = ", ".join(f"'{key}': [{', '.join(map(repr, value))}]" for key, value in rule.items())
    assert f"variables.body.rules == [{{{listed}}}]" in told


def test_the_registration_is_what_the_webhook_writes_without_whom_to_trust(objects: Objects) -> None:
    shipped = objects["MutatingWebhookConfiguration", WEBHOOK_NAME]
    target = webhook_target(settings(objects))
    assert is_ours(shipped)
    assert shipped["webhooks"] == registration(target)["webhooks"]


def test_the_registration_leads_through_the_service_to_the_port(objects: Objects) -> None:
    target = webhook_target(settings(objects))
    assert isinstance(target, ServiceTarget)
    service = objects["Service", target.name]
    assert service["metadata"]["namespace"] == target.namespace
    (port,) = service["spec"]["ports"]
    (listening,) = container(objects)["ports"]
    called = registration(target)["webhooks"][0]["clientConfig"]["service"]
    assert (port["port"], port["targetPort"]) == (called["port"], listening["name"])
    assert listening["containerPort"] == settings(objects).port
    assert settings(objects).host == "0.0.0.0"

    labels = objects["Deployment", ACCOUNT]["spec"]["template"]["metadata"]["labels"]
    policy = objects["NetworkPolicy", ACCOUNT]["spec"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["ingress"] == [{"ports": [{"port": listening["name"], "protocol": "TCP"}]}]
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        asked = container(objects)[probe]["httpGet"]
        assert asked == {"path": path, "port": listening["name"], "scheme": "HTTPS"}


def test_the_secret_is_made_empty_and_marked_as_ours(objects: Objects) -> None:
    secret = objects["Secret", SECRET]
    target = webhook_target(settings(objects))
    assert isinstance(target, ServiceTarget)
    assert secret["metadata"]["namespace"] == target.namespace
    assert secret["metadata"]["labels"][OWNER_LABEL] == OWNER
    assert "data" not in secret
    assert "stringData" not in secret


def test_there_are_two_replicas_and_never_none(objects: Objects) -> None:
    spec = objects["Deployment", ACCOUNT]["spec"]
    assert spec["replicas"] == 2
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    labels = spec["template"]["metadata"]["labels"]
    budget = objects["PodDisruptionBudget", ACCOUNT]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    (apart,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= labels.items()


def test_it_goes_on_answering_until_the_service_leads_elsewhere(objects: Objects) -> None:
    seconds = container(objects)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert seconds >= 5
    assert seconds + ANSWER_GRACE < pod(objects)["terminationGracePeriodSeconds"]


def test_its_own_pods_need_no_webhook(objects: Objects) -> None:
    assert pod(objects)["schedulerName"] == "default-scheduler"


def test_the_container_is_confined_and_keys_touch_no_disk(objects: Objects) -> None:
    assert pod(objects)["securityContext"]["runAsNonRoot"] is True
    assert pod(objects)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (mount,) = container(objects)["volumeMounts"]
    (volume,) = pod(objects)["volumes"]
    assert (mount["mountPath"], mount["name"]) == ("/tmp", volume["name"])
    assert volume["emptyDir"]["medium"] == "Memory"


def test_the_image_is_the_extenders(objects: Objects) -> None:
    assert container(objects)["image"] == f"fluence-extender:{__version__}"
