"""kubectl fluence's questions, with the real kubectl, through the real API server."""

from __future__ import annotations

import json
import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.e2e.admitted import REGISTRATION
from tests.e2e.harness import Cluster, Manifest, Namespace, pod, wait_for
from tests.e2e.installation import Installation
from tests.e2e.nodes import NodeFactory
from tests.e2e.plugin import ROOT, SCRIPTS, Plugin, user_shell
from tests.e2e.proxied import behind_proxy
from tests.e2e.service import Fluence
from tests.e2e.workloads import QPU, RESOURCES, gang, ours
from tests.localcluster import Api, ApiError

DOCUMENTATION = ROOT / "docs" / "kubectl.md"
QUESTIONS = "## Questions\n"
REWRITE = "FLUENCE_REWRITE_DOCS"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/fluence-system/leases"
OFFERED = "offers are from the service (configmaps"
SESSION = timedelta(minutes=10)
"""What the questions of one test take at most; a Lease that was renewed then is fresh for all of them."""
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture(scope="module", autouse=True)
def proxied(installation: Installation) -> Iterator[None]:
    """The service is reached through the API server while this module runs."""
    with behind_proxy(installation):
        yield


@pytest.fixture
def plugin(fluence: Fluence, cluster: Cluster, namespace: Namespace, tmp_path: Path) -> Plugin:
    """A user's shell in the test's namespace."""
    return user_shell(cluster.kubeconfig, namespace.name, tmp_path)


@pytest.fixture
def scene(
    fluence: Fluence, namespace: Namespace, nodes: NodeFactory, resources: Callable[[str], None]
) -> None:
    """Two nodes of 4 cores and two devices; a gang of two runs, one of four waits, somebody else uses a core."""
    nodes(2, names=["n1", "n2"], cpu="4", memory="8Gi", labels={"topology.kubernetes.io/zone": "z1"})
    resources(RESOURCES)
    wait_for(lambda: len(fluence.items("/v1/backends?usable=true")) == 2, what="the devices to be there")
    wait_for(lambda: len(fluence.items("/v1/nodes?schedulable=true")) == 2, what="the nodes to be there")
    namespace.create(pod("agent", cpu="1", memory="1Gi"))
    namespace.bind("agent", "n2")
    first, second = gang("train", 2, cpu="1500m", memory="1Gi")
    first["spec"]["containers"][0]["resources"]["limits"] = {QPU: "1"}
    first["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    second["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    namespace.create(first, second)
    fluence.wait_for_state(namespace.name, "train", "bound")
    namespace.create(*gang("wide", 4, cpu="2", memory="1Gi"))
    fluence.wait_for_reason(namespace.name, "wide", "busy")


@pytest.mark.usefixtures("scene")
def test_every_question_is_answered_through_the_api_server(plugin: Plugin, namespace: Namespace) -> None:
    shown = plugin.fluence("jobs")
    assert shown.returncode == 0, shown
    assert [line.split()[:3] for line in shown.stdout.splitlines()[1:]] == [
        ["train", "bound", "2/2"],
        ["wide", "waiting", "0/4"],
    ]
    why = plugin.fluence("why", "pod/wide-3")
    assert f"gang {namespace.name}/wide: waiting" in why.stdout, why
    assert "busy: " in why.stdout
    assert "4 members of 2 cpu, 1Gi memory" in why.stdout
    tree = json.loads(plugin.fluence("graph", "-o", "json").stdout)
    assert tree["cluster"]["allocatable"]["cpu"] == 8
    assert tree["cluster"]["held"]["cpu"] == 3
    assert tree["cluster"]["others"]["cpu"] == 1
    graph = json.loads(plugin.fluence("graph", "--jgf").stdout)
    assert {"n1", "n2"} <= {one["metadata"]["name"] for one in graph["graph"]["nodes"]}
    assert sorted(plugin.fluence("backends", "-o", "name").stdout.split()) == [
        "backend/ibm_fez",
        "backend/rigetti_ankaa",
    ]
    top = yaml.safe_load(plugin.fluence("top", "jobs", "-o", "yaml").stdout)
    assert [(one["name"], one["core"], one["pods"]) for one in top["items"]] == [("train", 3.0, 2)]


def test_offers_come_from_the_service_where_the_config_map_cannot_be_read(
    plugin: Plugin,
    scene: None,
    cluster: Cluster,
    service_account: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    user = service_account("scientist")
    bind(cluster.api, "fluence-questions-only", "fluence-questions-only", user)
    manifest = pod("quantum", scheduler="fluence", cpu="1")
    manifest["metadata"]["annotations"]["fluence.flux-framework.org/select-policy"] = "require:vendor=rigetti"
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(manifest))
    try:
        ended = wait_for(
            lambda: (
                found
                if OFFERED in (found := plugin.fluence("select", "-f", str(file), kubeconfig=user)).stderr
                else None
            ),
            what="the rights to be granted",
        )
    finally:
        unbind(cluster.api, "fluence-questions-only")
    assert ended is not None
    assert "require-backend: rigetti_ankaa" in ended.stdout
    assert ended.returncode == 0, ended


def bind(api: Api, name: str, role: str, kubeconfig: Path) -> None:
    """Give a service account's kubeconfig a role; ``fluence-questions-only`` is made for it."""
    if role == "fluence-questions-only":
        rule = {"apiGroups": ["fluence.flux-framework.org"], "resources": ["*"], "verbs": ["get", "list"]}
        api.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": role},
                "rules": [rule],
            }
        )
    namespace, account = account_of(kubeconfig)
    api.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }
    )


