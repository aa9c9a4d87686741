"""Run the demo: start a control plane and the product on it, apply the examples, and show what becomes of them."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from fluence_extender.demo.manifests import devices, examples, policies, read
from fluence_extender.demo.stack import Stack, Webhook
from fluence_extender.demo.view import Row, picture, rows, watch
from fluence_extender.localcluster import Component, ControlPlane, StartFailed

NAMESPACE = "default"
NODE = {"cpu": "4", "memory": "16Gi", "pods": 110}
UPKEEP_PERIOD = 1.0
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED_EARLY = 130
"""The exit code after an interrupt that came before there was anything to show."""


def run_demo(nodes: int = 6, keep: bool = False, policy: str = "lonode") -> int:
    """Run the demo and return the exit code, 0 if the table was shown. Raise `LocalClusterError`.

    SIGINT and SIGTERM end the demo; no process or file of it remains.
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
    with ControlPlane() as plane:
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
            show(watch(console, lambda: _now(plane, stack)))
            if keep:
                of_plane = (plane.component(name) for name in CONTROL_PLANE)
                ours = filter(None, (stack.extender, stack.scheduler, webhook.process))
                _wait(console, plane, stack.api_url, [*of_plane, default, *ours])


def _console() -> Console:
    """Return a console; where the output isn't a terminal, it is wide enough for the table."""
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


def _wait(console: Console, plane: ControlPlane, state: str, processes: Sequence[Component]) -> None:
    """Keep all processes running until a signal ends the demo."""
    console.print(
        "\nEverything keeps running, and a process that ends is started again. Press Ctrl-C to end the demo."
    )
    # The API server's proxy doesn't reach a service on loopback, so the plugin calls the service directly.
    for command in ("kubectl get pods", f"{plugin()} jobs --server {state}"):
        console.print(f"  KUBECONFIG={plane.kubeconfig} {command}", soft_wrap=True)
    console.print(
        "The service and the webhook run as processes beside this API server; deploy/ is for other clusters.",
        soft_wrap=True,
    )
    upkeep = Upkeep(processes)
    while True:
        for line in upkeep.check():
            console.print(line, soft_wrap=True, markup=False)
        time.sleep(UPKEEP_PERIOD)


class Upkeep:
    """Keeps ``processes`` running, as the kubelet does in a cluster.

    They are given in the order in which they need each other. A process that can't be started is tried again at every
    check until it runs, and is reported once.
    """

    def __init__(self, processes: Sequence[Component]) -> None:
        self._processes = processes
        self._failing: set[str] = set()

    def check(self) -> Iterator[str]:
        """Start each ended process again; yield a line for each thing that happens, as it happens."""
        for one in self._processes:
            if one.running:
                continue
            known = one.name in self._failing
            if not known:
                yield f"{one.name} has ended (log: {one.log}); starting it again"
            try:
                one.start()
            except StartFailed as error:
                self._failing.add(one.name)
                if not known:
                    yield f"{one.name} can't be started; it is tried again: {error}"
            else:
                self._failing.discard(one.name)
                yield f"{one.name} is up again"


def plugin() -> str:
    """Return how a shell calls the kubectl plugin: through kubectl, else by the path beside this Python."""
    if shutil.which("kubectl") and shutil.which("kubectl-fluence"):
        return "kubectl fluence"
    return str(Path(sys.executable).parent / "kubectl-fluence")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a `KeyboardInterrupt`, and ignore later ones, so that clean-up can finish.

    Only the main thread may use this.
    """
    before = {one: signal.signal(one, _end) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _end(number: int, frame: FrameType | None) -> None:
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt
