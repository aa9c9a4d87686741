"""``fluence-sidecar``, and ``python -m fluence_extender.apps.sidecar`` for what goes with it.

The sidecar's modules are imported only where they are used: staging runs before the user's own containers start.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from fluence_extender.model.coordination import STAGED


def main(arguments: Sequence[str] | None = None) -> int:
    """``stage DEST``, ``mock-qpu`` or ``sidecar``."""
    parser = argparse.ArgumentParser(prog="python -m fluence_extender.apps.sidecar", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    staging = commands.add_parser("stage", help="put the interceptor into a folder for a pod's containers")
    usual = os.environ.get("FLUENCE_STAGE_DIR") or STAGED
    staging.add_argument("destination", nargs="?", type=Path, default=Path(usual))
    mock = commands.add_parser("mock-qpu", help="serve the HTTP interface of a backend that isn't there")
    mock.add_argument("--port", type=int, default=8080)
    mock.add_argument("--host", default="0.0.0.0")
    mock.add_argument("--ahead", type=int, default=2, help="tasks of others before each one")
    mock.add_argument("--seconds", type=float, default=5.0, help="how long each task runs")
    commands.add_parser("sidecar", help="what fluence-sidecar does")
    asked = parser.parse_args(arguments)
    if asked.command == "stage":
        return stage(asked.destination)
    if asked.command == "mock-qpu":
        from fluence_extender.coordination.mock_qpu import serve

        serve(asked.host, asked.port, asked.ahead, asked.seconds)
        return 0
    return sidecar()


def stage(destination: Path) -> int:
    """Stage the interceptor; 1 where it can't be written."""
    from fluence_extender.coordination import staging

    try:
        problems = staging.stage(destination)
    except OSError as error:
        print(f"[fluence] the interceptor can't be staged: {error}", file=sys.stderr)
        return 1
    for problem in problems:
        print(f"[fluence] {problem}", file=sys.stderr)
    return 0


def note_signals() -> list[int]:
    """The signals to end that come from now on; the sidecar looks here once it can act on them.

    Most of its start is imports. Linux drops signals to the first process of a container that has no handler for them
    (pid_namespaces(7)), so a producer that ends at once would end in silence.
    """
    seen: list[int] = []
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, _: seen.append(number))
    return seen


def sidecar() -> int:
    """Run the sidecar by its environment; 0, 1 where no task was found, 2 where it can't begin."""
    told = note_signals()
    from fluence_extender.coordination.options import read_options

    try:
        options, problems = read_options(os.environ)
    except ValueError as error:
        print(f"fluence-sidecar: {error}", file=sys.stderr)
        return 2
    for problem in problems:
        print(f"fluence-sidecar: {problem}", file=sys.stderr)
    import asyncio

    from fluence_extender.apps.sidecar.running import run
    from fluence_extender.cluster.errors import BadKubeconfig

    try:
        return asyncio.run(run(options, os.environ, told))
    except BadKubeconfig as error:
        print(f"fluence-sidecar: {error}", file=sys.stderr)
        return 2
