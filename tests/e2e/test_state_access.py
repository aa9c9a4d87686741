"""What strangers see of the state API: users of one namespace, forged headers, tokens of other audiences, an outage."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fluence_extender.http.listeners.gate import REMEMBERED
from tests.e2e.harness import Cluster, Manifest, Namespace, start_api_server, wait_for
from tests.e2e.installation import Installation
from tests.e2e.plugin import Plugin, user_shell
from tests.e2e.proxied import AGGREGATED, OTHERS, PROXY, behind_proxy
from tests.e2e.service import Fluence
from tests.e2e.workloads import gang
from tests.localcluster import Api, ApiError, ControlPlane
from tests.localcluster.stack import unverified

RBAC = "rbac.authorization.k8s.io/v1"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module", autouse=True)
def exposed(installation: Installation) -> Iterator[None]:
    """The service is exposed as deploy/ exposes it while this module runs."""
    with behind_proxy(installation):
        yield


@pytest.fixture
def user(control_plane: ControlPlane, cluster: Cluster, namespace: Namespace) -> Iterator[Path]:
    """The kubeconfig of a user with the role ``edit`` in the test's namespace only. It has a client certificate."""
    name = f"anna-{namespace.name}"
    subjects = [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]
    cluster.api.apply(
        bound("RoleBinding", "edit", name, subjects)
        | {"metadata": {"name": name, "namespace": namespace.name}}
    )
    cluster.api.apply(bound("ClusterRoleBinding", "fluence-simulate", name, subjects))
    yield control_plane.kubeconfig_for(name)
    cluster.api.delete(f"{BINDINGS}/clusterrolebindings/{name}")


def bound(kind: str, role: str, name: str, subjects: list[Manifest]) -> Manifest:
    """A binding of a ClusterRole."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": reference,
        "subjects": subjects,
    }


def seen(api: Api, path: str) -> Manifest:
    """What a user sees through the API server, once his rights are in force."""
    return wait_for(lambda: api.get(f"{AGGREGATED}/{path}"), what=f"the right to ask for {path}")


def refusal(api: Api, path: str) -> ApiError:
    with pytest.raises(ApiError) as refused:
        api.get(path)
    return refused.value


def answer_of(installation: Installation, path: str, **headers: str) -> tuple[int, Any]:
    """The status and the document that the service itself sends."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{installation.stack.api_url}{path}", headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=30, context=unverified()) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.usefixtures("gangs")
def test_user_of_one_namespace_sees_his_gangs_and_counts_of_others(
    user: Path, namespace: Namespace, fluence: Fluence
) -> None:
    api = Api(user)
    found = wait_for(
        lambda: (one := seen(api, "gangs"))["items"] and one, what="the user's rights to be in force"
    )
    assert [(one["namespace"], one["name"]) for one in found["items"]] == [(namespace.name, "mine")]
    assert found["metadata"]["hidden"] == 1
    held = seen(api, "allocations")
    assert {one["namespace"] for one in held["items"]} == {namespace.name}
    assert held["metadata"]["hidden"] == 2
    for text in (found, held, seen(api, f"gangs/{namespace.name}/mine"), seen(api, "backends")):
        assert "secret" not in json.dumps(text)
    theirs = refusal(api, f"{AGGREGATED}/gangs/{OTHERS}/secret")
    assert (theirs.status, theirs.message.partition(";")[0]) == (
        403,
        "you may not list pods in namespace default",
    )
    for path, right in (("nodes", "list nodes"), ("graph", "list nodes"), ("metrics", "get /metrics")):
        refused = refusal(api, f"{AGGREGATED}/{path}")
        assert (refused.status, refused.message.partition(";")[0]) == (403, f"you may not {right}")
    assert len(fluence.gangs()) == 2
    api.close()


@pytest.mark.usefixtures("gangs")
def test_every_question_of_the_plugin_has_an_answer_or_a_clear_message(
    user: Path, namespace: Namespace, tmp_path: Path
) -> None:
    shell = user_shell(user, namespace.name, tmp_path)
    wait_for(lambda: "mine" in shell.fluence("jobs").stdout, what="the user's rights to be in force")
    everywhere = shell.fluence("jobs", "-A")
    assert [line.split()[1] for line in everywhere.stdout.splitlines()[1:]] == ["mine"]
    assert "1 more are in namespaces whose pods you may not list" in everywhere.stderr
    assert "gang" in shell.fluence("why", "mine").stdout
    assert shell.fluence("top", "jobs").stdout.split()[6:] != []
    assert shell.fluence("backends").returncode == 0
    for words in (("top",), ("graph",), ("graph", "--jgf")):
        ended = shell.fluence(*words)
        assert ended.returncode == 1
        assert ended.stderr == "error: you may not list nodes; an administrator grants it with RBAC\n"
    (waits, *_) = gang("wait", 1, cpu="64")
    namespace.create(waits)
    shown = wait_for(
        lambda: one if "unsatisfiable" in (one := shell.fluence("why", "wait")).stdout else None,
        what="the reason of the gang",
    )
    assert "what is free isn't shown: you may not list nodes" in shown.stderr
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(waits))
    simulated = shell.fluence("simulate", "-f", str(manifest))
    assert (simulated.returncode, "doesn't fit now" in simulated.stdout) == (3, True), simulated
    doctor = shell.fluence("doctor")
    assert "ok       service    answers" in doctor.stdout, doctor
    assert "unknown  nodes      the service doesn't show you nodes: you may not list them" in doctor.stdout
    assert "unknown  drift      the service doesn't show you metrics" in doctor.stdout
    assert "Traceback" not in doctor.stderr


