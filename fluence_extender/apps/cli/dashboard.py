"""``fluence-extender dashboard``: the dashboard in the cluster, for users whom a proxy in front of it logs in."""

from __future__ import annotations

import ssl
from pathlib import Path

import click


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8890, show_default=True, help="Port to listen on."
)
@click.option(
    "--api-server",
    default="https://kubernetes.default.svc",
    show_default=True,
    metavar="URL",
    help="The API server, through which /v1 is asked.",
)
@click.option(
    "--certificate-authority",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The authority of the API server's certificate.  [default: those of the system]",
)
def dashboard(host: str, port: int, api_server: str, certificate_authority: Path | None) -> None:
    """Show what /v1 says as pages, to each user what he may see.

    Each request has to bring the user's bearer token, which a proxy in front of the dashboard puts there once the user
    has logged in. /v1 is asked with this token, so the dashboard needs no right of its own.
    """
    try:
        from fluence_extender.dashboard.service import api_server_address
        from fluence_extender.dashboard.serving import serve_for_users
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fluence_extender"):
            raise
        raise click.ClickException(
            f"the dashboard needs {error.name}; install it with pip install 'fluence-extender[dashboard]'"
        ) from None
    if not api_server.startswith("https://"):
        raise click.BadParameter(
            "tokens are sent there: it must begin with https://", param_hint="--api-server"
        )
    try:
        tls = ssl.create_default_context(cafile=certificate_authority)
    except (OSError, ssl.SSLError) as error:
        raise click.ClickException(
            f"{certificate_authority} can't be used as an authority: {error}"
        ) from None
    origin = api_server_address(api_server.rstrip("/"), tls)
    try:
        serve_for_users(origin, host, port)
    except OSError as error:
        raise click.ClickException(
            f"{host}:{port} can't be used: {error.strerror}; give another --port"
        ) from None
