"""The dashboard through an API server, with the user's kubeconfig and the real kubectl, and without what it needs."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import httpx
import pytest

from fluence_extender.apps.kubectl.main import main
from fluence_extender.dashboard.tunnel import tunnel
from fluence_extender.http.state.aggregation import PREFIX
from tests.network.browser import dashboard
from tests.network.state_api import StateApi, gang


class _ApiServer(StateApi):
    """An API server that passes the paths of the service on, and has a path of its own."""

    def answer(self, path: str) -> tuple[int, dict[str, object]]:
        if not path.startswith(PREFIX):
            return 200, {"secret": "of the cluster"}
        return super().answer("/v1" + path.removeprefix(PREFIX))


def kubeconfig(folder: Path, server: str) -> str:
    """Return the flag that names a kubeconfig for an API server."""
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
    file = folder / "config"
    file.write_text(json.dumps({**document, "users": [{"name": "u", "user": {}}], "current-context": "c"}))
    return f"--kubeconfig={file}"


def test_pages_come_through_the_api_server(tmp_path: Path) -> None:
    with _ApiServer() as server:
        server.lists["gangs"] = [gang("train")]
        visitor = httpx.Client(follow_redirects=True, timeout=20)
        with dashboard("", kubeconfig(tmp_path, server.url)) as address, visitor:
            assert "lab/train" in visitor.get(address.replace("/?", "/gangs?")).text


def test_tunnel_is_private_and_leads_to_the_service_alone(tmp_path: Path) -> None:
    with _ApiServer() as server, tunnel([kubeconfig(tmp_path, server.url)]) as socket:
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://localhost"
        ) as client:
            assert client.get(f"{PREFIX}/gangs").status_code == 200
            assert client.get("/api/v1/secrets").status_code == 403
            assert client.delete(f"{PREFIX}/gangs").status_code in (403, 405)


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "htpy", None)
    for name in [one for one in sys.modules if one.startswith("fluence_extender.dashboard.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["dashboard", "--server", "http://127.0.0.1:1"]) == 1
    assert "install it with pip install 'fluence-extender[dashboard]'" in capsys.readouterr().err


def test_service_that_is_away_is_reported_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", "--server", "http://127.0.0.1:1"]) == 1
    assert "can't be reached" in capsys.readouterr().err
