"""The command line of the service. An error is one message on stderr that says what to do, with exit code 1 or 2."""

from __future__ import annotations

import click

from fluence_extender.apps.cli.dashboard import dashboard
from fluence_extender.apps.cli.graph import graph
from fluence_extender.apps.cli.local import check, demo, scheduler_config_command, version
from fluence_extender.apps.cli.serve import serve
from fluence_extender.apps.cli.simulate import simulate
from fluence_extender.apps.cli.webhook import webhook

__all__ = ["main", "serve", "webhook"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Places whole gangs of pods through the extender hooks of a stock kube-scheduler.

    `serve` is the service; `webhook` prepares new pods for it; `scheduler-config` prints the configuration of the
    kube-scheduler in its pod; `demo` shows all of them at work on this machine.
    """


for _command in (check, dashboard, demo, graph, scheduler_config_command, serve, simulate, version, webhook):
    main.add_command(_command)
