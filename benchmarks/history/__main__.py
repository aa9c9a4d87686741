"""Measure the questions of ``/v1/usage`` and ``/v1/history`` over a million jobs of a year, on both databases.

    python -m benchmarks.history [--jobs 1000000] [--rounds 5] [--databases sqlite postgresql] [--write]

Each question is asked through the application of the state API. PostgreSQL's packages have to be there for its part.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
from rich.console import Console
from sqlalchemy import URL

from benchmarks.history.questions import GOAL, QUESTIONS, Question, callers
from benchmarks.history.year import DAYS, NOW, fill
from benchmarks.report import PAGES, machine
from fluence_extender.accounting.address import parse_address
from fluence_extender.accounting.reader import DatabaseReader
from fluence_extender.http.listeners.gate import ReviewingGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from tests.unit.accounting.postgresql import PostgresServer
from tests.unit.http.held_placements import HeldPlacements

PAGE = PAGES / "history.md"
DATABASES = ("sqlite", "postgresql")
console = Console(width=150)

HEAD = """# The account of past work

How long the answers of [`/v1/usage` and `/v1/history`](../accounting.md) take over a year of {jobs:,} jobs. Made by
`python -m benchmarks.history --write`.
"""

NOTES = """Each figure is the middle of {rounds} rounds, in milliseconds until the state API's whole answer is there.
The year has {days} days. The jobs have one pod each and are charged to 500 users, 100 namespaces, 30 queues and
60 accounts. `admin` may list the pods of all namespaces, `lead` those of half of them, and `user-7` those of one. Both
databases have their default settings, and a first round, which isn't counted, brings what is asked into memory.

Use by day is added up from a row for each day and namespace, other use from a row for each period of 32 days and
user. Runs are found in indexes that have what they are filtered by; only the rows that are shown are read. What these
answers cost therefore grows with the number of jobs where nothing fits: a queue that none of a reader's namespaces has
used is looked for among all their runs.
"""


def main() -> None:
    """Measure, print the table, and with ``--write`` write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument(
        "--rounds", type=int, default=5, help="of each question, of which the middle one counts"
    )
    parser.add_argument("--databases", nargs="*", choices=DATABASES, default=DATABASES)
    parser.add_argument("--write", action="store_true", help=f"write docs/benchmarks/{PAGE.name}")
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    for name in given.databases:
        with _database(name) as url:
            console.print(f"writing {given.jobs:,} jobs into {name}")
            fill(url, given.jobs)
            found[name] = asyncio.run(_measure(url, given.rounds))
    lines = _table(found)
    console.print("\n".join(lines), markup=False)
    if given.write:
        PAGE.write_text(_page(lines, given.jobs, given.rounds), encoding="utf-8")


@contextmanager
def _database(name: str) -> Iterator[URL]:
    """Give a new, empty database of that kind."""
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield parse_address(str(Path(folder, "history.db")))
    else:
        with closing(PostgresServer()) as server:
            yield parse_address(server.database())


async def _measure(url: URL, rounds: int) -> list[float]:
    """Return for each question the milliseconds until its whole answer is there, in the middle one of the rounds."""
    placements = HeldPlacements()
    placements.account = DatabaseReader(url, clock=lambda: NOW)
    transport = httpx.ASGITransport(api_app(placements, Metrics(), gate=ReviewingGate(callers())))
    found: list[list[float]] = [[] for _ in QUESTIONS]
    async with httpx.AsyncClient(transport=transport, base_url="https://extender") as client:
        for _ in range(rounds + 1):
            for times, question in zip(found, QUESTIONS, strict=True):
                times.append(await _asked(client, question))
    placements.account.close()
    # The first round brings the database's pages into memory, and the rights of callers into the gate's.
    return [statistics.median(times[1:]) for times in found]


async def _asked(client: httpx.AsyncClient, question: Question) -> float:
    began = time.perf_counter()
    answer = await client.get(question.path, headers={"Authorization": f"Bearer {question.caller}"})
    took = time.perf_counter() - began
    if answer.status_code == 503:
        return math.inf
    answer.raise_for_status()
    return took * 1000


def _table(found: dict[str, list[float]]) -> list[str]:
    """Return the figures as a table in Markdown."""
    lines = [
        f"| question | asked by | {' | '.join(f'{name} ms' for name in found)} |",
        f"|---|---|{'---:|' * len(found)}",
    ]
    for number, question in enumerate(QUESTIONS):
        figures = " | ".join(f"{times[number]:.0f}" for times in found.values())
        lines.append(f"| `{question.path}` | {question.caller} | {figures} |")
    slowest = " | ".join(f"**{max(times):.0f}**" for times in found.values())
    return [*lines, f"| the slowest (goal: {GOAL}) | | {slowest} |"]


def _page(lines: Sequence[str], jobs: int, rounds: int) -> str:
    """Return the page of the documentation."""
    head = HEAD.format(jobs=jobs)
    return "\n".join([head, f"Machine: {machine()}.", "", *lines, "", NOTES.format(rounds=rounds, days=DAYS)])


if __name__ == "__main__":
    main()
