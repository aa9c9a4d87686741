"""Measure the dashboard with 20 visitors at 5,000 nodes and 10,000 gangs in line.

Times of pages are given as they passed and as CPU time of the dashboard, which a busy machine doesn't change.

    python -m benchmarks.dashboard [--write]
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from benchmarks.dashboard.service import CHANGED, CHANGED_AT, NODES, WAITING
from benchmarks.report import PAGES, report, table

VISITORS = 20
WATCHED = 45.0
"""Seconds in which the share of CPU is measured."""

SETTLING = 12.0
"""Seconds until the service changes nothing any more, or until all visitors have their pages."""

RESTING, SINGLE = 15.0, 4
"""Seconds between changes that come one by one, and how often such seconds pass."""

ROUNDS = 5
REPORT = PAGES / "dashboard.md"
SHOWN = (
    "/",
    "/queue",
    "/gangs",
    "/gangs?page=50",
    "/gangs/team-7/wait-7",
    "/nodes",
    "/nodes?rack=r7",
    "/nodes/n7",
    "/devices",
    "/search?q=wait-99",
    "/what-if",
)
HEADINGS = ("", "takes", "CPU", "size", "takes beside 20 visitors")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figure:
    """How long something takes, and the CPU time of the dashboard for it, as text."""

    what: str
    takes: str
    computed: str
    size: str = ""
    beside: str = ""

    def row(self) -> list[str]:
        """Return the cells of the table."""
        return [self.what, self.takes, self.computed, self.size, self.beside]


@dataclass(frozen=True, slots=True)
class PageTime:
    """How long a page takes, in seconds, and its bytes."""

    passed: float
    computed: float
    size: int

    def figure(self, what: str, beside: str = "") -> Figure:
        """Return it as a row."""
        times = (f"{self.passed * 1000:.0f} ms", f"{self.computed * 1000:.0f} ms")
        return Figure(what, *times, f"{self.size / 1024:.0f} KiB", beside)


@contextmanager
def started(*command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a process and the last word of its first line."""
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def cpu_of(process: subprocess.Popen[str]) -> float:
    """Return the CPU time that a process has taken, in seconds."""
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def timed(client: httpx.AsyncClient, process: subprocess.Popen[str], path: str) -> PageTime:
    """Ask for a page once."""
    computed, began = cpu_of(process), time.monotonic()
    answer = await client.get(path)
    answer.raise_for_status()
    return PageTime(time.monotonic() - began, cpu_of(process) - computed, len(answer.content))


async def watching(client: httpx.AsyncClient, path: str, until: float) -> None:
    """Keep a page open as a browser does."""
    tag = ""
    while time.monotonic() < until:
        answer = await client.get(path, headers={"Fluence-Wait": tag})
        tag = answer.headers.get("ETag", tag).strip('"')


async def visiting(client: httpx.AsyncClient, seconds: float) -> None:
    """Keep the pages of all visitors open."""
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for number in range(VISITORS):
            group.create_task(watching(client, SHOWN[number % (len(SHOWN) - 1)], until))


async def share(client: httpx.AsyncClient, process: subprocess.Popen[str]) -> tuple[float, list[float]]:
    """Return which part of a core the dashboard takes while all visitors have pages open, and the ages of changes."""
    computed, began = cpu_of(process), time.monotonic()
    _, seen = await asyncio.gather(visiting(client, WATCHED), ages(client, WATCHED))
    return (cpu_of(process) - computed) / (time.monotonic() - began), seen


def aged(seen: Sequence[float]) -> str:
    """Return the middle and the longest of ages as text."""
    return f"a change is seen after {seen[len(seen) // 2]:.1f} s, {seen[-1]:.1f} s at most" if seen else ""


async def ages(client: httpx.AsyncClient, seconds: float) -> list[float]:
    """Return how old changes are when they are seen on the overview; each is a new answer to a page that is open."""
    found: list[float] = []
    tag, until = "", time.monotonic() + seconds
    while time.monotonic() < until:
        answer = await client.get("/", headers={"Fluence-Wait": tag})
        now = time.monotonic()
        tag = answer.headers.get("ETag", tag).strip('"')
        if shown := re.search(rf"{CHANGED_AT}([0-9.]+)", answer.text):
            found.append(now - float(shown[1]))
    # The first answer shows what was known before.
    return sorted(found[1:])


