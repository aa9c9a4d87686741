"""The dashboard of a demo that keeps running: the plugin's own command, as a process beside the demo."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from fluence_extender.dashboard.command import EXTRA
from fluence_extender.dashboard.tunnel import end

PACKAGE = "htpy"
"""The package that the extra has and that no other part needs."""


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
