"""The pages' links lead somewhere, their blocks can be read, and the first page stays one to be read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs.reading import PAGES, ROOT, Fence, fences

FENCES = [one for page in PAGES for one in fences(page)]
LANGUAGES = {"", "console", "sh", "yaml", "toml", "python", "mermaid"}


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


def test_link_to_a_missing_heading_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## It's *one*: part\n")
    assert anchors(page) == {"a-page", "its-one-part"}


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.where)
def test_block_can_be_read_as_what_it_is_said_to_be(fence: Fence) -> None:
    assert fence.language in LANGUAGES
    match fence.language:
        case "yaml":
            assert [*yaml.safe_load_all(fence.text)]
        case "toml":
            assert tomllib.loads(fence.text)
        case "python":
            compile(fence.text, fence.where, "exec")


def test_the_first_page_stays_one_to_be_read() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
