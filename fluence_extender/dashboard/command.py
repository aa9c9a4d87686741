"""``kubectl fluence dashboard``: show what ``/v1`` says as pages in the user's browser.

What only the pages need is imported when the command runs, because the help of every command imports this module.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.options import StateApiCommand

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import StateApiClient
    from fluence_extender.dashboard.service import ServiceAddress

EXTRA = "fluence-extender[dashboard]"


@click.command(cls=StateApiCommand)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of this machine.  [default: a free one]"
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.pass_obj
def dashboard(client: StateApiClient, port: int, no_browser: bool) -> None:
    """Show the queue, the nodes, the devices and every gang as pages in your browser.

    The pages are served on this machine, for you alone, until you press Ctrl-C. They show what you may see with your
    kubeconfig, and keep themselves new.
    """
    try:
        from fluence_extender.dashboard.serving import loopback_socket, serve_locally
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fluence_extender"):
            raise
        raise CommandError(
            f"the dashboard needs {error.name}; install it with pip install '{EXTRA}'"
        ) from None
    # Whatever is wrong with the way to the service is said here, in the words of all other commands.
    client.document("/v1/queues", None)
    with ExitStack() as stack:
        origin = _origin(client, stack)
        try:
            listener = stack.enter_context(loopback_socket(port))
        except OSError as error:
            raise CommandError(
                f"port {port} can't be used: {error.strerror}; give another --port, or none"
            ) from None

        def tell(address: str) -> None:
            print(
                f"The dashboard is at {address}\nThe address is for you alone. Press Ctrl-C to end it.",
                flush=True,
            )
            if not no_browser and _has_desktop():
                webbrowser.open(address)

        serve_locally(origin, listener, tell)


def _origin(client: StateApiClient, stack: ExitStack) -> ServiceAddress:
    """Return where the pages read ``/v1``; through the API server, with a tunnel for as long as ``stack`` lasts."""
    from fluence_extender.apps.kubectl.state_api import API_GROUP, SERVICE
    from fluence_extender.dashboard.service import ServiceAddress
    from fluence_extender.dashboard.tunnel import tunnel

    if client.server:
        return ServiceAddress(client.server, client.authorization(), "", client.tls(), client.server)
    socket = stack.enter_context(tunnel(client.connection))
    name = f"the service {client.service_namespace}/{SERVICE}"
    return ServiceAddress(f"http://localhost{API_GROUP}", unix_socket=str(socket), name=name)


def _has_desktop() -> bool:
    """Return whether this machine shows windows; a browser of the terminal would take it over."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
