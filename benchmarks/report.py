"""What the benchmarks that fill a page of docs/benchmarks have in common: the machine, the table, the page.

measure      a row of figures after the other
show         as a table on the terminal
--write      as a page of the documentation
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console
from rich.table import Table

PAGES = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
LIBRARIES = ("uvicorn", "uvloop", "fastapi", "msgspec")


class Figures(Protocol):
    """What one row of the table tells."""

    def row(self) -> list[str]:
        """Its cells, as many as there are headings."""
        ...


F = TypeVar("F", bound=Figures)


def processor() -> str:
    """The model of this machine's CPUs."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def machine() -> str:
    """What figures are taken on: CPUs and their load, Python, the libraries that serve."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    cpus = f"{os.cpu_count()} CPUs ({processor()}, load {os.getloadavg()[0]:.1f})"
    return f"{cpus}, Python {platform.python_version()}, {libraries}"


def table(headings: Sequence[str], found: Sequence[Figures], texts: int = 1) -> list[str]:
    """The lines of a table in Markdown; the first ``texts`` columns aren't numbers."""
    return [
        "| " + " | ".join(headings) + " |",
        "|" + "---|" * texts + "---:|" * (len(headings) - texts),
        *("| " + " | ".join(one.row()) + " |" for one in found),
    ]


def report(
    file: Path,
    description: str,
    headings: Sequence[str],
    measure: Callable[[], Sequence[F]],
    page: Callable[[Sequence[F], str], str],
) -> None:
    """Be the command of a benchmark: measure, show, and write to ``file`` what ``page`` makes of it if asked."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--write", action="store_true", help=f"also write docs/benchmarks/{file.name}")
    asked = parser.parse_args()
    where = machine()
    found = measure()
    shown = Table(title=where)
    for heading in headings:
        shown.add_column(heading, justify="right")
    for one in found:
        shown.add_row(*one.row())
    Console(width=150).print(shown)
    if asked.write:
        file.write_text(page(found, where), encoding="utf-8")
