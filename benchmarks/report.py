"""What the benchmarks with a page in docs/benchmarks share: the description of the machine, tables and pages.

measure      one row of figures after another
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
    """One row of the table."""

    def row(self) -> list[str]:
        """Return its cells, one for each heading."""
        ...


F = TypeVar("F", bound=Figures)


def processor() -> str:
    """Return the model of this machine's CPUs."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def machine() -> str:
    """Describe the machine: CPUs and their load, Python, and the libraries of the server."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    cpus = f"{os.cpu_count()} CPUs ({processor()}, load {os.getloadavg()[0]:.1f})"
    return f"{cpus}, Python {platform.python_version()}, {libraries}"


def table(headings: Sequence[str], found: Sequence[Figures], texts: int = 1) -> list[str]:
    """Return the lines of a Markdown table; the first ``texts`` columns aren't numbers."""
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
    """Run the command of a benchmark: measure, show the table, and with ``--write`` write ``page`` to ``file``."""
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
