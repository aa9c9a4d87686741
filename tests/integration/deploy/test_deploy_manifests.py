"""deploy/: what kubectl apply -k sends, held against what the program says and needs."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fluence_extender import __version__
from fluence_extender.apps.cli import main, serve
from fluence_extender.apps.extender.exposure import API_SERVICE, api_service
from fluence_extender.apps.extender.exposure import SECRET as STATE_SECRET
from fluence_extender.apps.kubectl.doctor.checks import POLICIES
from fluence_extender.apps.kubectl.state_api import ROLE, SERVICE
from fluence_extender.apps.scheduler_config import ENVIRONMENT, FEATURE_GATES, scheduler_config
from fluence_extender.cluster.leader import LEADS
from fluence_extender.cluster.sources import OPTIONAL
from fluence_extender.embeddedcluster.classes import MOST_LOOKED_AT, NODE_VOLUMES
from fluence_extender.gangs.leadership.lease import OURS_OF_DURATION
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.http.server import BIND_GRACE
from fluence_extender.identity.registration import is_ours
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.registry import KINDS
from fluence_extender.model.access import ALL_PAST_WORK, METRICS
from fluence_extender.model.names import (
    ALLOCATION_ANNOTATION,
    ATTRIBUTE_PREFIX,
    BACKEND_ANNOTATION,
    COSCHEDULING_GROUP,
    DEFAULT_NAMESPACE,
    DIRECT_SCHEDULER_NAME,
    DOMAIN,
    FLUX_SIZE,
    GATE,
    KEEPING,
    KEPT_ANNOTATION,
    KUEUE_QUEUE_LABEL,
    LEADS_LABEL,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    RESOURCE_DOMAIN,
    RESOURCES_CONFIGMAP,
    RESOURCES_KEY,
    SCHEDULER_NAME,
    SCHEDULER_NAMES,
    STATE_GROUP,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
    USER_ANNOTATION,
)
from tests.integration.deploy.containers import started
from tests.integration.deploy.roles import bound_to, rights

Manifest = dict[str, Any]
Objects = dict[tuple[str, str], Manifest]

# Every call the extender makes in all namespaces, as (API group, resource, verb): the lists and watches of
# cluster/sources.py, and the writes of cluster/api.py and cluster/events.py.
CALLS = {
    ("", "nodes", "list"),
    ("", "nodes", "watch"),
    ("", "nodes", "patch"),  # annotations by which autoscalers don't remove it
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("batch", "jobs", "list"),
    ("batch", "jobs", "watch"),
    ("batch", "jobs", "get"),  # before a suspended Job's pods are expected, and after an uncertain answer
    ("batch", "jobs", "patch"),  # resume a Job that admission has suspended, or suspend it again
    *(
        (group, resource, verb)  # the same for what operators run
        for group, resource in [
            (kind.api.group, kind.api.plural) for kind in KINDS if kind.suspend and kind.api.optional
        ]
        for verb in ("get", "patch")
    ),
    *(("apps", kind, verb) for kind in ("replicasets", "statefulsets") for verb in ("list", "watch")),
    *((api.group, api.plural, verb) for api, _ in OPTIONAL.values() for verb in ("list", "watch")),
    ("", "pods", "get"),  # read back after an uncertain answer
    ("", "pods", "patch"),  # remove the gate
    ("", "pods", "create"),  # expect a suspended Job's pods, as a dry run
    ("", "pods/status", "patch"),  # nominate
    ("", "pods/binding", "create"),
    ("", "pods/eviction", "create"),
    ("policy", "poddisruptionbudgets", "list"),  # before a gang is evicted whole
    ("scheduling.k8s.io", "priorityclasses", "list"),  # also the priority of pods that are only asked about
    ("scheduling.k8s.io", "priorityclasses", "watch"),
    ("", "namespaces", "list"),  # who may submit to which queue
    ("", "namespaces", "watch"),
    ("", "resourcequotas", "list"),  # what pods that don't exist yet will count for
    ("", "resourcequotas", "watch"),
    (DOMAIN, "queues/status", "patch"),
    (DOMAIN, "reservations/status", "patch"),
    ("batch", "jobs/status", "patch"),  # the condition of a Job whose pods can't be placed
    ("scheduling.k8s.io", "podgroups/status", "patch"),  # the condition of a native gang
    ("scheduling.x-k8s.io", "podgroups/status", "patch"),  # phase and counts
    ("events.k8s.io", "events", "create"),
    ("events.k8s.io", "events", "patch"),
    ("authentication.k8s.io", "tokenreviews", "create"),  # who calls the state API
    ("authorization.k8s.io", "subjectaccessreviews", "create"),  # and what he may see
    ("apiregistration.k8s.io", "apiservices", "get"),  # which authority the API server trusts for it
    ("apiregistration.k8s.io", "apiservices", "update"),
}


def container(objects: Objects, name: str) -> Manifest:
    return started(objects["Deployment", "fluence"], name)


def test_the_cluster_role_grants_exactly_the_calls_made(objects: Objects) -> None:
    assert rights(objects["ClusterRole", "fluence-extender"]) == CALLS


def test_everything_of_ours_is_in_its_own_namespace_but_one_binding(objects: Objects) -> None:
    """The role of that binding is in kube-system on every cluster."""
    elsewhere = {
        key: item["metadata"]["namespace"]
        for key, item in objects.items()
        if item["metadata"].get("namespace", DEFAULT_NAMESPACE) != DEFAULT_NAMESPACE
    }
    assert elsewhere == {("RoleBinding", "fluence-authentication-reader"): "kube-system"}
    assert ("Namespace", DEFAULT_NAMESPACE) in objects
    for deployment in ("fluence", "fluence-webhook"):
        assert objects["Deployment", deployment]["metadata"]["namespace"] == DEFAULT_NAMESPACE


def test_the_namespace_enforces_the_restricted_standard_of_the_tested_version(objects: Objects) -> None:
    labels = objects["Namespace", DEFAULT_NAMESPACE]["metadata"]["labels"]
    image = container(objects, "kube-scheduler")["image"].partition("@")[0]
    (tested,) = re.findall(r":(v\d+\.\d+)\.\d+$", image)
    prefix = "pod-security.kubernetes.io/"
    assert {key.removeprefix(prefix): value for key, value in labels.items() if key.startswith(prefix)} == {
        "enforce": "restricted",
        "enforce-version": tested,
        "audit": "restricted",
        "audit-version": "latest",
        "warn": "restricted",
        "warn-version": "latest",
    }


def test_a_quota_covers_the_priority_of_our_pods_during_a_rollout(objects: Objects) -> None:
    deployments = [item["spec"] for (kind, _), item in objects.items() if kind == "Deployment"]
    classes = {spec["template"]["spec"]["priorityClassName"] for spec in deployments}
    quota = objects["ResourceQuota", "fluence-critical-pods"]
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": sorted(classes)}
    most = sum(spec["replicas"] + spec["strategy"]["rollingUpdate"]["maxSurge"] for spec in deployments)
    # Pods that end count until they are gone.
    assert int(quota["spec"]["hard"]["pods"]) >= 2 * most


def test_our_pods_reach_api_servers_and_dns_and_nothing_else(objects: Objects) -> None:
    for name in ("fluence", "fluence-webhook"):
        policy = objects["NetworkPolicy", name]["spec"]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        reached = {(port["port"], port["protocol"]) for rule in policy["egress"] for port in rule["ports"]}
        assert reached == {(443, "TCP"), (6443, "TCP"), (53, "UDP"), (53, "TCP")}
        labels = objects["Deployment", name]["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()


def test_of_config_maps_only_the_resources_file_may_be_read(objects: Objects) -> None:
    role = objects["Role", "fluence-resources"]
    assert role["metadata"]["namespace"] == "fluence-system"
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [RESOURCES_CONFIGMAP],
            "verbs": ["list", "watch"],
        }
    ]


def test_of_leases_only_our_own_may_be_read_and_written(objects: Objects) -> None:
    namespace, _, name = lease(objects).partition("/")
    role = objects["Role", "fluence-leader-election"]
    assert role["metadata"]["namespace"] == namespace
    created, held = role["rules"]
    assert created == {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}
    assert (held["resources"], held["resourceNames"], held["verbs"]) == (
        ["leases"],
        [name],
        ["get", "update"],
    )


def lease(objects: Objects) -> str:
    """The Lease that the extender follows."""
    context = serve.make_context("serve", container(objects, "extender")["args"][1:])
    return str(context.params["lease"])


def scheduler_configuration(objects: Objects) -> str:
    """The name of the ConfigMap, which has a hash of its content."""
    (found,) = (
        name for kind, name in objects if kind == "ConfigMap" and name.startswith("fluence-scheduler-")
    )
    return found


def test_both_containers_are_of_one_election(objects: Objects) -> None:
    name = scheduler_configuration(objects)
    election = yaml.safe_load(objects["ConfigMap", name]["data"]["scheduler.yaml"])["leaderElection"]
    assert election["leaderElect"] is True
    assert lease(objects) == f"{election['resourceNamespace']}/{election['resourceName']}"
    flag = f"--leader-elect-resource-namespace={election['resourceNamespace']}"
    assert flag in container(objects, "kube-scheduler")["args"]
    # kube-scheduler holds it under the pod's host name, which is the extender's too.
    pod = objects["Deployment", "fluence"]["spec"]["template"]["spec"]
    assert not {"hostname", "hostNetwork", "setHostnameAsFQDN"} & pod.keys()
    context = serve.make_context("serve", container(objects, "extender")["args"][1:])
    assert context.params["identity"] == socket.gethostname()


def test_the_service_account_gets_no_further_roles(objects: Objects) -> None:
    assert bound_to(objects, "fluence") == {
        ("ClusterRole", "fluence-extender"),
        ("Role", "fluence-resources"),
        ("Role", "fluence-state-authority"),
        ("Role", "fluence-record-key"),
        ("Role", "fluence-leader-election"),
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
    }


def test_users_may_ask_this_one_service_and_nothing_else(objects: Objects) -> None:
    for name in ("fluence-view", "fluence-simulate"):
        asking, other = objects["ClusterRole", name]["rules"]
        assert asking == {"apiGroups": [STATE_GROUP], "resources": ["*"], "verbs": ["get", "list"]}
        if name == "fluence-view":
            assert (other["resourceNames"], other["verbs"]) == ([RESOURCES_CONFIGMAP], ["get"])
        else:
            # The group has kinds whose objects only administrators create.
            assert other == {"apiGroups": [STATE_GROUP], "resources": ["simulate"], "verbs": ["create"]}
    assert ROLE == "fluence-view"


def test_those_who_run_the_queue_write_its_objects_and_see_all_past_work(objects: Objects) -> None:
    asking, writing, auditing = objects["ClusterRole", "fluence-queue-admin"]["rules"]
    assert asking == {"apiGroups": [STATE_GROUP], "resources": ["*"], "verbs": ["get", "list"]}
    assert writing["resources"] == ["queues", "reservations"]
    assert (auditing["apiGroups"], auditing["resources"], auditing["verbs"]) == (
        [ALL_PAST_WORK.group],
        [ALL_PAST_WORK.resource],
        [ALL_PAST_WORK.verb],
    )


def test_metrics_are_granted_by_a_role_of_their_own(objects: Objects) -> None:
    (rule,) = objects["ClusterRole", "fluence-metrics"]["rules"]
    assert rule == {"nonResourceURLs": [METRICS.path], "verbs": [METRICS.verb]}


def test_the_api_service_leads_to_the_service_and_is_what_the_extender_keeps(objects: Objects) -> None:
    shipped = objects["APIService", API_SERVICE]
    assert is_ours(shipped)
    assert shipped["spec"] == api_service("fluence-system", "fluence")["spec"]
    (port,) = objects["Service", "fluence"]["spec"]["ports"]
    assert shipped["spec"]["service"] == {
        "namespace": "fluence-system",
        "name": SERVICE,
        "port": port["port"],
    }
    context = serve.make_context("serve", container(objects, "extender")["args"][1:])
    assert context.params["api_service"] == "fluence-system/fluence"
    secret = objects["Secret", STATE_SECRET]
    assert is_ours(secret)
    assert "data" not in secret
    (mount,) = container(objects, "extender")["volumeMounts"]
    assert mount["mountPath"] == "/tmp"


def test_every_binding_is_for_one_service_account_of_a_deployment(objects: Objects) -> None:
    accounts = [
        item["spec"]["template"]["spec"]["serviceAccountName"]
        for (kind, _), item in objects.items()
        if kind == "Deployment"
    ]
    assert accounts == ["fluence", "fluence-webhook"]
    subjects = [{"kind": "ServiceAccount", "name": one, "namespace": "fluence-system"} for one in accounts]
    assert all(("ServiceAccount", account) in objects for account in accounts)
    for (kind, name), item in objects.items():
        if kind.endswith("RoleBinding"):
            (subject,) = item["subjects"]
            assert subject in subjects, name


def test_the_scheduler_reads_what_the_scheduler_config_command_prints(
    objects: Objects, project: Path
) -> None:
    name = scheduler_configuration(objects)
    printed = scheduler_config("http://127.0.0.1:8888", "", "fluence-system/fluence")
    assert objects["ConfigMap", name]["data"] == {"scheduler.yaml": printed}
    assert CliRunner().invoke(main, ["scheduler-config", "--lease=fluence-system/fluence"]).output == printed

    volumes = objects["Deployment", "fluence"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "scheduler-config", "configMap": {"name": name}} in volumes
    (mount,) = container(objects, "kube-scheduler")["volumeMounts"]
    assert mount["name"] == "scheduler-config"
    assert f"--config={mount['mountPath']}/scheduler.yaml" in container(objects, "kube-scheduler")["args"]
    variables = {one["name"]: one["value"] for one in container(objects, "kube-scheduler")["env"]}
    assert variables == ENVIRONMENT
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in FEATURE_GATES.items())
    assert f"--feature-gates={gates}" in container(objects, "kube-scheduler")["args"]


def test_the_scheduler_finds_the_verbs_where_the_extender_serves_them(objects: Objects) -> None:
    context = serve.make_context("serve", container(objects, "extender")["args"][1:])
    name = scheduler_configuration(objects)
    config = yaml.safe_load(objects["ConfigMap", name]["data"]["scheduler.yaml"])
    served = f"http://127.0.0.1:{context.params['port']}"
    assert [one["urlPrefix"] for one in config["extenders"]] == [served]
    assert context.params["host"] == "127.0.0.1"


def test_probes_service_and_network_policy_agree_on_the_api_port(objects: Objects) -> None:
    extender = container(objects, "extender")
    assert extender["args"][0] == "serve"
    context = serve.make_context("serve", extender["args"][1:])
    assert context.params["api_host"] == "0.0.0.0"
    assert extender["ports"] == [
        {"name": "api", "containerPort": context.params["api_port"], "protocol": "TCP"}
    ]
    assert extender["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "api", "scheme": "HTTPS"}
    assert extender["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "api", "scheme": "HTTPS"}

    labels = objects["Deployment", "fluence"]["spec"]["template"]["metadata"]["labels"]
    service = objects["Service", "fluence"]["spec"]
    policy = objects["NetworkPolicy", "fluence"]["spec"]
    # The leader gives its own pod that label.
    assert service["selector"].items() == labels.items() | {(LEADS_LABEL, LEADS)}
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert [port["targetPort"] for port in service["ports"]] == ["api"]
    state, scheduler = policy["ingress"]
    assert state == {"ports": [{"port": "api", "protocol": "TCP"}]}
    assert [port["port"] for port in scheduler["ports"]] == ["scheduler"]
    (labelled,) = scheduler["from"]
    assert labelled["namespaceSelector"]["matchLabels"]


def test_reviews_of_callers_have_a_flow_of_their_own(objects: Objects) -> None:
    flow = objects["FlowSchema", "fluence-reviews"]["spec"]
    level = flow["priorityLevelConfiguration"]["name"]
    assert objects["PriorityLevelConfiguration", level]["spec"]["type"] == "Limited"
    # The API server's own flow of all service accounts comes later.
    assert flow["matchingPrecedence"] < 9000
    (rule,) = flow["rules"]
    (resources,) = rule["resourceRules"]
    asked = {
        (group, resource)
        for role in ("fluence-extender",)
        for right in objects["ClusterRole", role]["rules"]
        for group in right.get("apiGroups", ())
        for resource in right.get("resources", ())
        if resource.endswith("reviews")
    }
    assert {group for group, _ in asked} == set(resources["apiGroups"])
    assert {resource for _, resource in asked} == set(resources["resources"])
    accounts = {
        (one["serviceAccount"]["namespace"], one["serviceAccount"]["name"]) for one in rule["subjects"]
    }
    assert accounts == {("fluence-system", "fluence"), ("fluence-system", "fluence-webhook")}


def test_there_is_always_a_replica_to_take_over(objects: Objects) -> None:
    spec = objects["Deployment", "fluence"]["spec"]
    assert spec["replicas"] == 2
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    labels = spec["template"]["metadata"]["labels"]
    budget = objects["PodDisruptionBudget", "fluence"]["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    (apart,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= labels.items()


def test_extender_that_hangs_takes_the_scheduler_along_once_it_has_stopped_writing(objects: Objects) -> None:
    scheduler, extender = container(objects, "kube-scheduler"), container(objects, "extender")
    context = serve.make_context("serve", extender["args"][1:])
    probe = scheduler["livenessProbe"]
    # By number: a name would be looked for among this container's own ports.
    port = context.params["api_port"]
    assert probe["httpGet"] == {"path": "/livez/scheduler", "port": port, "scheme": "HTTPS"}
    assert scheduler["startupProbe"]["httpGet"] == probe["httpGet"]
    (port,) = scheduler["ports"]
    assert context.params["scheduler_livez"] == f"https://127.0.0.1:{port['containerPort']}/livez"
    name = scheduler_configuration(objects)
    election = yaml.safe_load(objects["ConfigMap", name]["data"]["scheduler.yaml"])["leaderElection"]
    assert election["leaseDuration"] == "15s"
    assert (probe["failureThreshold"] - 1) * probe["periodSeconds"] >= OURS_OF_DURATION * 15


def test_lease_is_let_go_after_the_extender_has_ended(objects: Objects) -> None:
    pod = objects["Deployment", "fluence"]["spec"]["template"]["spec"]
    seconds = container(objects, "kube-scheduler")["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert BIND_GRACE < seconds < pod["terminationGracePeriodSeconds"]
    assert "lifecycle" not in container(objects, "extender")


@pytest.mark.parametrize("name", ["kube-scheduler", "extender"])
def test_each_container_is_confined(objects: Objects, name: str) -> None:
    pod = objects["Deployment", "fluence"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(objects, name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()


@pytest.mark.parametrize("name", ["fluence", "fluence-webhook"])
def test_services_of_the_namespace_set_no_option_by_environment(objects: Objects, name: str) -> None:
    """Kubelet sets FLUENCE_PORT=tcp://… for a Service named fluence, unless told not to."""
    assert ("Service", name) in objects
    assert objects["Deployment", name]["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_the_deployment_does_not_wait_for_itself(objects: Objects) -> None:
    pod = objects["Deployment", "fluence"]["spec"]["template"]["spec"]
    assert pod["schedulerName"] == "default-scheduler"


def test_the_image_is_of_this_version(objects: Objects) -> None:
    assert container(objects, "extender")["image"] == f"fluence-extender:{__version__}"


@pytest.fixture(scope="module")
def policy(objects: Objects) -> Manifest:
    """The spec of the admission policy for pods."""
    spec: Manifest = objects["MutatingAdmissionPolicy", "fluence-gate"]["spec"]
    return spec


def test_each_policy_that_changes_objects_is_bound(objects: Objects) -> None:
    kind = "MutatingAdmissionPolicy"
    policies = {name: item["spec"] for (its, name), item in objects.items() if its == kind}
    bindings = {name: item["spec"] for (its, name), item in objects.items() if its == f"{kind}Binding"}
    assert {item["policyName"] for item in bindings.values()} == policies.keys()
    assert policies.keys() == {
        *("fluence-deviceclasses", "fluence-gate", "fluence-groups", "fluence-intake"),
        *("fluence-submitters", "fluence-suspend", "fluence-suspend-operators"),
    }
    assert bindings.keys() == policies.keys()


def test_no_pod_gets_past_a_policy_by_its_size_and_foreign_pods_depend_on_none(objects: Objects) -> None:
    specs = {name: item["spec"] for (kind, name), item in objects.items() if kind.endswith("AdmissionPolicy")}
    lenient = {name for name, spec in specs.items() if spec["failurePolicy"] == "Ignore"}
    assert lenient == {
        *("fluence-deviceclasses", "fluence-groups", "fluence-intake", "fluence-stateful-gangs"),
        *("fluence-submitters", "fluence-suspend", "fluence-suspend-operators"),
    }
    (gate,) = specs["fluence-gate"]["matchConditions"]
    reapplied = "object.spec.schedulerName == 'fluence' && oldObject.spec.schedulerName == 'fluence-direct'"
    assert gate["expression"].startswith(f"oldObject != null ? {reapplied} : {OURS} && ")
    (only,) = specs["fluence-stamps"]["matchConditions"]
    assert only["expression"].startswith("request.userInfo.username in ")
    assert f" : {OURS} && (oldObject == null ?" in only["expression"]


OURS = f"object.spec.?schedulerName.orValue('') in {list(SCHEDULER_NAMES)}"


def variable(spec: Manifest, name: str) -> str:
    """The expression of a policy's variable."""
    return str(next(one["expression"] for one in spec["variables"] if one["name"] == name))


def test_class_of_a_pod_is_the_same_text_in_all_policies(objects: Objects) -> None:
    """Conditions can't use variables, and no policy another one's."""
    gate = objects["MutatingAdmissionPolicy", "fluence-gate"]["spec"]
    intake = objects["MutatingAdmissionPolicy", "fluence-intake"]["spec"]
    stamps = objects["ValidatingAdmissionPolicy", "fluence-stamps"]["spec"]
    text = variable(gate, "filtered")
    assert variable(intake, "filtered") == text
    for spec in (gate, stamps):
        assert text in spec["matchConditions"][0]["expression"]
    assert f"> {MOST_LOOKED_AT}" in text
    named = set(re.findall(r"has\(one\.(\w+)\)", text))
    assert named == NODE_VOLUMES
    for component in (gate, intake):
        assert component["variables"][0]["name"] == "filtered"


def test_policies_know_the_annotations_that_the_service_writes(objects: Objects) -> None:
    stamps = str(objects["ValidatingAdmissionPolicy", "fluence-stamps"]["spec"]["validations"])
    for name in (ALLOCATION_ANNOTATION, BACKEND_ANNOTATION, PLACED_ANNOTATION):
        assert f"'{name}'" in stamps
    assert f"'{ATTRIBUTE_PREFIX}'" in stamps
    assert f"size() <= {MOST_LOOKED_AT}" in stamps
    gate = objects["MutatingAdmissionPolicy", "fluence-gate"]["spec"]
    for name in (NODES_ANNOTATION, USER_ANNOTATION):
        assert f"'{name}'" in gate["matchConditions"][0]["expression"]
        assert name.replace("/", "~1") in gate["mutations"][0]["jsonPatch"]["expression"]


def test_whatever_names_its_creator_is_kept_from_naming_another(objects: Objects) -> None:
    writes = objects["MutatingAdmissionPolicy", "fluence-submitters"]["spec"]
    judges = objects["ValidatingAdmissionPolicy", "fluence-stamps-submitters"]["spec"]
    assert writes["matchConstraints"] == judges["matchConstraints"]
    named = {name for rule in writes["matchConstraints"]["resourceRules"] for name in rule["resources"]}
    assert {"jobs", "cronjobs", "rayclusters", "rayjobs", "rayservices", "trainjobs"} < named
    # Neither status nor scale is written with them: controllers write these often.
    assert not [name for name in named if "/" in name]
    copied = [
        one["expression"]
        for spec in (writes, judges)
        for one in spec["variables"]
        if one["name"] in ("copied", "owners")
    ]
    assert copied[:2] == copied[2:]
    for spec in (writes, judges):
        assert f"'{USER_ANNOTATION}'" in spec["matchConditions"][-1]["expression"]
    assert USER_ANNOTATION.replace("/", "~1") in writes["mutations"][0]["jsonPatch"]["expression"]


def test_policy_binds_by_creation_what_needs_no_binding_of_ours(objects: Objects) -> None:
    born = variable(objects["MutatingAdmissionPolicy", "fluence-gate"]["spec"], "born")
    for name in (
        ALLOCATION_ANNOTATION,
        BACKEND_ANNOTATION,
        ATTRIBUTE_PREFIX,
        RESOURCE_DOMAIN,
        NODES_ANNOTATION,
        PLACED_ANNOTATION,
    ):
        assert f"'{name}" in born
    assert "!variables.filtered" in born


def test_policies_of_operators_know_the_keys_by_which_their_objects_wait(objects: Objects) -> None:
    suspend = objects["MutatingAdmissionPolicy", "fluence-suspend-operators"]["spec"]
    rules = [suspend["matchConstraints"]]
    for name in ("fluence-stamps-operators", "fluence-accounts-operators"):
        spec = objects["ValidatingAdmissionPolicy", name]["spec"]
        assert f"'{SUSPENDED_FOR_ANNOTATION}'" in str(spec)
        rules.append(spec["matchConstraints"])
    waiting = {kind.api.plural for kind in KINDS if kind.suspend and kind.values is not Job}
    for one in rules:
        assert {name for rule in one["resourceRules"] for name in rule["resources"]} == waiting
    text = str([suspend["variables"], suspend["mutations"]])
    for name in (SUSPENDED_FOR_ANNOTATION, QUEUE_LABEL, SUSPEND_LABEL, KUEUE_QUEUE_LABEL, SCHEDULER_NAME):
        assert f"'{name}'" in text.replace('"', "'")
    for one in waiting:
        assert f"'/spec/{'/'.join(_suspends(one))}'" in text


def test_policies_about_autoscalers_know_the_keys_that_the_service_writes(objects: Objects) -> None:
    nodes = str(objects["ValidatingAdmissionPolicy", "fluence-accounts-nodes"]["spec"])
    for name in (*KEEPING, KEPT_ANNOTATION):
        assert f"'{name}'" in nodes


def _suspends(resource: str) -> tuple[str, ...]:
    return next(kind.suspend for kind in KINDS if kind.api.plural == resource)


def test_policies_of_jobs_know_the_keys_by_which_they_are_placed_at_birth(objects: Objects) -> None:
    suspend = objects["MutatingAdmissionPolicy", "fluence-suspend"]["spec"]
    stamps = objects["ValidatingAdmissionPolicy", "fluence-stamps-jobs"]["spec"]
    accounts = objects["ValidatingAdmissionPolicy", "fluence-accounts-jobs"]["spec"]
    keys = SUSPENDED_FOR_ANNOTATION, QUEUED_SINCE_ANNOTATION, NODES_ANNOTATION, PLACED_ANNOTATION
    for name in keys:
        assert f"'{name}'" in str(suspend["matchConditions"][-1])
        assert f"'{name}'" in str([stamps["variables"], stamps["validations"]])
        assert f"'{name}'" in str(accounts["variables"])
    written = suspend["mutations"][0]["jsonPatch"]["expression"]
    assert "['nodes', 'placed-with'].filter" in written
    assert "'/spec/podFailurePolicy'" in written
    assert f"{{'{SUSPENDED_FOR_ANNOTATION}': '{SUSPENDED_FOR_PLACEMENT}'}}" in written
    (opted_out,) = (one["expression"] for one in suspend["variables"] if one["name"] == "optedOut")
    (in_turn,) = (one["expression"] for one in suspend["variables"] if one["name"] == "inTurn")
    assert f"[?'{QUEUE_LABEL}']" in in_turn
    assert f"'{QUEUE_LABEL}'" in str(suspend["matchConditions"][-1])
    assert opted_out.count(f"[?'{SUSPEND_LABEL}'].orValue('') == '{NEVER_SUSPEND}'") == 2
    for policy in (suspend, stamps):
        first, *_ = policy["matchConditions"]
        assert first["expression"].endswith(f"schedulerName.orValue('') in {list(SCHEDULER_NAMES)}")


def test_the_policy_gives_filtered_pods_the_gate_that_the_extender_removes(policy: Manifest) -> None:
    (mutation,) = policy["mutations"]
    (condition,) = policy["matchConditions"]
    written = mutation["jsonPatch"]["expression"]
    assert written.count(f"{{'name': '{GATE}'}}") == 2
    assert f"variables.filtered ? '{SCHEDULER_NAME}' : '{DIRECT_SCHEDULER_NAME}'" in written
    assert f"'{GATE}'" in condition["expression"]
    assert policy["reinvocationPolicy"] == "IfNeeded"


def test_only_labelled_workloads_of_our_scheduler_are_patched(objects: Objects) -> None:
    spec = objects["MutatingAdmissionPolicy", "fluence-groups"]["spec"]
    conditions = {entry["name"]: entry["expression"] for entry in spec["matchConditions"]}
    assert conditions["for-our-scheduler"].endswith(f" in {list(SCHEDULER_NAMES)}")
    assert f"['{COSCHEDULING_GROUP}', '{FLUX_SIZE}'].exists" in conditions["labelled"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    # Not deployments/scale and the like: whoever scales is asked nothing.
    assert rule["resources"] == ["deployments", "replicasets", "statefulsets"]


def test_applying_deploy_again_leaves_the_operators_devices_alone(objects: Objects) -> None:
    assert ("ConfigMap", RESOURCES_CONFIGMAP) not in objects


def test_the_quantum_overlay_adds_the_example_devices_and_nothing_else(
    deployed: dict[str, list[Manifest]], objects: Objects, project: Path
) -> None:
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in deployed["deploy/quantum"]}
    config_map = by_name.pop(("ConfigMap", RESOURCES_CONFIGMAP))
    assert by_name == objects
    assert config_map["metadata"]["namespace"] == "fluence-system"
    shipped = config_map["data"][RESOURCES_KEY]
    assert yaml.safe_load(shipped) == yaml.safe_load(
        (project / "examples" / "devices" / "resources.yaml").read_text()
    )
    assert [one.name for one in parse_resources(shipped).resources] == ["ibm_fez", "rigetti_ankaa"]


def test_kind_runs_the_kubernetes_that_the_scheduler_is_of(project: Path, objects: Objects) -> None:
    kind = yaml.safe_load((project / "deploy" / "kind-config.yaml").read_text())
    roles = [node["role"] for node in kind["nodes"]]
    assert roles == ["control-plane", "worker", "worker"]
    versions = {node["image"].partition(":v")[2].rpartition(".")[0] for node in kind["nodes"]}
    scheduler = container(objects, "kube-scheduler")["image"].partition(":v")[2].rpartition(".")[0]
    assert versions == {scheduler}
    assert kind["runtimeConfig"] == {"scheduling.k8s.io/v1alpha2": "true"}


def test_images_of_others_are_named_by_digest(
    project: Path, objects: dict[tuple[str, str], Manifest]
) -> None:
    kind = yaml.safe_load((project / "deploy" / "kind-config.yaml").read_text())
    images = {node["image"] for node in kind["nodes"]}
    for (what, _), item in objects.items():
        if what == "Deployment":
            images |= {one["image"] for one in item["spec"]["template"]["spec"]["containers"]}
    ours = {f"fluence-extender:{__version__}"}
    assert images > ours
    assert [image for image in images - ours if not re.search(r":v[\d.]+@sha256:[0-9a-f]{64}$", image)] == []


def test_doctor_looks_for_each_policy_that_is_deployed(objects: Objects) -> None:
    deployed = {(kind.lower(), name) for kind, name in objects if "AdmissionPolicy" in kind}
    assert deployed == {
        (part, f"fluence-{name}")
        for kind, names in POLICIES.items()
        for name in names
        for part in (kind, f"{kind}binding")
    }


def test_workflows_name_their_actions_by_commit() -> None:
    texts = [path.read_text() for path in (Path(__file__).parents[3] / ".github/workflows").iterdir()]
    used = [one for text in texts for one in re.findall(r"uses: (\S+)", text)]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []
