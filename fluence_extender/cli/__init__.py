"""The command line of the service. Errors are one message on stderr that says what to do, and exit code 1 or 2."""

from __future__ import annotations

import click

from fluence_extender.cli.local import check, demo, version
from fluence_extender.cli.looking import graph, simulate
from fluence_extender.cli.scheduler_config import scheduler_config_command
from fluence_extender.cli.service import serve

__all__ = ["main", "serve"]

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(context_settings=CONTEXT)
def main() -> None:
    """Places whole gangs of pods through the extender hooks of a stock kube-scheduler.

    `serve` is the service; `scheduler-config` prints the configuration of the kube-scheduler beside it; `demo` shows
    both at work on a control plane of its own, on this machine.
    """


for _command in (check, demo, graph, scheduler_config_command, serve, simulate, version):
    main.add_command(_command)
