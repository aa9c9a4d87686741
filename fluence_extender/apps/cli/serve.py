"""``fluence-extender serve``: the service itself. What keeps a server from starting is reported as one message."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from fluence_extender import __version__
from fluence_extender.apps.cli.options import (
    KUBECONFIG,
    LEVELS,
    LOG_FORMAT,
    NAMESPACE,
    RESOURCES,
    amounts,
    object_name,
    setting,
)
from fluence_extender.apps.settings import BINDERS, ENGINES, POLICIES, STANDARD, Settings

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
    default=STANDARD.engine,
    show_default=True,
    help="fluxion is libreapi_cli (flux-sched >= 0.53), embedded needs nothing, auto takes fluxion if it is there.",
)
@setting(
    "--policy",
    old_variable="FLUENCE_MATCH_POLICY",
    type=click.Choice(POLICIES),
    default=STANDARD.policy,
    show_default=True,
    help="Match policy: lonode fills nodes from the first up, hinode from the last down; an x excludes other gangs; "
    "spread takes the node with the most room. Other policies need libreapi_cli.",
)
@setting(
    "--host",
    default=STANDARD.host,
    show_default=True,
    help="Where the four verbs listen; keep them on loopback, in the scheduler's pod.",
)
@setting(
    "--port",
    type=PORTS,
    default=STANDARD.port,
    show_default=True,
    help="Port of the verbs; 0 takes any free one.",
)
@setting(
    "--api-host",
    default=STANDARD.api_host,
    show_default=True,
    help="Where /v1, probes and metrics listen (read-only).",
)
@setting(
    "--api-port",
    type=PORTS,
    default=STANDARD.api_port,
    show_default=True,
    help="Port of /v1, probes and metrics; 0 takes any free one.",
)
@setting(
    "--api-service",
    default="",
    metavar="NAMESPACE/NAME",
    callback=object_name,
    help="Serve /v1 and metrics with TLS, and show each caller what he may see. Clients call this Service, and the "
    "APIService makes /v1 a part of the API server. Default: plain HTTP for everyone, on loopback only.",
)
@LEVELS
@setting(
    "--bind-by",
    type=click.Choice(BINDERS),
    default=STANDARD.bind_by,
    show_default=True,
    help="direct binds pods that their node alone decides about without asking kube-scheduler, whose filters judge the "
    "others. kube-scheduler has it judge all pods (also use deploy/bind-by-kube-scheduler).",
)
@setting(
    "--completion-limit",
    type=click.FloatRange(min=0),
    default=STANDARD.completion_limit,
    show_default=True,
    help="Seconds after which a gang that was started and can't be completed is evicted; 0 for never.",
)
@setting(
    "--assembly-limit",
    type=click.FloatRange(min=0),
    default=STANDARD.assembly_limit,
    show_default=True,
    help="Seconds after which a gang whose members don't all exist is reported as timed out; 0 for never.",
)
@setting(
    "--grow-after",
    type=click.FloatRange(min=1),
    default=STANDARD.grow_after,
    help="Seconds after which a gang that lacks nodes asks cluster autoscalers for them. Default: never.",
)
@setting(
    "--largest-node",
    default="",
    metavar="RESOURCE=AMOUNT,...",
    callback=amounts,
    help="What the largest node has that an autoscaler adds, e.g. cpu=64,memory=256Gi; for groups without a node.",
)
@setting(
    "--audit-every",
    type=click.FloatRange(min=1),
    default=STANDARD.audit_every,
    show_default=True,
    help="Seconds from one comparison of ledger and cluster to the next.",
)
@setting(
    "--lease",
    default=STANDARD.lease,
    metavar="NAMESPACE/NAME",
    callback=object_name,
    help="The Lease that elects the kube-scheduler in the same pod; we lead while it does. Default: we always lead.",
)
@setting(
    "--identity",
    default=STANDARD.identity,
    metavar="HOSTNAME",
    help="The host name under which that kube-scheduler holds the Lease. Default: ours.",
)
@setting(
    "--scheduler-livez",
    default=STANDARD.scheduler_livez,
    metavar="URL",
    help="That kube-scheduler's health endpoint; /livez/scheduler, for its container's probe, then answers for both.",
)
@setting(
    "--history",
    default=STANDARD.history,
    metavar="FILE|URL",
    help="Keep an account of who used what in this SQLite file, or in the PostgreSQL database of a URL. Default: none.",
)
@setting(
    "--history-keep",
    type=click.FloatRange(min=0),
    default=STANDARD.history_keep,
    show_default=True,
    help="Days for which the account keeps each gang that has ended; 0 for ever. What was used by day stays.",
)
@LOG_FORMAT
def serve(completion_limit: float, assembly_limit: float, log_format: str, **options: Any) -> None:
    """Run the service until SIGTERM or SIGINT.

    It watches the cluster, places gangs, removes their gates, and answers the scheduler. It is ready (/readyz) once the
    cluster is listed and what runs there is in its ledger.
    """
    from fluence_extender.apps.logs import set_up_logging

    set_up_logging(log_format)
    _run(
        Settings(completion_limit=completion_limit or None, assembly_limit=assembly_limit or None, **options)
    )


def _run(settings: Settings) -> None:
    # Hundreds of thousands of objects are made before we are ready, and stay: the collector would find no garbage.
    gc.disable()
    from fluence_extender.apps.extender.main import serve as serve_extender

    run_server(lambda: serve_extender(settings, _announce))


def _announce(listeners: Listeners, engine: Engine) -> None:
    click.echo(
        f"fluence-extender {__version__}: verbs on http://{listeners.verbs_address}, "
        f"state on {listeners.api_scheme}://{listeners.api_address}, engine {engine.name} ({engine.version})",
        err=True,
    )


def run_server(serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what ``serving`` returns until it ends. Raises `click.ClickException` if it refuses to start."""
    import uvloop

    try:
        uvloop.run(serving())
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if isinstance(error, _start_errors()):
            raise click.ClickException(str(error)) from None
        raise


def _start_errors() -> tuple[type[Exception], ...]:
    """Return the errors whose text is the whole message: they need no traceback."""
    from fluence_extender.apps.processes import StartRefused
    from fluence_extender.cluster.errors import BadKubeconfig, ResourcesFileError
    from fluence_extender.engine.errors import EngineUnavailable
    from fluence_extender.http.listeners.serving import CannotListen

    return StartRefused, BadKubeconfig, ResourcesFileError, CannotListen, EngineUnavailable