def test_user_without_the_role_is_told_who_can_help(
    control_plane: ControlPlane, namespace: Namespace, tmp_path: Path
) -> None:
    shell: Plugin = user_shell(control_plane.kubeconfig_for("nobody"), namespace.name, tmp_path)
    refused = shell.fluence("jobs")
    assert refused.returncode == 1
    assert (
        "kubectl create clusterrolebinding fluence-view --clusterrole=fluence-view --user=YOU"
        in refused.stderr
    )


@pytest.mark.parametrize("path", ["/v1/gangs", "/v1/nodes", "/metrics", f"{AGGREGATED}/gangs"])
def test_forged_names_without_the_front_proxys_certificate_are_refused(
    path: str, installation: Installation
) -> None:
    forged = {"X_Remote_User": "admin", "X_Remote_Group": "system:masters"}
    status, told = answer_of(installation, path, **forged)
    assert (status, "names no user" in told["message"]) == (401, True)


def test_clients_certificate_of_another_authority_does_not_make_a_front_proxy(
    installation: Installation, control_plane: ControlPlane, tmp_path: Path
) -> None:
    document = yaml.safe_load(control_plane.kubeconfig_for("mallory").read_text())
    holder = document["users"][0]["user"]
    files = tmp_path / "client.crt", tmp_path / "client.key"
    for file, key in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
        file.write_bytes(base64.b64decode(holder[key]))
    context = unverified()
    context.load_cert_chain(*files)
    request = urllib.request.Request(
        f"{installation.stack.api_url}/v1/gangs", headers={"X-Remote-User": "admin"}
    )
    # Refused in the handshake, or answered as to anyone without a name.
    with pytest.raises(OSError) as refused, urllib.request.urlopen(request, timeout=30, context=context):
        pass
    assert not isinstance(refused.value, urllib.error.HTTPError) or refused.value.code == 401


def test_proxy_to_services_answers_probes_and_says_how_to_ask_for_more(cluster: Cluster) -> None:
    assert cluster.api.get(f"{PROXY}/healthz")["text"] == "ok\n"
    refused = refusal(cluster.api, f"{PROXY}/v1/gangs")
    assert (refused.status, "kubectl fluence" in refused.message) == (401, True)


def test_token_of_another_audience_is_refused(
    cluster: Cluster, namespace: Namespace, installation: Installation
) -> None:
    namespace.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus"}})
    subjects = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace.name}]
    name = f"metrics-{namespace.name}"
    cluster.api.apply(bound("ClusterRoleBinding", "fluence-metrics", name, subjects))
    path = f"/api/v1/namespaces/{namespace.name}/serviceaccounts/prometheus/token"

    def token(**spec: object) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(cluster.api.request("POST", path, body)["status"]["token"])

    try:
        status, told = answer_of(
            installation, "/v1/gangs", Authorization=f"Bearer {token(audiences=['vault'])}"
        )
        assert (status, "another audience" in told["message"]) == (401, True)
        own = token()
        status, told = answer_of(installation, "/v1/gangs", Authorization=f"Bearer {own}")
        lacks = "you may not list gangs.fluence.flux-framework.org"
        assert (status, told["message"].partition(";")[0]) == (403, lacks)

        def scraped() -> bool:
            url = f"{installation.stack.api_url}/metrics"
            request = urllib.request.Request(url, headers={"Authorization": f"Bearer {own}"})
            with urllib.request.urlopen(request, timeout=30, context=unverified()) as answer:
                text = answer.read().decode()
            return "fluence_leader 1.0" in text and namespace.name not in text

        time.sleep(REMEMBERED)
        assert wait_for(scraped, what="Prometheus to get the metrics")
    finally:
        cluster.api.delete(f"{BINDINGS}/clusterrolebindings/{name}")


def test_api_servers_certificate_check_holds_through_the_api_service(cluster: Cluster) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.fluence.flux-framework.org"
    found = cluster.api.get(path)
    assert found["spec"]["caBundle"]
    assert "insecureSkipTLSVerify" not in found["spec"]
    (available,) = [one for one in found["status"]["conditions"] if one["type"] == "Available"]
    assert available["status"] == "True"
    assert cluster.api.get(AGGREGATED)["resources"] == []


def test_while_the_api_server_is_away_decisions_expire(
    cluster: Cluster, installation: Installation, fluence: Fluence, namespace: Namespace
) -> None:
    document = yaml.safe_load(installation.plane.kubeconfig.read_text())
    headers = {"Authorization": f"Bearer {document['users'][0]['user']['token']}"}
    assert answer_of(installation, "/v1/gangs", **headers)[0] == 200
    server = installation.plane.component("kube-apiserver")
    # A decision that was remembered before may expire while the server stops by itself.
    server.kill()
    try:
        assert answer_of(installation, "/v1/gangs", **headers)[0] == 200
        time.sleep(REMEMBERED)
        status, told = answer_of(installation, "/v1/gangs", **headers)
        assert (status, "the API server can't be asked" in told["message"]) == (503, True)
    finally:
        start_api_server(installation.plane)
    wait_for(lambda: answer_of(installation, "/v1/gangs", **headers)[0] == 200, what="the service to answer")
