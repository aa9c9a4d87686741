"""The demo: everything is started, the examples are applied, and their fate is shown live and then as a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.live import Live

from fluence_extender.demo.files import examples, folder, gate_policy, read
from fluence_extender.demo.stack import Stack
from fluence_extender.demo.table import Row, rows, table
from fluence_extender.demo.webhook import Webhook
from fluence_extender.localcluster import ApiError, ConsoleProgress, ControlPlane

NAMESPACE = "default"
NODE = {"cpu": "4", "memory": "16Gi", "pods": 110}
SETTLED = 4.0
"""Seconds without a change after which the picture is final."""
LONGEST = 90.0
PERIOD = 0.25


def run_demo(nodes: int = 6, keep: bool = False, policy: str = "lonode") -> int:
    """Run the demo and return the exit code: 0 when the table could be shown. Raises `LocalClusterError`."""
    console = _console()
    console.print("Starting a control plane on loopback (the first time its programs are built; see --help).")
    with ControlPlane(progress=ConsoleProgress()) as plane:
        console.print(f"API server {plane.url}, kubeconfig {plane.kubeconfig}")
        for manifest in gate_policy():
            plane.api.apply(manifest)
        plane.add_nodes(nodes, prefix="node", **NODE)  # type: ignore[arg-type]
        console.print(f"{nodes} kwok nodes of 4 cpu and 16Gi are ready.")
        resources = folder("examples") / "resources.yaml"
        arguments = ("--engine", "embedded", "--policy", policy, "--resources", str(resources))
        plane.start_scheduler(name="kube-scheduler-default")
        webhook = Webhook(plane, arguments=("--resources", str(resources)))
        with Stack(plane, arguments=arguments) as stack, webhook:
            console.print(
                f"Extender {stack.verbs_url}, state {stack.api_url}/v1/gangs, kube-scheduler beside it."
            )
            console.print(f"Admission webhook {webhook.at}/mutate, registered with the API server.\n")
            _apply_examples(console, plane)
            found = _watch(console, lambda: _now(plane, stack))
            console.print(table(found, "The examples, as they ended up"))
            if keep:
                _wait(console, plane, stack.api_url)
    return 0


def _console() -> Console:
    """A console that is wide enough for the table where the output isn't a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 160))


def _apply_examples(console: Console, plane: ControlPlane) -> None:
    for file in examples():
        for manifest in read(file):
            plane.api.apply(manifest, NAMESPACE)
        console.print(f"applied {file.name}")


def _now(plane: ControlPlane, stack: Stack) -> list[Row]:
    gangs: list[dict[str, Any]] = stack.get("/v1/gangs")["items"]
    return rows(gangs, plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"])


def _watch(console: Console, look: Callable[[], list[Row]]) -> list[Row]:
    """Show the rows as they change, until nothing has changed for a while."""
    began = changed = time.monotonic()
    last: list[Row] = []
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while time.monotonic() - changed < SETTLED and time.monotonic() - began < LONGEST:
            try:
                found = look()
            except (ApiError, OSError):
                found = last
            if found != last:
                last, changed = found, time.monotonic()
                live.update(table(found, f"after {changed - began:.1f} s"))
            time.sleep(PERIOD)
    return last


def _wait(console: Console, plane: ControlPlane, state: str) -> None:
    console.print("\nAll of it stays up; Ctrl-C ends it.")
    # The API server's proxy reaches no service on loopback, so questions go straight to it.
    for command in ("get pods", f"fluence jobs --server {state}"):
        console.print(f"  KUBECONFIG={plane.kubeconfig} kubectl {command}", soft_wrap=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("stopping")
