"""What mkdocs is told besides mkdocs.yml.

Pages in docs/ are read on GitHub, too, so they link to files of the project by relative paths and show a diagram as
Mermaid does. On the site, a link that leaves docs/ leads to the file on GitHub, and a diagram of states is a table: the
program that draws diagrams would be loaded from another host. The pages of reference are added here.
"""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import Any

from mkdocs.structure.files import File, Files

from website.reference import reference

PROJECT = "https://github.com/converged-computing/fluence-extender/blob/main/"

_LINK = re.compile(r"(?<=\]\()(\.\./[^)\s]+)(?=\))")
_DIAGRAM = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^ *(\w+) --> (\w+): (.+)$", re.MULTILINE)
_NAME = re.compile(r"^ *(\w+): (.+)$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of reference."""
    for path, text in reference().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Return a page as the site shows it."""
    return with_tables(with_links(markdown, page.file.src_uri))


def with_links(markdown: str, path: str) -> str:
    """Return the page at ``path`` below docs/ with its links out of docs/ led to the project."""

    def led(link: re.Match[str]) -> str:
        target = normpath(join("docs", dirname(path), link[1]))
        return link[1] if target.startswith("docs/") else PROJECT + target

    return _LINK.sub(led, markdown)


def with_tables(markdown: str) -> str:
    """Return a page with its diagrams of states as tables."""

    def table(diagram: re.Match[str]) -> str:
        names = {key: name for key, name in _NAME.findall(diagram[1])}
        steps = [(names[one], names[other], why) for one, other, why in _STEP.findall(diagram[1])]
        return "\n".join(
            ["| from | to | when |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in steps)]
        )

    return _DIAGRAM.sub(table, markdown)
