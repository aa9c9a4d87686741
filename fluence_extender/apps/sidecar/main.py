"""``fluence-sidecar``, and ``python -m fluence_extender.apps.sidecar`` for the programs that go with it.

The sidecar's modules are imported only when they are used, because staging delays the user's own containers.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``stage DEST``, ``mock-qpu`` or ``sidecar``. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fluence_extender.apps.sidecar", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    staging = commands.add_parser("stage", help="put the interceptor into a folder for a pod's containers")
    staging.add_argument("destination", type=Path)
    mock = commands.add_parser("mock-qpu", help="serve the HTTP interface of a mock backend")
    mock.add_argument("--port", type=int, default=8080)
    mock.add_argument("--host", default="0.0.0.0")
    mock.add_argument("--ahead", type=int, default=2, help="other tasks ahead of each one")
    mock.add_argument("--seconds", type=float, default=5.0, help="how long each task runs")
    commands.add_parser("sidecar", help="the same as fluence-sidecar")
    options = parser.parse_args(arguments)
    if options.command == "stage":
        return stage(options.destination)
    if options.command == "mock-qpu":
        from fluence_extender.coordination.mock_qpu import serve

        serve(options.host, options.port, options.ahead, options.seconds)
        return 0
    return sidecar()


def stage(destination: Path) -> int:
    """Stage the interceptor. Return 1 if it can't be written, 0 otherwise."""
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
    """Collect SIGTERM and SIGINT from now on in the list that is returned. The sidecar reads it once it can act.

    Most of the sidecar's start is imports. Linux drops signals without a handler for the first process of a container
    (pid_namespaces(7)), so the sidecar of a producer that ends at once would never learn that it has to stop.
    """
    received: list[int] = []
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, _: received.append(number))
    return received


def sidecar() -> int:
    """Run the sidecar by its environment. Return 0, 1 if no task was found, 2 if it can't start."""
    signals = note_signals()
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
        return asyncio.run(run(options, os.environ, signals))
    except BadKubeconfig as error:
        print(f"fluence-sidecar: {error}", file=sys.stderr)
        return 2
