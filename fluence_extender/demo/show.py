"""The demo: everything is started, the examples are applied, and their fate is shown live and then as a table."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from fluence_extender.demo.files import devices, examples, policies, read
from fluence_extender.demo.interrupts import ended_by_signals
from fluence_extender.demo.stack import Stack
from fluence_extender.demo.table import Row, picture, rows
from fluence_extender.demo.upkeep import Process, Upkeep
from fluence_extender.demo.webhook import Webhook
from fluence_extender.localcluster import ApiError, ConsoleProgress, ControlPlane

NAMESPACE = "default"
NODE = {"cpu": "4", "memory": "16Gi", "pods": 110}
SETTLED = 4.0
"""Seconds without a change after which the picture is final."""
LONGEST = 90.0
PERIOD = 0.25
UPKEEP_PERIOD = 1.0
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
STOPPED_EARLY = 130
"""The exit code of an interrupt that came before there was anything to show."""


def run_demo(nodes: int = 6, keep: bool = False, policy: str = "lonode") -> int:
    """Run the demo and return the exit code: 0 when the table was shown. Raises `LocalClusterError`.

    SIGINT and SIGTERM end it, and nothing stays behind.
    """
    console = _console()
    shown = False

    def show(found: Sequence[Row]) -> None:
        nonlocal shown
        console.print(picture(found, "The examples, as they ended up", console.width))
        shown = True

    try:
        with ended_by_signals():
            _run(console, show, nodes, keep, policy)
    except KeyboardInterrupt:
        console.print("stopped")
    return 0 if shown else STOPPED_EARLY


def _run(
    console: Console, show: Callable[[Sequence[Row]], None], nodes: int, keep: bool, policy: str
) -> None:
    console.print("Starting a control plane on loopback (the first time its programs are built; see --help).")
    with ControlPlane(progress=ConsoleProgress()) as plane:
        console.print(f"API server {plane.url}, kubeconfig {plane.kubeconfig}", soft_wrap=True)
        for manifest in (*policies("gate", "groups"), devices()):
            plane.api.apply(manifest)
        plane.add_nodes(nodes, prefix="node", **NODE)  # type: ignore[arg-type]
        console.print(f"{nodes} kwok nodes of 4 cpu and 16Gi are ready.")
        default = plane.start_scheduler(name="kube-scheduler-default")
        webhook = Webhook(plane)
        with Stack(plane, arguments=("--engine", "embedded", "--policy", policy)) as stack, webhook:
            console.print(
                f"Extender {stack.verbs_url}, state {stack.api_url}/v1/gangs, kube-scheduler beside it."
            )
            console.print(f"Admission webhook {webhook.at}/mutate, registered with the API server.\n")
            _apply_examples(console, plane)
            show(_watch(console, lambda: _now(plane, stack)))
            if keep:
                of_plane = (plane.component(name) for name in CONTROL_PLANE)
                ours = filter(None, (stack.extender, stack.scheduler, webhook.process))
                _wait(console, plane, stack.api_url, [*of_plane, default, *ours])


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
    gangs: list[Mapping[str, Any]] = stack.get("/v1/gangs")["items"]
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
                live.update(picture(found, f"after {changed - began:.1f} s", console.width))
            time.sleep(PERIOD)
    return last


def _wait(console: Console, plane: ControlPlane, state: str, processes: Sequence[Process]) -> None:
    """Keep everything running until a signal ends it."""
    console.print("\nAll of it stays up, what ends is started again; Ctrl-C ends it.")
    # The API server's proxy reaches no service on loopback, so questions go straight to it.
    for command in ("kubectl get pods", f"{plugin()} jobs --server {state}"):
        console.print(f"  KUBECONFIG={plane.kubeconfig} {command}", soft_wrap=True)
    console.print(
        "Service and webhook run beside this API server, as processes: deploy/ is for other clusters.",
        soft_wrap=True,
    )
    upkeep = Upkeep(processes)
    while True:
        for line in upkeep.look():
            console.print(line, soft_wrap=True, markup=False)
        time.sleep(UPKEEP_PERIOD)


def plugin() -> str:
    """How a shell calls the kubectl plugin: as kubectl finds it, else by the path beside this Python."""
    if shutil.which("kubectl") and shutil.which("kubectl-fluence"):
        return "kubectl fluence"
    return str(Path(sys.executable).parent / "kubectl-fluence")
