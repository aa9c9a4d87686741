"""Credentials are found, loaded, renewed, and refused with a message that says what to do."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest
from kubernetes.aio.config import incluster_config

from fluence_extender.cluster.connection import ApiRequest, connect
from fluence_extender.cluster.credentials import Credentials, Origin, find_origin
from fluence_extender.cluster.errors import BadKubeconfig, Unauthenticated
from tests.unit.cluster.fake_api_server import PODS, FakeApiServer, kubeconfig_text

LIST = ApiRequest("GET", PODS, "list pods")


def test_places_of_the_kubeconfig_are_tried_in_order(tmp_path: Path) -> None:
    option, environment, home = tmp_path / "option", tmp_path / "env", tmp_path / "home"
    usual = home / ".kube" / "config"
    usual.parent.mkdir(parents=True)
    for path in (option, environment, usual):
        path.write_text("")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert find_origin(str(option), {"KUBECONFIG": str(environment), **pod}, home) == Origin(str(option))
    assert find_origin(None, {"KUBECONFIG": str(environment), **pod}, home) == Origin(str(environment))
    assert find_origin(None, pod, home) == Origin()
    assert find_origin(None, {}, home) == Origin(str(usual))


def test_missing_kubeconfig_is_named_with_the_option_that_gave_it(tmp_path: Path) -> None:
    with pytest.raises(BadKubeconfig, match=r"/none.*--kubeconfig.*correct the path"):
        find_origin("/none", {}, tmp_path)
    with pytest.raises(BadKubeconfig, match=r"/none.*KUBECONFIG"):
        find_origin(None, {"KUBECONFIG": "/none"}, tmp_path)
    with pytest.raises(BadKubeconfig, match=r"no cluster to connect to.*Give --kubeconfig"):
        find_origin(None, {}, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "just text",
        "apiVersion: v1\nkind: Config\n",
        "current-context: none\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: c\ncontexts: [{name: c, context: {cluster: missing}}]\nclusters: []\nusers: []\n",
        kubeconfig_text("https://127.0.0.1:1", "{client-certificate: /none.crt, client-key: /none.key}"),
        kubeconfig_text("https://127.0.0.1:1", "{client-certificate-data: '!!', client-key-data: '!!'}"),
        kubeconfig_text("http://127.0.0.1:1", "{exec: {apiVersion: v1, command: /none}}"),
        kubeconfig_text("http://127.0.0.1:1", "{tokenFile: /none}"),
    ],
    ids=[
        "empty",
        "no YAML",
        "text",
        "no context",
        "unknown",
        "no cluster",
        "no file",
        "no key",
        "exec",
        "token",
    ],
)
async def test_unusable_kubeconfig_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(BadKubeconfig, match=str(path)):
        async with connect(str(path)):
            pass


async def test_invalid_certificate_is_refused(tmp_path: Path) -> None:
    rubbish = base64.b64encode(b"rubbish").decode()
    path = tmp_path / "kubeconfig"
    path.write_text(
        kubeconfig_text(
            "https://127.0.0.1:1", f"{{client-certificate-data: {rubbish}, client-key-data: {rubbish}}}"
        )
    )
    with pytest.raises(BadKubeconfig, match="certificate"):
        async with connect(str(path)):
            pass


def write_plugin(folder: Path, token: str) -> str:
    """An exec plugin that prints the token in a file; the user section that calls it."""
    (folder / "token").write_text(token)
    script = folder / "plugin.py"
    reply = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    script.write_text(
        "import json, pathlib\n"
        f"token = pathlib.Path({str(folder / 'token')!r}).read_text()\n"
        f"print(json.dumps({{**{reply!r}, 'status': {{'token': token}}}}))\n"
    )
    api = "client.authentication.k8s.io/v1"
    return json.dumps({"exec": {"apiVersion": api, "command": sys.executable, "args": [str(script)]}})


async def test_expired_exec_token_is_renewed_once_and_the_call_goes_through(
    server: FakeApiServer, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig_text(server.url, write_plugin(tmp_path, "old")))
    server.tokens = {"old"}
    async with connect(str(path)) as connection:
        await connection.call(LIST)
        server.tokens = {"new"}
        (tmp_path / "token").write_text("new")
        await connection.call(LIST)
    assert server.count("list", PODS) == 3


async def test_rotated_token_file_is_read_again(server: FakeApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig_text(server.url, f"{{tokenFile: {token}}}"))
    server.tokens = {"old"}
    async with connect(str(path)) as connection:
        await connection.call(LIST)
        token.write_text("new")
        server.tokens = {"new"}
        await connection.call(LIST)


async def test_credentials_that_stay_wrong_are_an_error_that_says_so(
    server: FakeApiServer, kubeconfig: Path
) -> None:
    server.tokens = {"another"}
    async with connect(str(kubeconfig)) as connection:
        with pytest.raises(Unauthenticated, match=r"list pods.*renew the kubeconfig"):
            await connection.call(LIST)
    assert server.count("list", PODS) == 2


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def test_kubeconfig_that_became_invalid_leaves_the_old_credentials(
    server: FakeApiServer, kubeconfig: Path
) -> None:
    server.tokens = {"secret"}
    async with connect(str(kubeconfig)) as connection:
        write(kubeconfig, "[")
        server.tokens = set()
        with pytest.raises(Unauthenticated):
            await connection.call(LIST)
        server.tokens = {"secret"}
        await connection.call(LIST)
        write(kubeconfig, kubeconfig_text(server.url, "{token: rotated}"))
        server.tokens = {"rotated"}
        await connection.call(LIST)


async def test_service_account_token_is_used_and_renewed(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("old\n")
    authority.write_text("not read here")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    credentials = await Credentials.load(Origin())
    assert credentials.configuration.host == "https://127.0.0.1:1"
    assert await credentials.authorization() == "bearer old"
    token.write_text("new")
    assert await credentials.renew(credentials.generation)
    assert await credentials.authorization() == "bearer new"
    token.unlink()
    assert not await credentials.renew(credentials.generation)
    assert await credentials.authorization() == "bearer new"


async def test_error_for_a_pod_without_a_mounted_token_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    with pytest.raises(BadKubeconfig, match="automountServiceAccountToken"):
        await Credentials.load(Origin())
