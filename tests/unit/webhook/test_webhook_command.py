"""``fluence-extender webhook`` reads its options and reports wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result

from fluence_extender.apps import webhook as admission
from fluence_extender.apps.cli import main
from fluence_extender.apps.settings import WebhookSettings
from fluence_extender.apps.webhook import webhook_target
from fluence_extender.webhook.registration import ServiceTarget, UrlTarget


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Reset the log, which the command sets up on streams that end with the call."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def settings_seen(monkeypatch: pytest.MonkeyPatch) -> list[WebhookSettings]:
    """Record the settings with which the command runs."""
    found: list[WebhookSettings] = []

    async def run(settings: WebhookSettings, listening: object) -> None:
        found.append(settings)

    monkeypatch.setattr(admission, "run", run)
    return found


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["webhook", *arguments], env=environment)


def test_defaults(settings_seen: list[WebhookSettings]) -> None:
    assert invoke().exit_code == 0
    assert settings_seen == [WebhookSettings(handlers=("fluxion", "quantum", "gang"))]
    assert webhook_target(settings_seen[0]) == ServiceTarget("fluence-system", "fluence-webhook")


def test_options_and_environment_say_the_same(settings_seen: list[WebhookSettings]) -> None:
    given = {
        "--host": ("FLUENCE_LISTEN_HOST", "0.0.0.0"),
        "--port": ("FLUENCE_LISTEN_PORT", "9443"),
        "--handlers": ("FLUENCE_HANDLERS", "gang,fluxion"),
        "--service": ("FLUENCE_WEBHOOK_SERVICE", "hpc/admission"),
        "--sidecar-image": ("FLUENCE_SIDECAR_IMAGE", "registry.example/it:1"),
        "--resources-namespace": ("FLUENCE_RESOURCES_NAMESPACE", "hpc"),
        "--url": ("FLUENCE_WEBHOOK_URL", "https://10.0.0.1:9443/mutate"),
    }
    assert invoke(*(part for option, (_, value) in given.items() for part in (option, value))).exit_code == 0
    assert invoke(**dict(given.values())).exit_code == 0
    by_option, by_environment = settings_seen
    assert by_option == by_environment
    assert by_option.handlers == ("gang", "fluxion")
    assert webhook_target(by_option) == UrlTarget("https://10.0.0.1:9443/mutate")


@pytest.mark.parametrize(
    "links", [{"FLUENCE_WEBHOOK_PORT": "tcp://10.0.0.7:443", "FLUENCE_PORT": "tcp://10.0.0.8:8889"}]
)
def test_environment_variables_of_service_links_are_no_options(
    settings_seen: list[WebhookSettings], links: dict[str, str]
) -> None:
    assert invoke(**links).exit_code == 0
    assert settings_seen[0].port == 8443


def test_unknown_handlers_are_named_with_the_known_ones() -> None:
    result = invoke("--handlers", "fluxion,quantm,gang,x")
    assert result.exit_code == 2
    assert "unknown: quantm, x; there are fluxion, quantum, gang" in result.output


@pytest.mark.parametrize("url", ["https://10.0.0.1", "https://10.0.0.1/", "https://h.example:1/mutate"])
def test_url_leads_to_the_path_that_is_served(settings_seen: list[WebhookSettings], url: str) -> None:
    assert invoke("--url", url).exit_code == 0
    assert settings_seen[0].url.endswith("/mutate")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8443/mutate",
        "127.0.0.1:8443",
        "https://",
        "https:///mutate",
        "https://127.0.0.1:0/mutate",
        "https://127.0.0.1:port/mutate",
        "https://[::1/mutate",
        "https://user@127.0.0.1/mutate",
        "https://127.0.0.1/mutate?x=1",
        "https://127.0.0.1/mutate#x",
    ],
)
def test_url_that_api_servers_do_not_call_is_refused(url: str) -> None:
    result = invoke("--url", url)
    assert result.exit_code == 2
    assert "Invalid value for '--url'" in result.output


@pytest.mark.parametrize("service", ["fluence-webhook", "/x", "a/", "a/b/c", ""])
def test_service_must_be_named_with_its_namespace(service: str) -> None:
    result = invoke("--service", service)
    assert result.exit_code == 2
    assert "Invalid value for '--service'" in result.output


def test_faulty_resources_file_is_reported_at_once(tmp_path: Path) -> None:
    missing = invoke("--resources", str(tmp_path / "none.yaml"))
    assert missing.exit_code == 1
    assert "doesn't exist" in missing.output
    faulty = tmp_path / "resources.yaml"
    faulty.write_text("backends: []")
    refused = invoke("--resources", str(faulty))
    assert refused.exit_code == 1
    assert "resources.yaml can't be used" in refused.output


def test_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    result = invoke("--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert "none" in result.output
