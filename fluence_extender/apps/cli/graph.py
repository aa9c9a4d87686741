"""``fluence-extender graph``: the resource graph of a live cluster, which is listed once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fluence_extender.apps.cli.options import KUBECONFIG, LEVELS, NAMESPACE, RESOURCES
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.model.node import Node


@click.command()
@KUBECONFIG
@RESOURCES
@NAMESPACE
@LEVELS
def graph(
    kubeconfig: str | None,
    resources: Path | None,
    resources_namespace: str,
    levels: dict[str, str],
) -> None:
    """Print the resource graph of the live cluster as JGF, with a vertex for each core and GiB."""
    from fluence_extender.apps.logs import set_up_logging
    from fluence_extender.cluster.errors import ClusterError
    from fluence_extender.graph.errors import InvalidResourcesFile
    from fluence_extender.graph.jgf import TooManyVertices

    set_up_logging(level=logging.WARNING)
    source: str | Path = resources or resources_namespace
    try:
        document = asyncio.run(_live_graph(kubeconfig, source, levels))
    except (ClusterError, InvalidResourcesFile) as error:
        raise click.ClickException(str(error)) from None
    except TooManyVertices as error:
        raise click.ClickException(
            f"{error}; kubectl fluence graph --jgf has one vertex for equal leaves"
        ) from None
    click.echo(json.dumps(document))


async def _live_graph(
    kubeconfig: str | None, resources: str | Path, levels: Mapping[str, str]
) -> dict[str, Any]:
    from fluence_extender.cluster.watch import list_once
    from fluence_extender.graph.cluster_graph import build_containment
    from fluence_extender.graph.jgf import unit_jgf
    from fluence_extender.graph.resources_file import parse_resources

    seen = await list_once(kubeconfig, resources, Node, ResourcesFile)
    nodes = [one for one in seen if isinstance(one, Node)]
    file = next((one for one in seen if isinstance(one, ResourcesFile)), ResourcesFile("", None))
    parsed = parse_resources(file.text or "", file.source)
    return unit_jgf(build_containment(nodes, parsed, levels=levels))
