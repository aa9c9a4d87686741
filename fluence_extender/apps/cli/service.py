"""``fluence-extender serve``: the service itself. What keeps it from starting is told as one message."""

from __future__ import annotations

import gc
import socket
from typing import TYPE_CHECKING, Any

import click

from fluence_extender import __version__
from fluence_extender.apps.cli.options import (
    KUBECONFIG,
    LEVELS,
    LOG_FORMAT,
    NAMESPACE,
    RESOURCES,
    object_name,
    setting,
)
from fluence_extender.apps.cli.running import run_server
from fluence_extender.apps.settings import ENGINES, POLICIES, Settings

if TYPE_CHECKING:
    from fluence_extender.apps.extender.engines import Engine
    from fluence_extender.http.server import Listeners

PORTS = click.IntRange(0, 65535)


@click.command()
@KUBECONFIG
@RESOURCES
@NAMESPACE
@setting(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="fluxion is libreapi_cli (flux-sched >= 0.53), embedded needs nothing, auto takes fluxion if it is there.",
)
@setting(
    "--policy",
    type=click.Choice(POLICIES),
    default="lonode",
    show_default=True,
    help="Match policy: lonode fills nodes from the first up, hinode from the last down; an x keeps other gangs off.",
)
@setting(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where the four verbs listen; keep them on loopback, beside the scheduler.",
)
@setting(
    "--port",
    type=PORTS,
    default=8888,
    show_default=True,
    help="Port of the verbs; 0 takes any free one.",
)
@setting(
    "--api-host",
    default="127.0.0.1",
    show_default=True,
    help="Where /v1, probes and metrics listen (read-only).",
)
@setting(
    "--api-port",
    type=PORTS,
    default=8889,
    show_default=True,
    help="Port of /v1, probes and metrics; 0 takes any free one.",
)
@LEVELS
@setting(
    "--completion-limit",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds after which a gang that was begun and can't be completed is evicted; 0 for never.",
)
@setting(
    "--assembly-limit",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds after which a gang whose members don't all exist is said to have timed out; 0 for never.",
)
@setting(
    "--audit-every",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Seconds from one comparison of ledger, graph and cluster to the next.",
)
@setting(
    "--lease",
    default="",
    metavar="NAMESPACE/NAME",
    callback=object_name,
    help="The Lease by which the kube-scheduler beside us is elected; we lead while it does. Default: we always lead.",
)
@setting(
    "--identity",
    default=socket.gethostname,
    metavar="HOSTNAME",
    help="The host name under which that kube-scheduler holds the Lease. Default: ours.",
)
@setting(
    "--scheduler-livez",
    default="",
    metavar="URL",
    help="That kube-scheduler's health endpoint: /livez/scheduler, for its container's probe, answers for both of us.",
)
@LOG_FORMAT
def serve(completion_limit: float, assembly_limit: float, log_format: str, **options: Any) -> None:
    """Run the service until SIGTERM or SIGINT.

    It watches the cluster, places gangs, removes their gates, and answers the scheduler. It is ready (/readyz) once the
    cluster is listed and what runs there is accounted for.
    """
    from fluence_extender.apps.logs import set_up_logging

    set_up_logging(log_format)
    _run(
        Settings(completion_limit=completion_limit or None, assembly_limit=assembly_limit or None, **options)
    )


def _run(settings: Settings) -> None:
    # Hundreds of thousands of objects come before we are ready, and stay: looking for garbage among them finds none.
    gc.disable()
    from fluence_extender.apps.extender.first_lists import serve as serve_cluster

    run_server(lambda: serve_cluster(settings, _tell))


def _tell(listeners: Listeners, engine: Engine) -> None:
    click.echo(
        f"fluence-extender {__version__}: verbs on http://{listeners.verbs_address}, "
        f"state on http://{listeners.api_address}, engine {engine.name} ({engine.version})",
        err=True,
    )
