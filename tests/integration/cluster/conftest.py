"""A real control plane, and the account with the least rights that this room needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fluence_extender.cluster.api import open_cluster
from fluence_extender.cluster.connection import connect
from fluence_extender.model.names import DEFAULT_NAMESPACE, RESOURCES_CONFIGMAP
from tests.integration.cluster.lab import ApiLab, Lab, MemoryLab
from tests.localcluster import Api, ControlPlane

ACCOUNT = "extender"
NODES = ("node-0", "node-1")
RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes", "namespaces", "resourcequotas"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/binding", "pods/eviction"], "verbs": ["create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["scheduling.k8s.io"],
        "resources": ["podgroups", "priorityclasses"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [RESOURCES_CONFIGMAP],
        "verbs": ["list", "watch"],
    },
]


@dataclass(frozen=True, slots=True)
class Ground:
    """The control plane, and the kubeconfig of an account that may do what `RIGHTS` says and no more."""

    plane: ControlPlane
    kubeconfig: Path

    @property
    def api(self) -> Api:
        return self.plane.api


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as plane:
        plane.add_nodes(names=NODES, cpu="16")
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
        plane.api.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}, "default"
        )
        plane.api.create({**rbac, "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": RIGHTS})
        plane.api.create(
            {
                **rbac,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": ACCOUNT},
                "roleRef": role,
                "subjects": [subject],
            }
        )
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEFAULT_NAMESPACE}})
        yield Ground(plane, plane.kubeconfig_for_service_account("default", ACCOUNT))


@pytest.fixture(params=["memory", "api"])
async def lab(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """Give the test an embedded cluster, and then the real API server."""
    if request.param == "memory":
        yield MemoryLab()
        return
    ground: Ground = request.getfixturevalue("ground")
    async with connect(str(ground.kubeconfig)) as connection, open_cluster(connection) as cluster:
        made = ApiLab(cluster, ground.api)
        yield made
        await asyncio.to_thread(made.clean)
