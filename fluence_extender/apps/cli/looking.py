"""Commands that look at a cluster and change nothing: its graph, and what would become of manifests."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

import click

from fluence_extender.apps.cli.options import KUBECONFIG, LEVELS, NAMESPACE, POLICY, RESOURCES


@click.command()
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
    from fluence_extender.apps.cli.live_graph import live_graph
    from fluence_extender.apps.logs import set_up_logging
    from fluence_extender.cluster.errors import BadKubeconfig, ClusterError, ResourcesFileError
    from fluence_extender.graph.errors import GraphTooLarge, InvalidResourcesFile

    set_up_logging(level=logging.WARNING)
    source: str | Path = resources or resources_namespace
    try:
        document = asyncio.run(live_graph(kubeconfig, source, levels, expand))
    except (BadKubeconfig, ClusterError, ResourcesFileError, InvalidResourcesFile, GraphTooLarge) as error:
        raise click.ClickException(str(error)) from None
    click.echo(json.dumps(document))


@click.command()
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
@POLICY
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
    from fluence_extender.apps.cli.simulated import from_file, looked_at, simulated
    from fluence_extender.apps.kubectl.simulate import DOES_NOT_FIT, rendered
    from fluence_extender.apps.kubectl.sources import joined
    from fluence_extender.apps.logs import set_up_logging
    from fluence_extender.cluster.errors import BadKubeconfig, ClusterError, ResourcesFileError
    from fluence_extender.graph.errors import InvalidResourcesFile
    from fluence_extender.whatif.documents import BadManifest

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
    click.echo(rendered(document, "" if output == "text" else output), nl=False)
    sys.exit(0 if document["fits"] else DOES_NOT_FIT)


def _manifest(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
