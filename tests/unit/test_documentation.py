"""What the pages say of options, reasons and paths is what there is, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from fluence_extender.apps.cli import main, serve, webhook
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.model.reason import ReasonCode
from tests.unit.http.held_placements import HeldPlacements

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [
    README,
    *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


def test_options_of_serve_are_documented_with_their_environment() -> None:
    for option in serve.params:
        assert isinstance(option, click.Option)
        names = option.envvar if isinstance(option.envvar, list) else [option.envvar]
        for name in (*option.opts, *names):
            assert f"`{name}" in OPERATIONS, name


def test_options_of_webhook_are_documented_with_their_environment() -> None:
    page = (ROOT / "docs" / "webhook.md").read_text()
    for option in webhook.params:
        assert isinstance(option, click.Option)
        names = option.envvar if isinstance(option.envvar, list) else [option.envvar]
        for name in (*option.opts, *names):
            assert f"`{name}" in page, name


def test_commands_are_shown() -> None:
    shown = "\n".join(page.read_text() for page in PAGES)
    for command in main.commands:
        assert f"fluence-extender {command}" in shown or command == "version", command


def test_reasons_are_explained() -> None:
    table = README.read_text().partition("## When it goes wrong")[2]
    for why in ReasonCode:
        assert f"`{why}" in table, why


def test_paths_of_the_state_api_are_listed() -> None:
    paths = api_app(HeldPlacements(), Metrics()).openapi()["paths"]
    for path in paths:
        shown = re.sub(r"\{(\w+)(:path)?\}", lambda part: part[1].upper(), path)
        assert f"`{shown}`" in OPERATIONS, path


def test_the_first_page_stays_one_to_be_read() -> None:
    assert len(README.read_text().splitlines()) <= 200
