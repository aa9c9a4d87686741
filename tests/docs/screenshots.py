"""Take the pictures of the dashboard in the documents from the demo's cluster: ``python -m tests.docs.screenshots``."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import ViewportSize

from fluence_extender.demo.embedded import EmbeddedSite
from fluence_extender.demo.manifests import examples, read
from tests.network.browser import chromium, dashboard, origin

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
SIZE: ViewportSize = {"width": 1100, "height": 760}
PICTURES = {
    "dashboard-overview": ("/", "light"),
    "dashboard-queue": ("/queue", "dark"),
    "dashboard-nodes": ("/nodes", "light"),
}
SETTLED = 15.0
"""Seconds in which the examples find their places, and the dashboard sees them change."""


def take() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with EmbeddedSite(6, "lonode") as site, dashboard(site.api_url) as address, chromium() as browser:
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme, viewport=SIZE)
            page.goto(address)
            if scheme == "light":
                for file in examples():
                    for manifest in read(file):
                        site.apply(manifest)
                time.sleep(SETTLED)
            for name, (path, wanted) in PICTURES.items():
                if wanted == scheme:
                    page.goto(origin(address) + path)
                    page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    take()
