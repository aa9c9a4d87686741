"""Commands that need no cluster: they check a file, print a configuration, or bring a cluster of their own."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from fluence_extender import __version__
from fluence_extender.apps.cli.options import POLICY, object_name
from fluence_extender.apps.settings import DEFAULT_LEASE_DURATION, STANDARD


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Validate a resources.yaml; every fault is reported with its line and what to do. Exit code 1 if there is one."""
    from fluence_extender.cluster.errors import ResourcesFileError
    from fluence_extender.cluster.resources_file import read_resources_file
    from fluence_extender.graph.errors import InvalidResourcesFile
    from fluence_extender.graph.resources_file import parse_resources

    try:
        read = read_resources_file(file)
        parsed = parse_resources(read.text or "", str(file))
    except (ResourcesFileError, InvalidResourcesFile) as error:
        raise click.ClickException(str(error)) from None
    kinds = ", ".join(parsed.types) or "none"
    click.echo(f"{file}: valid; resource types: {kinds}")


@click.command("scheduler-config")
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
    callback=object_name,
    help="The Lease that elects a leader among several replicas; give `serve` the same. Default: no election.",
)
@click.option(
    "--lease-duration",
    type=click.IntRange(min=3),
    default=DEFAULT_LEASE_DURATION,
    show_default=True,
    metavar="SECONDS",
    help="How long a standby waits after the leader's last renewal before it takes over.",
)
def scheduler_config_command(url: str, kubeconfig: str, lease: str, lease_duration: int) -> None:
    """Print a KubeSchedulerConfiguration for the kube-scheduler in the service's pod.

    Example: fluence-extender scheduler-config --kubeconfig ~/.kube/config > fluence.yaml && kube-scheduler
    --config=fluence.yaml
    """
    from fluence_extender.apps.scheduler_config import scheduler_config

    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url!r} is not a URL: it must begin with http://", param_hint="--url")
    click.echo(scheduler_config(url, kubeconfig, lease, lease_duration), nl=False)


@click.command()
@click.option("--nodes", type=click.IntRange(1, 500), default=6, show_default=True, help="Nodes to create.")
@click.option("--keep/--no-keep", default=False, help="Leave everything running until Ctrl-C.")
@POLICY
def demo(nodes: int, keep: bool, policy: str) -> None:
    """Show the service at work on this machine: it places the examples, live and as a table.

    The cluster is embedded in the process: the service is what runs in production, and Kubernetes is simulated.
    """
    from fluence_extender.demo import DemoError
    from fluence_extender.demo.run import run_demo

    try:
        sys.exit(run_demo(nodes, keep, policy))
    except DemoError as error:
        raise click.ClickException(str(error)) from None


@click.command()
def version() -> None:
    """Print the version and the engine that is available."""
    from fluence_extender.apps.extender.engines import choose_engine
    from fluence_extender.apps.logs import set_up_logging

    set_up_logging(level=logging.WARNING)
    engine = choose_engine("auto", STANDARD.policy)
    click.echo(f"fluence-extender {__version__} (engine: {engine.name}, {engine.version})")
