"""The command line of the service. Errors are one message on stderr that says what to do, and exit code 1 or 2."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluence_extender import __version__
from fluence_extender.settings import (
    DEFAULT_LEASE_DURATION,
    DEFAULT_NAMESPACE,
    ENGINES,
    POLICIES,
    Settings,
)

if TYPE_CHECKING:
    from fluence_extender.engines import Engine
    from fluence_extender.extender.server import Listeners

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
PORTS = click.IntRange(0, 65535)

KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE",
    envvar=["FLUENCE_KUBECONFIG"],
    show_envvar=True,
    help="How to reach the cluster; default: $KUBECONFIG, then the pod's ServiceAccount, then ~/.kube/config.",
)
RESOURCES = click.option(
    "--resources",
    metavar="FILE",
    type=click.Path(path_type=Path),
    envvar="FLUENCE_RESOURCES",
    show_envvar=True,
    help="Virtual resources (resources.yaml), followed live. Default: the ConfigMap fluence-resources.",
)
NAMESPACE = click.option(
    "--resources-namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    envvar="FLUENCE_RESOURCES_NAMESPACE",
    show_envvar=True,
    help="Namespace of the ConfigMap fluence-resources; a missing ConfigMap means no virtual resources.",
)


def _levels(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    levels: dict[str, str] = {}
    for value in values:
        kind, equals, label = value.partition("=")
        if not equals or not kind or not label:
            raise click.BadParameter(f"{value!r} is not TYPE=LABEL, for example rack=example.com/rack")
        levels[kind] = label
    return levels


LEVELS = click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="TYPE=LABEL",
    default=["zone=topology.kubernetes.io/zone"],
    show_default=True,
    callback=_levels,
    envvar="FLUENCE_LEVELS",
    show_envvar=True,
    help="A topology level and the node label that names it, outermost first; may be given several times.",
)


def _lease(_: click.Context, __: click.Parameter, value: str) -> str:
    namespace, slash, name = value.partition("/")
    if value and (not slash or not namespace or not name or "/" in name):
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME, for example {DEFAULT_NAMESPACE}/fluence")
    return value


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Places whole gangs of pods through the extender hooks of a stock kube-scheduler.

    `serve` is the service; `scheduler-config` prints the configuration of the kube-scheduler beside it; `demo` shows
    both at work on a control plane of its own, on this machine.
    """


@main.command()
@KUBECONFIG
@RESOURCES
@NAMESPACE
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    envvar="FLUENCE_ENGINE",
    show_envvar=True,
    help="fluxion is libreapi_cli (flux-sched >= 0.53), embedded needs nothing, auto takes fluxion if it is there.",
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="lonode",
    show_default=True,
    envvar="FLUENCE_POLICY",
    show_envvar=True,
    help="Match policy: lonode fills nodes from the first up, hinode from the last down; an x keeps other gangs off.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="FLUENCE_HOST",
    show_envvar=True,
    help="Where the four verbs listen; keep them on loopback, beside the scheduler.",
)
@click.option(
    "--port",
    type=PORTS,
    default=8888,
    show_default=True,
    envvar="FLUENCE_PORT",
    show_envvar=True,
    help="Port of the verbs; 0 takes any free one.",
)
@click.option(
    "--api-host",
    default="127.0.0.1",
    show_default=True,
    envvar="FLUENCE_API_HOST",
    show_envvar=True,
    help="Where /v1, probes and metrics listen (read-only).",
)
@click.option(
    "--api-port",
    type=PORTS,
    default=8889,
    show_default=True,
    envvar="FLUENCE_API_PORT",
    show_envvar=True,
    help="Port of /v1, probes and metrics; 0 takes any free one.",
)
@LEVELS
@click.option(
    "--completion-limit",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    envvar="FLUENCE_COMPLETION_LIMIT",
    show_envvar=True,
    help="Seconds after which a gang that was begun and can't be completed is evicted; 0 for never.",
)
@click.option(
    "--assembly-limit",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    envvar="FLUENCE_ASSEMBLY_LIMIT",
    show_envvar=True,
    help="Seconds after which a gang whose members don't all exist is said to have timed out; 0 for never.",
)
@click.option(
    "--audit-every",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    envvar="FLUENCE_AUDIT_EVERY",
    show_envvar=True,
    help="Seconds from one comparison of books, graph and cluster to the next.",
)
@click.option(
    "--lease",
    default="",
    metavar="NAMESPACE/NAME",
    callback=_lease,
    envvar="FLUENCE_LEASE",
    show_envvar=True,
    help="The Lease by which the kube-scheduler beside us is elected; we lead while it does. Default: we always lead.",
)
@click.option(
    "--identity",
    default=socket.gethostname,
    metavar="HOSTNAME",
    envvar="FLUENCE_IDENTITY",
    show_envvar=True,
    help="The host name under which that kube-scheduler holds the Lease. Default: ours.",
)
@click.option(
    "--scheduler-livez",
    default="",
    metavar="URL",
    envvar="FLUENCE_SCHEDULER_LIVEZ",
    show_envvar=True,
    help="That kube-scheduler's health endpoint: /livez/scheduler, for its container's probe, answers for both of us.",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    envvar="FLUENCE_LOG_FORMAT",
    show_envvar=True,
    help="How log lines look (they go to stderr).",
)
def serve(completion_limit: float, assembly_limit: float, log_format: str, **options: Any) -> None:
    """Run the service until SIGTERM or SIGINT.

    It watches the cluster, places gangs, removes their gates, and answers the scheduler. It is ready (/readyz) once the
    cluster is listed and what runs there is accounted for.
    """
    from fluence_extender.logs import set_up_logging

    set_up_logging(log_format)
    _run(
        Settings(completion_limit=completion_limit or None, assembly_limit=assembly_limit or None, **options)
    )


