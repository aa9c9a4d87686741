"""A cluster is listed once, or the reason why it can't be listed is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluence_extender.cluster import watch
from fluence_extender.cluster.errors import BadKubeconfig, ClusterError, ResourcesFileError
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.cluster.watch import list_once
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.unit.cluster.fake_api_server import FakeApiServer, refuse

NODES, PODS, JOBS = "/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"
CONFIGMAPS = "/api/v1/namespaces/fluence/configmaps"


@pytest.fixture
async def cluster(server: FakeApiServer) -> FakeApiServer:
    for path in (NODES, PODS, JOBS, CONFIGMAPS):
        server.objects[path] = {}
    await server.put(NODES, "n0")
    await server.put_pod("p0")
    return server


async def test_requested_kinds_are_listed(cluster: FakeApiServer, kubeconfig: Path) -> None:
    listed = await list_once(str(kubeconfig), "fluence", Node, Pod)
    assert {(type(one), one.name) for one in listed if isinstance(one, Node | Pod)} == {
        (Node, "n0"),
        (Pod, "p0"),
    }
    assert len(listed) == 2


async def test_resources_file_is_listed_too(cluster: FakeApiServer, kubeconfig: Path, tmp_path: Path) -> None:
    (tmp_path / "resources.yaml").write_text("resources: []\n")
    listed = await list_once(str(kubeconfig), tmp_path / "resources.yaml", ResourcesFile)
    assert [one.text for one in listed if isinstance(one, ResourcesFile)] == ["resources: []\n"]


async def test_reason_why_the_cluster_cannot_be_listed_is_reported(
    cluster: FakeApiServer, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LIST_ONCE_LIMIT", 0.3)
    cluster.faults["list", NODES].extend([refuse(403, "no nodes for you")] * 100)
    with pytest.raises(ClusterError, match=r"not listed within 0\.3 s: .*no nodes for you"):
        await list_once(str(kubeconfig), "fluence", Node)


async def test_missing_files_are_named(kubeconfig: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourcesFileError, match=r"none\.yaml"):
        await list_once(str(kubeconfig), tmp_path / "none.yaml", ResourcesFile)
    with pytest.raises(BadKubeconfig, match="nowhere"):
        await list_once(str(tmp_path / "nowhere"), "fluence", Node)