async def one_change(client: httpx.AsyncClient, service: str) -> list[float]:
    """Return how old single changes are when they are seen beside the visitors, each after a rest."""
    visitors = asyncio.create_task(visiting(client, SINGLE * RESTING))
    watching_one = asyncio.create_task(ages(client, SINGLE * RESTING))
    for _ in range(SINGLE - 1):
        await asyncio.sleep(RESTING)
        await client.post(f"{service}/once")
    await visitors
    return await watching_one


async def beside_visitors(client: httpx.AsyncClient, process: subprocess.Popen[str]) -> list[str]:
    """Return how long each page takes one more visitor while the pages of the others are kept new."""
    visitors = asyncio.create_task(visiting(client, WATCHED))
    await asyncio.sleep(SETTLING)
    found = [await slowest(client, process, path) for path in SHOWN]
    await visitors
    return [f"{one.passed * 1000:.0f} ms" for one in found]


async def measure() -> list[Figure]:
    """Measure all."""
    with started("benchmarks.dashboard.service") as (_, port):
        service = f"http://127.0.0.1:{port}"
        command = ("fluence_extender.apps.kubectl.main", "dashboard", "--no-browser", "--server", service)
        with started(*command) as (process, address):
            limits = httpx.Limits(max_connections=2 * VISITORS)
            base, _, key = address.partition("/?key=")
            async with httpx.AsyncClient(base_url=base, timeout=60, limits=limits) as client:
                await client.get("/what-if", params={"key": key})
                first = await timed(client, process, "/")
                await client.post(f"{service}/still")
                await asyncio.sleep(SETTLING)
                alone = [await slowest(client, process, path) for path in SHOWN]
                still, _ = await share(client, process)
                single = await one_change(client, service)
                await client.post(f"{service}/busy")
                busy, seen = await share(client, process)
                beside = await beside_visitors(client, process)
    return [
        first.figure("the first page after the start"),
        *(one.figure(f"`{path}`", other) for path, one, other in zip(SHOWN, alone, beside, strict=True)),
        Figure(f"{VISITORS} visitors, nothing changes", "", f"{still:.1%} of a core"),
        Figure(f"{VISITORS} visitors, a change each {RESTING:.0f} s", aged(single), ""),
        Figure(f"{VISITORS} visitors, {CHANGED} changes a second", aged(seen), f"{busy:.1%} of a core"),
    ]


async def slowest(client: httpx.AsyncClient, process: subprocess.Popen[str], path: str) -> PageTime:
    """Return the longest times of some rounds, none of which finds the page made already."""
    mark = "&" if "?" in path else "?"
    found = [await timed(client, process, f"{path}{mark}round={number}") for number in range(ROUNDS)]
    return PageTime(
        max(one.passed for one in found), max(one.computed for one in found), max(one.size for one in found)
    )


def page(found: Sequence[Figure], where: str) -> str:
    """Return the figures as a page of the documentation."""
    lines = [
        "# The dashboard on a large cluster",
        "",
        f"{NODES:,} nodes, {WAITING:,} gangs in line and 1,000 that run. Pages are asked for one after another, each",
        f"{ROUNDS} times anew, and the longest time counts. Then {VISITORS} visitors keep pages open for",
        f"{WATCHED:.0f} s: while nothing changes, while {CHANGED} gangs change each {RESTING:.0f} s, and while as many",
        "change each second. One more page tells how old a change is when it is seen: half of the time, and at most.",
        "In the last column, one more visitor asks for the same pages beside them while gangs change each second.",
        "CPU is that of the dashboard's process, which",
        "hardly depends on what else the machine does. The times that passed do.",
        "Made by `nice -n -15 python -m benchmarks.dashboard --write` as root, with priority over other work of the",
        "machine.",
        "",
        f"Machine: {where}.",
        "",
        *table(HEADINGS, found),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, show the figures, and write the page with ``--write``."""
    report(REPORT, "Time the dashboard on a large cluster.", HEADINGS, lambda: asyncio.run(measure()), page)


if __name__ == "__main__":
    main()