def _run(settings: Settings) -> None:
    from fluence_extender.app import StartRefused, run
    from fluence_extender.cluster.errors import BadKubeconfig
    from fluence_extender.cluster.resources_file import ResourcesFileError
    from fluence_extender.extender.server import CannotListen
    from fluence_extender.matcher.errors import EngineUnavailable

    try:
        import uvloop

        uvloop.run(run(settings, _tell))
    except (StartRefused, BadKubeconfig, ResourcesFileError, CannotListen, EngineUnavailable) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(130)


def _tell(listeners: Listeners, engine: Engine) -> None:
    click.echo(
        f"fluence-extender {__version__}: verbs on http://{listeners.verbs_address}, "
        f"state on http://{listeners.api_address}, engine {engine.name} ({engine.version})",
        err=True,
    )


@main.command("scheduler-config")
@click.option("--url", default="http://127.0.0.1:8888", show_default=True, help="Where the verbs are served.")
@click.option(
    "--kubeconfig",
    default="",
    metavar="PATH",
    help="The scheduler's kubeconfig, as the scheduler will find it; default: in-cluster.",
)
@click.option(
    "--lease",
    default="",
    metavar="NAMESPACE/NAME",
    callback=_lease,
    help="Elect a leader by this Lease, for several replicas; tell `serve` the same. Default: no election.",
)
@click.option(
    "--lease-duration",
    type=click.IntRange(min=3),
    default=DEFAULT_LEASE_DURATION,
    show_default=True,
    metavar="SECONDS",
    help="How long the others wait after the leader's last renewal before one of them takes over.",
)
def scheduler_config_command(url: str, kubeconfig: str, lease: str, lease_duration: int) -> None:
    """Print a ready KubeSchedulerConfiguration for the kube-scheduler beside the service.

    Example: fluence-extender scheduler-config --kubeconfig ~/.kube/config > fluence.yaml && kube-scheduler
    --config=fluence.yaml
    """
    from fluence_extender.scheduler_config import scheduler_config

    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url!r} is not a URL: it must begin with http://", param_hint="--url")
    click.echo(scheduler_config(url, kubeconfig, lease, lease_duration), nl=False)


