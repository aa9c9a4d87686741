"""The documentation site: it is built without a warning, has every page and name, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from fluence_extender.model.keys import KEYS
from tests.docs import catalog
from tests.docs.reading import ROOT
from website.hooks import PROJECT, with_links, with_tables
from website.reference import reference

LOADING = {
    "script",
    "link",
    "img",
    "iframe",
    "source",
    "video",
    "audio",
    "embed",
    "object",
    "track",
    "use",
    "image",
}
"""The elements for which a browser fetches what an attribute names. What `a` and `form` name, users ask for."""

OF_OTHER_HOSTS = ("mermaid", 'data-md-component="source"')
"""What makes the theme's own script fetch from another host: a diagram, and a repository whose stars it shows."""


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder as ``make docs`` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Loaded(HTMLParser):
    """The addresses that a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names."""
        if tag in LOADING:
            self.addresses += [
                value for name, value in attrs if value and name in ("src", "href", "srcset", "data")
            ]


def loaded(html: str) -> list[str]:
    """Return what a browser fetches to show a page."""
    parser = Loaded()
    parser.feed(html)
    return parser.addresses


def elsewhere(addresses: list[str]) -> list[str]:
    """Return the addresses of other hosts."""
    return [one for one in addresses if re.match(r"(?:\w+:)?//", one)]


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for page in sorted(site.rglob("*.html")):
        yield str(page.relative_to(site)), page.read_text()


def test_each_page_of_docs_is_on_the_site(site: Path) -> None:
    written = {
        str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")
    }
    made = {path.replace(".md", ".html") for path in reference()}
    assert written | made | {"404.html"} == {path for path, _ in pages(site)}


def test_pages_load_nothing_from_another_host(site: Path) -> None:
    found = {path: elsewhere(loaded(html)) for path, html in pages(site)}
    assert {path: addresses for path, addresses in found.items() if addresses} == {}
    assert all(len(loaded(html)) > 3 for _, html in pages(site))
    for path, html in pages(site):
        assert [one for one in OF_OTHER_HOSTS if one in html] == [], path
    for style in site.rglob("*.css"):
        assert elsewhere(re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", style.read_text())) == [], style


def test_what_is_loaded_from_another_host_is_found() -> None:
    html = '<link href="//fonts.example.com/a.css"><script src="https://example.com/a.js"></script><img src="a.png">'
    assert elsewhere(loaded(html)) == ["//fonts.example.com/a.css", "https://example.com/a.js"]
    assert elsewhere(loaded('<a href="https://example.com">there</a>')) == []


def test_broken_link_and_page_without_a_place_fail_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# A\n\n[b](missing.md) [c](#nowhere)\n")
    (docs / "left.md").write_text("# B\n")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    settings |= {"docs_dir": str(docs), "hooks": [], "nav": ["index.md"], "theme": {"name": "mkdocs"}}
    file = tmp_path / "mkdocs.yml"
    file.write_text(yaml.safe_dump(settings))
    done = build(tmp_path / "site", "--config-file", str(file))
    assert done.returncode != 0
    for word in ("missing.md", "#nowhere", "left.md"):
        assert re.search(f"WARNING.*{word}|- {word}", done.stderr), done.stderr


def test_reference_has_every_name_of_the_code() -> None:
    made = reference()
    assert [name for name in catalog.metrics() if f"`{name}`" not in made["reference/metrics.md"]] == []
    assert [key.key for key in KEYS if f"`{key.key}`" not in made["reference/keys.md"]] == []
    commands = made["reference/kubectl.md"] + made["reference/service.md"]
    assert [name for name, _ in catalog.commands() if f"\n## {name}\n" not in commands] == []
    missing = [
        (name, word)
        for name, option in catalog.options()
        for word in option.opts
        if f"`{word}`" not in commands.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    ]
    assert missing == []
    for path, parameters in catalog.paths().items():
        (section,) = (
            one
            for one in made["reference/api.md"].split("\n## ")
            if re.sub(r"\{(\w+)(:path)?\}", lambda part: part[1].upper(), one.partition("\n")[0]).endswith(
                f" {path}"
            )
        )
        assert [name for name in parameters if f"`{name}`" not in section] == [], path
    for field in (
        "spec.scheduling.starvationAfter",
        "spec.max.runningPerUser",
        "spec.nodes.selector.matchLabels",
    ):
        assert f"`{field}`" in made["reference/objects.md"]


def test_link_out_of_docs_leads_to_the_project() -> None:
    text = "[a](../deploy/base) [b](../operations.md#replicas) [c](https://example.com) [d](../../tests/x.py)"
    assert with_links(text, "benchmarks/queue.md") == (
        f"[a](../deploy/base) [b](../operations.md#replicas) [c](https://example.com) [d]({PROJECT}tests/x.py)"
    )
    assert with_links("[a](../deploy/base)", "queues.md") == f"[a]({PROJECT}deploy/base)"


def test_diagram_of_states_becomes_a_table() -> None:
    diagram = "```mermaid\nstateDiagram-v2\n    [*] --> A\n    A: waiting\n    B: bound\n    A --> B: it fits\n```\n"
    assert with_tables(diagram) == "| from | to | when |\n|---|---|---|\n| waiting | bound | it fits |\n"
