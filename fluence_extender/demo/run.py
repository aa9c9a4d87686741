"""Run the demo: start a cluster with the product on it, apply the examples, and show what becomes of them."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console

from fluence_extender.apps.logs import set_up_logging
from fluence_extender.dashboard.command import EXTRA
from fluence_extender.dashboard.tunnel import end
from fluence_extender.demo.manifests import examples, read
from fluence_extender.demo.view import Row, picture, rows, watch

if TYPE_CHECKING:
    from fluence_extender.demo.embedded import EmbeddedSite

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED_EARLY = 130
"""The exit code after an interrupt that came before there was anything to show."""

PACKAGE = "htpy"
"""The package that the dashboard's extra has and that no other part needs."""


def run_demo(nodes: int = 6, keep: bool = False, policy: str = "lonode") -> int:
    """Run the demo and return the exit code, 0 if the table was shown. Raise `DemoError`.

    SIGINT and SIGTERM end the demo; no process or file of it remains.
    """
    set_up_logging(level=logging.WARNING)
    console = _console()
    shown = False

    def show(found: Sequence[Row]) -> None:
        nonlocal shown
        console.print(picture(found, "The examples, as they ended up", console.width))
        shown = True

    try:
        console.print("Starting an embedded cluster.")
        # This takes a second. The import system can lose an exception, so it comes before signals raise one.
        from fluence_extender.demo.embedded import EmbeddedSite

        with ended_by_signals(), EmbeddedSite(nodes, policy) as site:
            demonstrate(console, site, show)
            if keep:
                _wait(console, site)
    except KeyboardInterrupt:
        console.print("stopped")
    return 0 if shown else STOPPED_EARLY


def demonstrate(console: Console, site: EmbeddedSite, show: Callable[[Sequence[Row]], None]) -> None:
    """Apply the examples on ``site``, follow them live, and ``show`` the rows in which they end."""
    console.print(site.introduction(), soft_wrap=True)
    for file in examples():
        for manifest in read(file):
            site.apply(manifest)
        console.print(f"applied {file.name}")
    show(watch(console, lambda: rows(site.gangs(), site.pods())))
    console.print(
        "Simulated: the API server, its controllers, kubelets and kube-scheduler. "
        "On kind, or on a cluster of yours: docs/start.md",
        soft_wrap=True,
    )


def _console() -> Console:
    """Return a console; where the output isn't a terminal, it is wide enough for the table."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 160))


def _wait(console: Console, site: EmbeddedSite) -> None:
    """Keep everything running until a signal ends the demo."""
    console.print("\nEverything keeps running. Press Ctrl-C to end the demo.")
    with dashboard_of(site.api_url) as line:
        console.print(line, soft_wrap=True, markup=False)
        for command in site.commands():
            console.print(f"  {command}", soft_wrap=True)
        while True:
            time.sleep(3600)


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


@contextmanager
def dashboard_of(api_url: str) -> Iterator[str]:
    """Yield the line that says where the dashboard is, or how to get one; it is there until the context ends."""
    if find_spec(PACKAGE) is None:
        yield f"The dashboard needs one package more: pip install '{EXTRA}', then start the demo again."
        return
    command = [sys.executable, "-m", "fluence_extender.apps.kubectl.main", "dashboard", "--no-browser"]
    # In a session of its own, so that Ctrl-C reaches the demo alone, which then ends it.
    with subprocess.Popen(
        [*command, "--server", api_url], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip() or "The dashboard didn't start; its message is above."
        finally:
            end(process)