def unbind(api: Api, name: str) -> None:
    with suppress(ApiError):
        api.delete(f"{BINDINGS}/{name}")


def account_of(kubeconfig: Path) -> tuple[str, str]:
    """The namespace and name of the service account whose token a kubeconfig has."""
    ended = subprocess.run(
        ["kubectl", "--kubeconfig", str(kubeconfig), "auth", "whoami", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    _, _, namespace, name = json.loads(ended.stdout)["status"]["userInfo"]["username"].split(":")
    return namespace, name


def test_the_role_lets_a_user_ask_this_service_and_nothing_else(
    plugin: Plugin, scene: None, cluster: Cluster, service_account: Callable[[str], Path]
) -> None:
    user = service_account("viewer")
    refused = plugin.fluence("top", kubeconfig=user)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: you may not ask the service fluence-system/fluence; ")
    assert "--clusterrole=fluence-view" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    bind(cluster.api, "fluence-view", "fluence-view", user)
    try:
        wait_for(
            lambda: plugin.fluence("jobs", kubeconfig=user).returncode == 0, what="the rights to be granted"
        )
        other = plugin.run(
            "get", "--raw", "/api/v1/namespaces/fluence-system/services/other/proxy/", kubeconfig=user
        )
        post = plugin.run("create", "--raw", AGGREGATED_SIMULATE, "-f", "/dev/null", kubeconfig=user)
        assert "Forbidden" in other.stderr
        assert "Forbidden" in post.stderr
        doctor = plugin.fluence("doctor", kubeconfig=user)
        assert "unknown  rights     you may not ask what the service may do" in doctor.stdout, doctor
    finally:
        unbind(cluster.api, "fluence-view")


AGGREGATED_SIMULATE = "/apis/fluence.flux-framework.org/v1/simulate"


def test_doctor_finds_what_is_missing_and_says_what_to_do(
    plugin: Plugin, scene: None, cluster: Cluster
) -> None:
    with lease(cluster.api, datetime.now(UTC) + SESSION):
        ended = plugin.fluence("doctor", "-o", "json")
    findings = {one["check"]: one for one in json.loads(ended.stdout)["items"]}
    statuses = {name: one["status"] for name, one in findings.items()}
    assert statuses == {
        "cluster": "ok",
        "service": "ok",
        "versions": "ok",
        "replicas": "fault",
        "scheduler": "ok",
        "policies": "warning",
        "queues": "ok",
        "webhook": "warning",
        "rights": "ok",
        "nodes": "ok",
        "drift": "ok",
        "resources": "ok",
        "gangs": "ok",
    }, ended
    assert findings["replicas"]["fix"] == "kubectl apply -k deploy"
    assert ended.returncode == 1
    with lease(cluster.api, datetime(2026, 1, 1, tzinfo=UTC)):
        ended = plugin.fluence("doctor")
    assert re.search(
        r"fault    scheduler  the leader fluence-0_4c7b last renewed its Lease \d+d ago", ended.stdout
    ), ended.stdout


def test_doctor_finds_a_webhook_that_does_not_answer(
    plugin: Plugin, scene: None, cluster: Cluster, namespace: Namespace
) -> None:
    registration = yaml.safe_load((ROOT / "deploy" / "webhook" / "registration.yaml").read_text())
    access = yaml.safe_load(plugin.kubeconfig.read_text())["clusters"][0]["cluster"]
    bundle = access.get("certificate-authority-data")
    bundle = bundle or b64encode(Path(access["certificate-authority"]).read_bytes()).decode()
    for hook in registration["webhooks"]:
        hook["clientConfig"] = {"url": "https://127.0.0.1:1/mutate", "caBundle": bundle}
        hook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}
    cluster.api.apply(registration)
    try:
        ended = wait_for(
            lambda: (
                found
                if "fault    webhook" in (found := plugin.fluence("doctor", "-n", namespace.name)).stdout
                else None
            ),
            what="the API server to know the webhook",
        )
    finally:
        cluster.api.delete(REGISTRATION)
    assert ended is not None
    assert "pods that ask for devices are refused: failed calling webhook" in ended.stdout, ended
    assert "see that its process answers at https://127.0.0.1:1/mutate" in ended.stdout


class lease:  # noqa: N801 - reads as a statement
    """While this lasts, kube-scheduler's Lease was renewed at a time."""

    def __init__(self, api: Api, renewed: datetime) -> None:
        self._api = api
        self._lease: Manifest = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "fluence", "namespace": "fluence-system"},
            "spec": {
                "holderIdentity": "fluence-0_4c7b",
                "leaseDurationSeconds": 15,
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }

    def __enter__(self) -> None:
        self._api.apply(self._lease)

    def __exit__(self, *_: object) -> None:
        self._api.delete(f"{LEASE}/fluence")


def test_a_watch_follows_a_gang_until_it_is_gone(plugin: Plugin, scene: None, namespace: Namespace) -> None:
    path = os.pathsep.join([SCRIPTS, os.environ["PATH"]])
    watching = subprocess.Popen(
        ["kubectl", "fluence", "jobs", "-w"],
        env={**os.environ, "PATH": path, "KUBECONFIG": str(plugin.kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        head = [watching.stdout.readline().split()[0] for _ in range(3)]
        assert head == ["NAME", "train", "wide"]
        namespace.create(ours("late", cpu="100m"))
        # Lines about others may come in between.
        assert "bound" in (line.split()[1] for line in watching.stdout if line.startswith("late "))
        namespace.delete_pod("late")
        assert "late is gone\n" in watching.stdout
    finally:
        watching.kill()
        watching.wait()
        assert watching.stdout is not None
        watching.stdout.close()


def test_an_api_server_that_is_not_there_is_told(plugin: Plugin, scene: None, tmp_path: Path) -> None:
    document = yaml.safe_load(plugin.kubeconfig.read_text())
    for one in document["clusters"]:
        one["cluster"]["server"] = "https://127.0.0.1:1"
    gone = tmp_path / "gone"
    gone.write_text(yaml.safe_dump(document))
    ended = plugin.fluence("jobs", kubeconfig=gone)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: the cluster can't be asked: ")
    assert ended.stderr.endswith("check it with kubectl cluster-info\n")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.usefixtures("scene")
def test_recorded_questions_of_the_documentation_are_true(
    plugin: Plugin, namespace: Namespace, cluster: Cluster
) -> None:
    """Each command below "Questions" prints what stands there; FLUENCE_REWRITE_DOCS=1 writes it anew."""
    first, heading, text = DOCUMENTATION.read_text().partition(QUESTIONS)
    with lease(cluster.api, datetime.now(UTC) + SESSION):
        recorded = re.sub(
            r"(?<=```console\n).*?(?=```)",
            lambda block: session(plugin, block.group(), namespace.name),
            text,
            flags=re.S,
        )
    assert recorded.count("$ kubectl fluence") >= 15
    if os.environ.get(REWRITE):
        DOCUMENTATION.write_text(first + heading + recorded)
        return
    assert timeless(recorded) == timeless(text)


def session(plugin: Plugin, block: str, namespace: str) -> str:
    """A console block with what its commands print now, in a namespace called default."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    shown = "".join(f"{command}\n{plugin.shell(command.removeprefix('$ '))}" for command in commands)
    return re.sub(
        rf"{namespace}(\S*)( {{3,}}|)",
        lambda found: (
            f"default{found[1]}" + (found[2] and found[2] + " " * (len(namespace) - len("default")))
        ),
        shown,
    )


def timeless(text: str) -> str:
    """A text in which times, and so the order of histories, and the widths of columns don't count."""
    lines = [line for line in text.splitlines() if not re.match(r" +\d+[smhd] ago ", line)]
    return re.sub(r" +", " ", re.sub(r"\b\d+[smhd]\b(?= )", "5s", "\n".join(lines)))
