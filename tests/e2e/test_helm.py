"""The Helm chart on a control plane of its own: an upgrade with gangs that run and wait, and a removal without a trace.

There is no earlier release, so the earlier version is the chart as it is, but for what upgrades have to deal with: an
object more, an object less, another configuration of kube-scheduler, and definitions without a field.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from fluence_extender.identity.registration import is_ours
from fluence_extender.model.names import DEFAULT_NAMESPACE, DOMAIN, QUEUE_VERSION
from tests.e2e.harness import LONGEST, Manifest, Namespace, documents, node_of, wait_for
from tests.e2e.history import History, recorded
from tests.e2e.installation import ENGINE, classed
from tests.e2e.service import Fluence, admin_token, over_http
from tests.e2e.test_own_namespace import kubectl
from tests.e2e.workloads import gang, indexed_job, ours
from tests.helm import CHART, helm
from tests.localcluster import ControlPlane
from tests.localcluster.stack import Stack

CRDS = CHART / "crds" / "queues.yaml"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.fluence.flux-framework.org"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
QUEUE = "/apis/fluence.flux-framework.org/v1alpha1/queues/default"
CONFIGMAPS = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps"
SHARED = (
    "/apis/apiregistration.k8s.io/v1/apiservices/v1.fluence.flux-framework.org",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fluence-webhook",
    f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/secrets/fluence-state-ca",
    f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/secrets/fluence-webhook-ca",
)
"""What the service and the webhook write themselves, if it is theirs."""

PASSING = ("endpoints", "events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses")
RELEASE = "fluence"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A cluster on which nothing of ours was ever installed."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The chart of the earlier version."""
    chart = tmp_path / "earlier"
    shutil.copytree(CHART, chart)
    base = chart / "manifests" / "base"
    more = documents(base / "gate.yaml")
    for one in more:
        one["metadata"] = {"name": "fluence-mark"}
    more[1]["spec"]["policyName"] = "fluence-mark"
    (base / "mark.yaml").write_text(yaml.safe_dump_all(more))
    kustomization = yaml.safe_load((base / "kustomization.yaml").read_text())
    kustomization["resources"] = [*kustomization["resources"], "mark.yaml"]
    kustomization["resources"].remove("intake.yaml")
    (base / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    config = base / "scheduler.yaml"
    config.write_text(config.read_text().replace("podMaxBackoffSeconds: 5", "podMaxBackoffSeconds: 10"))
    definitions = documents(chart / "crds" / "queues.yaml")
    schema = definitions[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["stop"]
    (chart / "crds" / "queues.yaml").write_text(yaml.safe_dump_all(definitions))
    return chart


@pytest.fixture
def start(plane: ControlPlane) -> Iterator[Callable[[str], Stack]]:
    """Starts pods of the Deployment, with the rights that the release gives them."""
    with ExitStack() as running:

        def start(name: str) -> Stack:
            account = plane.kubeconfig_for_service_account(DEFAULT_NAMESPACE, "fluence")
            pod = Stack(
                plane,
                kubeconfig=account,
                arguments=("--engine", ENGINE),
                hostname=name,
                lease=f"{DEFAULT_NAMESPACE}/fluence",
            )
            running.callback(pod.stop)
            pod.start()
            return pod

        yield start


@pytest.fixture
def namespace(plane: ControlPlane) -> Namespace:
    """The users' namespace, with a node for one of two gangs."""
    plane.add_nodes(1, cpu="4")
    plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "users"}})
    return Namespace("users", plane.api)


