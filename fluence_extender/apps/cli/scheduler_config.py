"""``fluence-extender scheduler-config``: what the kube-scheduler beside the service is started with."""

from __future__ import annotations

import click

from fluence_extender.apps.cli.options import object_name
from fluence_extender.apps.settings import DEFAULT_LEASE_DURATION


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
@click.option(
    "--barrier",
    is_flag=True,
    help="Let the extender bind every pod, each gang together: for clusters in which neither the admission policy nor "
    "the webhook marks the pods of which that is wanted.",
)
def scheduler_config_command(
    url: str, kubeconfig: str, lease: str, lease_duration: int, barrier: bool
) -> None:
    """Print a ready KubeSchedulerConfiguration for the kube-scheduler beside the service.

    Example: fluence-extender scheduler-config --kubeconfig ~/.kube/config > fluence.yaml && kube-scheduler
    --config=fluence.yaml
    """
    from fluence_extender.apps.scheduler_config import scheduler_config

    if not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url!r} is not a URL: it must begin with http://", param_hint="--url")
    click.echo(scheduler_config(url, kubeconfig, lease, lease_duration, barrier), nl=False)
