"""Commands that need no cluster: a file is checked, the demo runs on a control plane of its own."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from fluence_extender import __version__
from fluence_extender.apps.cli.options import POLICY


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Validate a resources.yaml; every fault is named with its line and what to do. Exit code 1 if there is one."""
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


@click.command()
@click.option(
    "--nodes", type=click.IntRange(1, 500), default=6, show_default=True, help="kwok nodes to create."
)
@click.option("--keep/--no-keep", default=False, help="Leave everything running until Ctrl-C.")
@POLICY
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


@click.command()
def version() -> None:
    """Print the version, and whether libreapi_cli is found."""
    from fluence_extender.apps.extender.engines import choose_engine
    from fluence_extender.apps.logs import set_up_logging

    set_up_logging(level=logging.WARNING)
    engine = choose_engine("auto")
    click.echo(f"fluence-extender {__version__} (engine: {engine.name}, {engine.version})")