def run(plane: ControlPlane, *arguments: str) -> None:
    """Have Helm do something that succeeds."""
    done = helm(*arguments, kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr


def exists(plane: ControlPlane, path: str) -> bool:
    """Whether an object is there."""
    collection, _, name = path.rpartition("/")
    return name in {one["metadata"]["name"] for one in plane.api.get(collection)["items"]}


def everything(plane: ControlPlane) -> set[str]:
    """All objects of the cluster, but those that come and go by themselves."""
    kinds = kubectl(plane, "api-resources", "--verbs=list", "--cached=false", "-o", "name").split()
    listed = ",".join(sorted(set(kinds) - set(PASSING)))
    form = "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}"
    return set(kubectl(plane, "get", listed, "--all-namespaces", "-o", form).splitlines())


def state_of(plane: ControlPlane, pod: Stack) -> Fluence:
    """The state API of one pod."""
    return Fluence(over_http(lambda: pod.api_url, admin_token(plane)))


def places(namespace: Namespace) -> dict[str, str]:
    """The nodes of the pods that have one, by uid."""
    return {one["metadata"]["uid"]: node_of(one) for one in namespace.pods() if node_of(one)}


def test_upgrade_keeps_what_runs_and_waits_and_removal_leaves_the_kinds_alone(
    plane: ControlPlane, namespace: Namespace, earlier: Path, start: Callable[[str], Stack]
) -> None:
    before = everything(plane)
    run(plane, "install", RELEASE, str(earlier), "--set", "queue.maxDuration=1d")
    assert all(is_ours(plane.api.get(path)) for path in SHARED)
    assert exists(plane, f"{POLICIES}/fluence-mark")
    wait_for(lambda: classed(plane.api), what="the policy to be in force")
    old = start("old")
    with recorded(namespace) as history:
        upgraded_with_gangs(plane, namespace, history, old, start)
    assert plane.api.get(QUEUE)["spec"] == {"maxDuration": "1d", "stop": "None"}
    removed(plane, before | {"Namespace /users"})


def upgraded_with_gangs(
    plane: ControlPlane,
    namespace: Namespace,
    history: History,
    old: Stack,
    start: Callable[[str], Stack],
) -> None:
    """Upgrade with a gang that runs, and a gang and a Job that wait; then all get their places, each once."""
    namespace.create(*gang("runs", 4, cpu="1"))
    namespace.wait_until_bound(4)
    namespace.create(*gang("waits", 4, cpu="1"))
    # After a restart, names order what was submitted in the same second.
    time.sleep(1.1)
    namespace.create(indexed_job("job", ours("job", cpu="1"), 3))
    state_of(plane, old).wait_for_reason(namespace.name, "waits", "busy")
    running, configurations = places(namespace), scheduler_configurations(plane)

    applied = kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    assert applied.count("serverside-applied") == 2
    settings = ("--reset-then-reuse-values", "--set", "queue.stop=None")
    run(plane, "upgrade", RELEASE, str(CHART), *settings)
    assert not exists(plane, f"{POLICIES}/fluence-mark")
    assert exists(plane, f"{POLICIES}/fluence-intake")
    assert "stop" in queue_fields(plane)
    assert len(scheduler_configurations(plane)) == 1
    assert not scheduler_configurations(plane) & configurations
    assert all(is_ours(plane.api.get(path)) for path in SHARED)

    new = start("new")
    old.stop()
    state_of(plane, new).wait_for_reason(namespace.name, "waits", "busy")
    assert places(namespace) == running
    for number in range(4):
        namespace.delete_pod(f"runs-{number}")
    state_of(plane, new).wait_for_state(namespace.name, "waits", "bound")
    for number in range(4):
        namespace.delete_pod(f"waits-{number}")
    namespace.wait_until_bound(3)
    history.wait(11)


def queue_fields(plane: ControlPlane) -> Manifest:
    """The fields of a Queue's spec, as the cluster knows them."""
    (version,) = plane.api.get(DEFINITION)["spec"]["versions"]
    fields: Manifest = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields


def scheduler_configurations(plane: ControlPlane) -> set[str]:
    """The names of the ConfigMaps with kube-scheduler's configuration."""
    names = {one["metadata"]["name"] for one in plane.api.get(CONFIGMAPS)["items"]}
    return {name for name in names if name.startswith("fluence-scheduler-config-")}


def removed(plane: ControlPlane, before: set[str]) -> None:
    """Remove the release, while its pods run, and then the kinds; nothing is left that wasn't there before."""
    plane.api.delete("/api/v1/namespaces/users")
    run(plane, "uninstall", RELEASE, "--wait")
    kinds = {f"CustomResourceDefinition /{one['metadata']['name']}" for one in documents(CRDS)}
    # By which the API server serves the kinds.
    kinds.add(f"APIService /{QUEUE_VERSION}.{DOMAIN}")

    def left() -> set[str]:
        try:
            return {one for one in everything(plane) - before if " users/" not in one}
        except (subprocess.SubprocessError, AssertionError):
            return {"kubectl failed"}

    wait_for(lambda: left() == kinds, LONGEST, "the kinds alone to be left", left)
    kubectl(plane, "delete", "-f", str(CRDS))
    wait_for(lambda: not left(), LONGEST, "nothing to be left", left)
