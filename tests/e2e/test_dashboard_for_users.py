"""The dashboard in the cluster: two users in real browsers, each with his own rights on a real API server."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from fluence_extender.http.listeners.gate import REMEMBERED
from tests.e2e.harness import Cluster, Manifest, Namespace, documents, wait_for
from tests.e2e.installation import BASE, Installation
from tests.e2e.proxied import OTHERS, behind_proxy
from tests.e2e.test_state_access import BINDINGS, bound
from tests.localcluster import ControlPlane
from tests.network.browser import chromium

LIMIT = 30_000
SHIPPED = BASE.parent / "dashboard"


@pytest.fixture(scope="module", autouse=True)
def exposed(installation: Installation) -> Iterator[None]:
    with behind_proxy(installation):
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the dashboard is, which has no credential and knows the API server's authority alone."""
    kubeconfig = yaml.safe_load(control_plane.kubeconfig.read_text())
    authority = tmp_path_factory.mktemp("api-server") / "ca.crt"
    data = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
    authority.write_bytes(base64.b64decode(data))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "fluence_extender", "dashboard", f"--port={port}"]
    command += [f"--api-server={control_plane.url}", f"--certificate-authority={authority}"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command) as process:
        try:
            wait_for(lambda: status(url, "/healthz") == 200, what="the dashboard to answer")
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def status(url: str, path: str, token: str = "") -> int:
    request = urllib.request.Request(
        url + path, headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def token_of(plane: ControlPlane, cluster: Cluster, namespace: str, name: str) -> tuple[str, Manifest]:
    """A new user with a bearer token, and the subject of bindings for him."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
    cluster.api.apply(account)
    kubeconfig = yaml.safe_load(plane.kubeconfig_for_service_account(namespace, name).read_text())
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return kubeconfig["users"][0]["user"]["token"], subject


def visit(browser: Browser, address: str, token: str, path: str) -> Page:
    """Open a page as the proxy in front of the dashboard asks for it: with the user's token."""
    headers = {"Authorization": f"Bearer {token}"}
    page = browser.new_context(base_url=address, extra_http_headers=headers).new_page()
    page.goto(path)
    return page


@pytest.mark.usefixtures("gangs")
def test_two_users_see_what_each_of_them_may_see(
    browser: Browser,
    address: str,
    control_plane: ControlPlane,
    cluster: Cluster,
    namespace: Namespace,
) -> None:
    anna, her = token_of(control_plane, cluster, namespace.name, "anna")
    boss, his = token_of(control_plane, cluster, namespace.name, "boss")
    edit = bound("RoleBinding", "edit", "anna", [her])
    cluster.api.apply(edit | {"metadata": {"name": "anna", "namespace": namespace.name}})
    views = [f"view-{namespace.name}", f"all-{namespace.name}"]
    cluster.api.apply(bound("ClusterRoleBinding", "fluence-simulate", views[0], [her, his]))
    cluster.api.apply(bound("ClusterRoleBinding", "cluster-admin", views[1], [his]))
    try:
        all_of_it = visit(browser, address, boss, "/gangs")
        for name in (f"{namespace.name}/mine", f"{OTHERS}/secret"):
            expect(all_of_it.locator("#live")).to_contain_text(name, timeout=LIMIT)
        hers = visit(browser, address, anna, "/gangs")
        expect(hers.locator("#live")).to_contain_text(f"{namespace.name}/mine", timeout=LIMIT)
        expect(hers.locator("#live")).to_contain_text("1 more gangs are in namespaces", timeout=LIMIT)
        for path in (
            "/",
            "/queue",
            "/gangs",
            "/nodes",
            "/devices",
            "/search?q=secret",
            f"/gangs/{OTHERS}/secret",
        ):
            hers.goto(path)
            expect(hers.locator("#live")).to_contain_text("1 more gangs are in namespaces", timeout=LIMIT)
            assert f"{OTHERS}/secret-" not in hers.content()
            assert f'href="/gangs/{OTHERS}/secret' not in hers.content()
        hers.goto(f"/gangs/{OTHERS}/secret")
        expect(hers.locator("#live")).to_contain_text(f"you may not list pods in namespace {OTHERS}")
        hers.goto("/nodes")
        expect(hers.locator("#live")).to_contain_text("You may not see: nodes")
        all_of_it.goto("/nodes")
        expect(all_of_it.locator("#live")).not_to_contain_text("You may not see")
        # A withdrawn right counts for pages that are open.
        hers.goto("/gangs")
        expect(hers.locator("#live")).to_contain_text(f"{namespace.name}/mine", timeout=LIMIT)
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace.name}/rolebindings/anna"
        cluster.api.delete(path)
        limit = LIMIT + REMEMBERED * 1000
        expect(hers.locator("#live")).not_to_contain_text(f"{namespace.name}/mine", timeout=limit)
        expect(all_of_it.locator("#live")).not_to_contain_text("can't be reached")
        hers.context.close()
        all_of_it.context.close()
    finally:
        for name in views:
            cluster.api.delete(f"{BINDINGS}/clusterrolebindings/{name}")


def test_who_is_not_named_or_not_known_sees_nothing(
    address: str, control_plane: ControlPlane, cluster: Cluster, namespace: Namespace
) -> None:
    assert status(address, "/gangs") == 401
    stranger, _ = token_of(control_plane, cluster, namespace.name, "stranger")
    for token, text in ((stranger, "You may not ask"), ("forged", "know you")):
        request = urllib.request.Request(f"{address}/gangs", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            shown = answer.read().decode()
        assert text in shown
        assert "/gangs/" not in shown


def test_installation_is_admitted_where_the_standard_restricted_is_enforced(cluster: Cluster) -> None:
    (deployment,) = documents(SHIPPED / "deployment.yaml")
    api = cluster.api
    for file in sorted(SHIPPED.glob("*.yaml")):
        if file.name != "kustomization.yaml":
            for one in documents(file):
                api.apply(one)
    core = "/api/v1/namespaces/fluence-system"
    try:
        selector = "app.kubernetes.io/name=fluence-dashboard"
        # The controller makes its pod, which the namespace's standard admits.
        wait_for(lambda: api.get(f"{core}/pods", labelSelector=selector)["items"], what="the dashboard's pod")
    finally:
        name = deployment["metadata"]["name"]
        api.delete(f"/apis/apps/v1/namespaces/fluence-system/deployments/{name}")
        api.delete(f"/apis/networking.k8s.io/v1/namespaces/fluence-system/networkpolicies/{name}")
        for kind in ("services", "serviceaccounts"):
            api.delete(f"{core}/{kind}/{name}")
