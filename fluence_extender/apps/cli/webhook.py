"""``fluence-extender webhook``: the admission webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from fluence_extender import __version__
from fluence_extender.apps.cli.options import (
    KUBECONFIG,
    LOG_FORMAT,
    NAMESPACE,
    RESOURCES,
    object_name,
    setting,
)
from fluence_extender.apps.cli.serve import run_server
from fluence_extender.apps.settings import STANDARD_WEBHOOK, WebhookSettings

if TYPE_CHECKING:
    from fluence_extender.http.listeners.serving import Address

MUTATE = "/mutate"


def _handlers(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    from fluence_extender.webhook.handlers import HANDLERS, select

    chosen, unknown = select(value.split(","))
    if unknown:
        raise click.BadParameter(f"unknown: {', '.join(unknown)}; there are {', '.join(HANDLERS)}")
    return chosen


def _url(_: click.Context, __: click.Parameter, value: str) -> str:
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a URL: {error}") from None
    if parts.scheme != "https" or not parts.hostname or port == 0:
        raise click.BadParameter(
            f"{value!r} is not https://HOST[:PORT]{MUTATE}: API servers call nothing else"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise click.BadParameter(f"{value!r}: API servers take no user, query or fragment in it")
    return value if parts.path.strip("/") else value.rstrip("/") + MUTATE


def _service(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value:
        raise click.BadParameter(f"it can't be empty; the usual one is {STANDARD_WEBHOOK.service}")
    return object_name(context, parameter, value)


@click.command("webhook")
@KUBECONFIG
@RESOURCES
@NAMESPACE
@setting(
    "--host",
    default=STANDARD_WEBHOOK.host,
    show_default=True,
    variable="FLUENCE_LISTEN_HOST",
    help="Where /mutate, probes and metrics listen, all of them with TLS.",
)
@setting(
    "--port",
    type=click.IntRange(0, 65535),
    default=STANDARD_WEBHOOK.port,
    show_default=True,
    variable="FLUENCE_LISTEN_PORT",
    help="Their port; 0 takes any free one.",
)
@setting(
    "--handlers",
    default="",
    metavar="NAME,...",
    callback=_handlers,
    help="Which handlers work on a pod, and in which order. Default: fluxion,quantum,gang.",
)
@setting(
    "--service",
    default=STANDARD_WEBHOOK.service,
    show_default=True,
    metavar="NAMESPACE/NAME",
    callback=_service,
    variable="FLUENCE_WEBHOOK_SERVICE",
    help="The Service (port 443) that the API server calls; the authority's Secret is in the same namespace.",
)
@setting(
    "--url",
    default=STANDARD_WEBHOOK.url,
    metavar="URL",
    callback=_url,
    variable="FLUENCE_WEBHOOK_URL",
    help="The URL to call instead of the Service, for a webhook outside the cluster: https://127.0.0.1:8443/mutate.",
)
@setting(
    "--sidecar-image",
    default=STANDARD_WEBHOOK.sidecar_image,
    metavar="IMAGE",
    help="Image of the containers that are added to quantum pods. Default: the one that this process runs from.",
)
@LOG_FORMAT
def webhook(log_format: str, **options: Any) -> None:
    """Serve the admission webhook until SIGTERM or SIGINT.

    It registers itself with the API server and gives new pods of this scheduler what they need: environment,
    coordination of quantum jobs, gangs. It is ready (/readyz) once the API server knows where to call it.
    """
    from fluence_extender.apps.logs import set_up_logging

    set_up_logging(log_format)
    _run(WebhookSettings(**options))


def _run(settings: WebhookSettings) -> None:
    from fluence_extender.apps.webhook import run

    run_server(lambda: run(settings, _announce))


def _announce(address: Address) -> None:
    click.echo(f"fluence-extender {__version__}: webhook on https://{address}{MUTATE}", err=True)
