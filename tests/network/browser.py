"""A real Chromium, and the dashboard as ``kubectl fluence dashboard`` serves it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the Chromium of this machine; .ci/run installs one where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, f"none of {', '.join(PROGRAMS)} is on the PATH; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        # Chromium's own sandbox doesn't work for root, as which containers run.
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=program, args=sandbox)
        yield browser
        browser.close()


@contextmanager
def dashboard(server: str = "", *arguments: str) -> Iterator[str]:
    """Yield the address that the command prints for the service at ``server``, or for other ``arguments``."""
    command = [sys.executable, "-m", "fluence_extender.apps.kubectl.main", "dashboard", "--no-browser"]
    command += [*(("--server", server) if server else ()), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(10)


def origin(address: str) -> str:
    """Return an address without path and key."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
