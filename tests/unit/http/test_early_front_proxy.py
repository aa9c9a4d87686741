"""The API server may connect before its front proxy is known; the client that goes on asking is known afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import httpx

from fluence_extender.http.listeners.front_proxy import AUTHORITIES, read_front_proxy
from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.listeners.serving import Address
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.identity.certificates import make_authority, make_leaf
from fluence_extender.identity.tls import recognize_clients, show_certificate, tls_context
from fluence_extender.webhook.server import serve_https
from tests.localcluster.credentials import LocalAuthority
from tests.unit.http.callers import KnownCallers
from tests.unit.http.held_placements import HeldPlacements
from tests.unit.identity.test_client_certificates import trusting


async def test_client_that_connected_too_early_is_known_once_the_front_proxy_is(tmp_path: Path) -> None:
    ours, authority = make_authority(datetime.now(UTC)), LocalAuthority(tmp_path)
    leaf = make_leaf(ours, ["127.0.0.1"], datetime.now(UTC))
    serving, calling = tls_context(), trusting(ours, authority, tmp_path)
    show_certificate(serving, leaf.certificate_pem, leaf.key_pem)
    gate = ReviewingGate(KnownCallers())
    app = api_app(HeldPlacements(), Metrics(), gate=gate)
    async with (
        serve_https(app, Address("127.0.0.1", 0), serving) as address,
        httpx.AsyncClient(base_url=f"https://{address}", verify=calling, trust_env=False) as client,
    ):

        async def asked() -> int:
            return (await client.get("/v1/backends", headers={"X-Remote-User": "anna"})).status_code

        assert await asked() == 401
        published = {
            AUTHORITIES: authority.pem.decode(),
            "requestheader-username-headers": '["X-Remote-User"]',
        }
        recognize_clients(serving, published[AUTHORITIES])
        gate.adopt(read_front_proxy(published))
        assert await asked() == 200
