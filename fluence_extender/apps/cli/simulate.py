"""``fluence-extender simulate``: what would become of manifests on a live cluster, or on one given in a file."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.cli.options import KUBECONFIG, LEVELS, NAMESPACE, POLICY, RESOURCES
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.replicas import ReplicaSet, StatefulSet
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod

if TYPE_CHECKING:
    from fluence_extender.apps.cli.offline import ClusterObjects, Trials
    from fluence_extender.cluster.port import TryPod, Watched


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
    """Print whether manifests would fit and where, or why not, from when on, and with how much less.

    Nothing is changed. With --nodes no cluster is needed. The exit code is 3 if something doesn't fit.
    """
    from fluence_extender.apps.cli.offline import cluster_objects, simulate_offline
    from fluence_extender.apps.kubectl.errors import CommandError
    from fluence_extender.apps.kubectl.simulate import DOES_NOT_FIT, print_answer
    from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
    from fluence_extender.apps.logs import set_up_logging
    from fluence_extender.cluster.errors import ClusterError
    from fluence_extender.graph.errors import InvalidResourcesFile
    from fluence_extender.kinds.pod_sets import BadManifest
    from fluence_extender.whatif.documents import read_cluster

    set_up_logging(level=logging.ERROR)
    trials: Trials = nullcontext
    try:
        manifests = manifests_as_json([ManifestSource(name, _manifest(name)) for name in files])
        if nodes_file is not None:
            there = ManifestSource(str(nodes_file), nodes_file.read_bytes())
            cluster = cluster_objects(read_cluster(manifests_as_json([there])))
            declared = resources.read_text() if resources else ""
        else:
            cluster, declared = asyncio.run(_live_cluster(kubeconfig, resources or resources_namespace))
            trials = partial(_live_trials, kubeconfig)
        document = simulate_offline(
            manifests, cluster, declared, levels, policy, str(resources or ""), trials
        )
    except (
        BadManifest,
        ClusterError,
        CommandError,
        InvalidResourcesFile,
        OSError,
        UnicodeDecodeError,
    ) as error:
        raise click.ClickException(str(error)) from None
    print_answer(document, output)
    sys.exit(0 if document["fits"] else DOES_NOT_FIT)


def _manifest(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


async def _live_cluster(kubeconfig: str | None, resources: str | Path) -> tuple[ClusterObjects, str]:
    """List the live cluster once, and return it with the text of resources.yaml."""
    from fluence_extender.apps.cli.offline import ClusterObjects
    from fluence_extender.cluster.connection import connect
    from fluence_extender.cluster.reads import disruption_budgets
    from fluence_extender.cluster.watch import list_once

    owners = (Job, ReplicaSet, StatefulSet)
    seen = await list_once(kubeconfig, resources, Node, Pod, *owners, ResourcesFile)
    async with connect(kubeconfig) as connection:
        budgets = await disruption_budgets(connection)
    files = [one for one in seen if isinstance(one, ResourcesFile)]
    watched: list[Watched] = [one for one in seen if not isinstance(one, ResourcesFile)]
    declared = files[0].text if files else ""
    return ClusterObjects(watched, budgets=None if budgets is None else list(budgets)), declared or ""


@asynccontextmanager
async def _live_trials(kubeconfig: str | None) -> AsyncIterator[TryPod]:
    """Yield what tries pods on the live cluster, with the credentials of the kubeconfig."""
    from fluence_extender.cluster.connection import connect
    from fluence_extender.cluster.reads import try_pod

    async with connect(kubeconfig) as connection:
        yield partial(try_pod, connection, strict=True)
