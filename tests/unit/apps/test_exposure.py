"""How the state API is exposed: TLS everywhere but on loopback, by an APIService that is kept as it should be."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from fluence_extender.apps.cli import main
from fluence_extender.apps.extender.exposure import (
    PATH,
    SECRET,
    api_service,
    exposed,
    follow_front_proxy,
    state_registration,
)
from fluence_extender.apps.processes import StartRefused
from fluence_extender.apps.settings import Settings
from fluence_extender.cluster.port import Json
from fluence_extender.http.listeners.front_proxy import AUTHORITIES
from fluence_extender.http.listeners.gate import OpenGate, ReviewingGate
from fluence_extender.identity.certificates import make_authority, pem
from fluence_extender.identity.registration import is_ours
from fluence_extender.identity.tls import tls_context
from tests.unit.http.callers import KnownCallers
from tests.unit.webhook.stored_objects import StoredObjects

SERVICE = "fluence-system/fluence"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "fluence.example.com"])
async def test_plain_http_is_refused_where_others_can_reach_it(host: str) -> None:
    with pytest.raises(StartRefused, match="--api-service NAMESPACE/NAME"):
        async with exposed(Settings(api_host=host)):
            pass


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_loopback_is_served_without_tls_and_names(host: str) -> None:
    async with exposed(Settings(api_host=host)) as exposure:
        assert isinstance(exposure.gate, OpenGate)
        assert exposure.tls is None
        assert exposure.work() == {}


def test_name_of_the_service_is_checked_at_the_command_line() -> None:
    shown = CliRunner().invoke(main, ["serve", "--api-service", "fluence"])
    assert shown.exit_code == 2
    assert "is not NAMESPACE/NAME" in shown.output


def stored(objects: StoredObjects) -> Json:
    """The APIService as the API server has it."""
    found: Json = objects.objects[PATH]
    return found


async def test_api_service_of_the_deployment_gets_the_authority_and_keeps_its_port() -> None:
    objects = StoredObjects()
    shipped = api_service("fluence-system", "fluence")
    shipped["spec"]["service"]["port"] = 443
    shipped["spec"]["insecureSkipTLSVerify"] = True
    objects.put(PATH, shipped)
    kept = state_registration(objects, SERVICE, tls_context())
    await kept.reconcile("")
    assert kept.problem == ""
    spec = stored(objects)["spec"]
    assert spec["service"] == {"namespace": "fluence-system", "name": "fluence", "port": 443}
    assert spec["caBundle"]
    assert "insecureSkipTLSVerify" not in spec
    assert is_ours(objects.objects[f"/api/v1/namespaces/fluence-system/secrets/{SECRET}"])
    written = len(objects.writes())
    await kept.reconcile("")
    assert len(objects.writes()) == written


async def test_replicas_show_certificates_of_one_authority() -> None:
    objects = StoredObjects()
    contexts = [tls_context(), tls_context()]
    for context in contexts:
        await state_registration(objects, SERVICE, context).reconcile("")
    bundle = stored(objects)["spec"]["caBundle"]
    again = state_registration(objects, SERVICE, tls_context())
    await again.reconcile("")
    assert stored(objects)["spec"]["caBundle"] == bundle


async def test_api_service_of_another_owner_is_left_alone() -> None:
    objects = StoredObjects()
    theirs = api_service("fluence-system", "fluence")
    theirs["metadata"]["labels"] = {"app": "another"}
    objects.put(PATH, theirs)
    kept = state_registration(objects, SERVICE, tls_context())
    await kept.reconcile("")
    assert "APIService" in kept.problem
    assert "isn't ours" in kept.problem
    assert "caBundle" not in stored(objects)["spec"]


class PublishedSettings:
    """An API server that publishes the settings of its front proxy."""

    def __init__(self, data: dict[str, str]) -> None:
        self.data = data

    async def front_proxy(self) -> dict[str, str]:
        return self.data


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        ({}, ssl.CERT_NONE),
        ({AUTHORITIES: "broken"}, ssl.CERT_NONE),
        ({AUTHORITIES: pem(make_authority(datetime.now(UTC)).certificate).decode()}, ssl.CERT_OPTIONAL),
    ],
)
async def test_clients_are_asked_for_the_front_proxys_certificate_once_it_is_known(
    settings: dict[str, str], asks: ssl.VerifyMode
) -> None:
    tls = tls_context()
    following = asyncio.create_task(
        follow_front_proxy(PublishedSettings(settings), ReviewingGate(KnownCallers()), tls)
    )
    await asyncio.sleep(0.01)
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    assert tls.verify_mode is asks