@main.command()
@KUBECONFIG
@RESOURCES
@NAMESPACE
@LEVELS
@click.option(
    "--expand/--compact",
    default=True,
    show_default=True,
    help="One vertex for each core and GiB, as libreapi_cli reads it, or one sized vertex for equal leaves.",
)
def graph(
    kubeconfig: str | None,
    resources: Path | None,
    resources_namespace: str,
    levels: dict[str, str],
    expand: bool,
) -> None:
    """Print the resource graph of the live cluster as JGF, in whole cores and GiB."""
    from fluence_extender.cluster.errors import BadKubeconfig
    from fluence_extender.cluster.port import ClusterError
    from fluence_extender.cluster.resources_file import ResourcesFileError
    from fluence_extender.graph.jgf import GraphTooLarge
    from fluence_extender.graph.problem import InvalidResourcesFile
    from fluence_extender.live_graph import live_graph
    from fluence_extender.logs import set_up_logging

    set_up_logging(level=logging.WARNING)
    source: str | Path = resources or resources_namespace
    try:
        document = asyncio.run(live_graph(kubeconfig, source, levels, expand))
    except (BadKubeconfig, ClusterError, ResourcesFileError, InvalidResourcesFile, GraphTooLarge) as error:
        raise click.ClickException(str(error)) from None
    click.echo(json.dumps(document))


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Validate a resources.yaml; every fault is named with its line and what to do. Exit code 1 if there is one."""
    from fluence_extender.cluster.resources_file import ResourcesFileError, read_resources_file
    from fluence_extender.graph.problem import InvalidResourcesFile
    from fluence_extender.graph.resources_file import parse_resources

    try:
        read = read_resources_file(file)
        parsed = parse_resources(read.text or "", str(file))
    except (ResourcesFileError, InvalidResourcesFile) as error:
        raise click.ClickException(str(error)) from None
    kinds = ", ".join(parsed.types) or "none"
    click.echo(f"{file}: valid; resource types: {kinds}")


@main.command()
@click.option(
    "--nodes", type=click.IntRange(1, 500), default=6, show_default=True, help="kwok nodes to create."
)
@click.option("--keep/--no-keep", default=False, help="Leave everything running until Ctrl-C.")
@click.option(
    "--policy", type=click.Choice(POLICIES), default="lonode", show_default=True, help="Match policy."
)
def demo(nodes: int, keep: bool, policy: str) -> None:
    """Show it all on this machine: a real control plane on loopback, the service, and the examples.

    The first run builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok from their Go modules
    into your cache folder (about seven minutes on two cores); later runs start in seconds.
    """
    from fluence_extender.demo.show import run_demo
    from fluence_extender.localcluster.errors import LocalClusterError

    try:
        sys.exit(run_demo(nodes=nodes, keep=keep, policy=policy))
    except LocalClusterError as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifests of pods and what makes pods (YAML or JSON); - for standard input.",
)
@click.option(
    "--nodes",
    "nodes_file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The cluster, as `kubectl get nodes,pods,jobs -A -o yaml` writes it; default: the live one.",
)
@KUBECONFIG
@RESOURCES
@NAMESPACE
@LEVELS
@click.option(
    "--policy", type=click.Choice(POLICIES), default="lonode", show_default=True, help="Match policy."
)
@click.option(
    "-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", show_default=True
)
def simulate(
    files: tuple[str, ...],
    nodes_file: Path | None,
    kubeconfig: str | None,
    resources: Path | None,
    resources_namespace: str,
    levels: dict[str, str],
    policy: str,
    output: str,
) -> None:
    """Say whether manifests would fit: where, if not why, from when on, and with how much less.

    Nothing is changed. With --nodes no cluster is needed. Ends with 3 when something doesn't fit.
    """
    from fluence_extender.cluster.errors import BadKubeconfig
    from fluence_extender.cluster.port import ClusterError
    from fluence_extender.cluster.resources_file import ResourcesFileError
    from fluence_extender.graph.problem import InvalidResourcesFile
    from fluence_extender.kubectl.simulate import DOES_NOT_FIT, told
    from fluence_extender.kubectl.sources import joined
    from fluence_extender.logs import set_up_logging
    from fluence_extender.simulated import from_file, looked_at, simulated
    from fluence_extender.whatif.manifests import BadManifest

    set_up_logging(level=logging.ERROR)
    try:
        manifests = joined([_manifest(name) for name in files])
        if nodes_file is not None:
            there, declared = from_file(nodes_file), resources.read_text() if resources else ""
        else:
            there, file = asyncio.run(looked_at(kubeconfig, resources or resources_namespace))
            declared = file.text or ""
        document = simulated(manifests, there, declared, levels, policy, str(resources or ""))
    except (
        BadManifest,
        BadKubeconfig,
        ClusterError,
        InvalidResourcesFile,
        ResourcesFileError,
        OSError,
        UnicodeDecodeError,
    ) as error:
        raise click.ClickException(str(error)) from None
    click.echo(told(document, "" if output == "text" else output), nl=False)
    sys.exit(0 if document["fits"] else DOES_NOT_FIT)


def _manifest(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


@main.command()
def version() -> None:
    """Print the version, and whether libreapi_cli is found."""
    from fluence_extender.engines import choose_engine
    from fluence_extender.logs import set_up_logging

    set_up_logging(level=logging.WARNING)
    engine = choose_engine("auto")
    click.echo(f"fluence-extender {__version__} (engine: {engine.name}, {engine.version})")
