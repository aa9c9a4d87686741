"""Take the pictures of the dashboard in the documents from the demo's cluster: ``python -m tests.docs.screenshots``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ViewportSize

from fluence_extender.demo.embedded import EmbeddedSite
from fluence_extender.demo.manifests import examples, read
from fluence_extender.model.names import DURATION_ANNOTATION
from tests.network.browser import chromium, dashboard, origin

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
SIZE: ViewportSize = {"width": 1100, "height": 760}
PICTURES: dict[str, tuple[str, Literal["light", "dark"]]] = {
    "dashboard-overview": ("/", "light"),
    "dashboard-queue": ("/queue", "dark"),
    "dashboard-nodes": ("/nodes", "light"),
}
SETTLED = 15.0
"""Seconds in which the examples find their places, and the dashboard sees them change."""


def job(name: str, pods: int, cpu: str, minutes: int) -> dict[str, Any]:
    """Return a Job that is a gang and says how long it runs."""
    notes = {DURATION_ANNOTATION: f"{minutes}m"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    pod = {"schedulerName": "fluence", "restartPolicy": "Never", "containers": [container]}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "template": {"metadata": {"annotations": notes}, "spec": pod}},
    }


def picture(browser: Browser, address: str, name: str, folder: Path) -> Path:
    """Take one of the pictures; ``address`` is that of the dashboard, with its key."""
    path, scheme = PICTURES[name]
    page = browser.new_page(color_scheme=scheme, viewport=SIZE)
    page.goto(address)
    page.goto(origin(address) + path)
    file = folder / f"{name}.png"
    page.screenshot(path=file)
    page.close()
    return file


def take() -> None:
    """Write all pictures: of the examples, and of a wide gang that waits while a small one fills the gap."""
    FOLDER.mkdir(exist_ok=True)
    with EmbeddedSite(6, "lonode") as site, dashboard(site.api_url) as address, chromium() as browser:
        browser.new_page().goto(address)
        for file in examples():
            for manifest in read(file):
                site.apply(manifest)
        time.sleep(SETTLED)
        for one in (job("relax", 2, "4", 30), job("wide", 3, "3", 60), job("filler", 1, "2", 10)):
            site.apply(one)
            time.sleep(SETTLED / 3)
        for name in PICTURES:
            picture(browser, address, name, FOLDER)


if __name__ == "__main__":
    take()
