"""What the project's texts show: their fenced blocks, their code spans, and the commands in both.

Read are the pages (Markdown), and the comments of examples/ and deploy/. Everything knows its file and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
COMMENTED = tuple(
    path
    for folder in ("examples", "deploy")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix == ".yaml" or path.name == "build.py"
)
PROGRAMS = (
    *("kubectl", "kubectl-fluence", "fluence-extender", "fluence-sidecar", "make", "python", "pip", "docker"),
    *("curl", "tests/kind/run.sh", ".venv/bin/python", ".venv/bin/pre-commit"),
)
"""What a span, an indented line or a comment has to begin with to be a command; a block of shell is one in any case."""

SHELL = ("console", "sh", "bash")

_FENCE = re.compile(r"^( *)```([\w-]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_PROGRAM = "|".join(map(re.escape, PROGRAMS))
_BEGINS = re.compile(rf"(?:{_PROGRAM})(?: |$)")
_INDENTED = re.compile(rf"^ {{4,}}((?:{_PROGRAM}) .*)$", re.MULTILINE)
# A command stands in a comment of its own line: indented, or with the option that names a file.
_COMMENT = re.compile(rf"^ *(?:#|) {{3,}}((?:{_PROGRAM}) .*)$|^# ((?:{_PROGRAM}) .* -[fk] .*)$", re.MULTILINE)
_REMARK = re.compile(r" {3,}\(.*\)$")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of a page."""

    where: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class CodeSpan:
    """A code span in running text; its lines are joined."""

    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A command: a ``whole`` one that users can type, or a part of one in running text."""

    where: str
    text: str
    whole: bool


def fences(page: Path) -> list[Fence]:
    """Return the fenced blocks of a page."""
    text = page.read_text()
    return [
        Fence(_where(page, text, one.start()), one[2], _dedented(one[3], one[1]))
        for one in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """Return a page with its fenced blocks emptied; lines keep their numbers."""
    return _FENCE.sub(lambda one: "\n" * one[0].count("\n"), page.read_text())


@cache
def spans() -> tuple[CodeSpan, ...]:
    """Return the code spans of all pages."""
    return tuple(
        CodeSpan(_where(page, text, one.start()), " ".join(one[1].split()))
        for page in PAGES
        for text in (prose(page),)
        for one in _SPAN.finditer(text)
    )


@cache
def commands() -> tuple[Shown, ...]:
    """Return all commands, in the order of the texts."""
    return tuple(one for page in PAGES for one in _of_page(page)) + tuple(
        one for file in COMMENTED for one in of_comments(file.read_text(), _name(file))
    )


def _of_page(page: Path) -> Iterator[Shown]:
    text = prose(page)
    for one in fences(page):
        if one.language in SHELL:
            yield from (Shown(one.where, line, True) for line in typed(one.text, one.language == "console"))
    for line in _INDENTED.finditer(text):
        yield Shown(_where(page, text, line.start()), line[1], True)
    for span in spans():
        if span.where.startswith(f"{_name(page)}:") and _BEGINS.match(span.text):
            yield Shown(span.where, span.text, False)


def typed(text: str, prompted: bool) -> list[str]:
    """Return the commands of a block of shell.

    Where there are prompts, other lines are output or a document. A command that is shown to fail is left out.
    """
    lines = text.replace("\\\n", " ").splitlines()
    if not prompted:
        return [line for line in lines if line.strip()]
    following = [*lines[1:], ""]
    return [
        line.removeprefix("$ ")
        for line, next_line in zip(lines, following, strict=True)
        if line.startswith("$ ") and not next_line.startswith("error: ")
    ]


def of_comments(text: str, name: str) -> Iterator[Shown]:
    """Return the commands in the comments of a manifest, or in the docstring of a script."""
    joined = re.sub(r"\\\n# +", " ", text)
    for one in _COMMENT.finditer(joined):
        where = f"{name}:{joined.count(chr(10), 0, one.start()) + 1}"
        yield Shown(where, _REMARK.sub("", one[1] or one[2]), True)


def _where(page: Path, text: str, at: int) -> str:
    return f"{_name(page)}:{text.count(chr(10), 0, at) + 1}"


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _dedented(text: str, indent: str) -> str:
    return "\n".join(line.removeprefix(indent) for line in text.splitlines()) + "\n"
