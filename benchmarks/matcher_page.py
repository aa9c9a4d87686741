"""Write the measured figures as a page: goals, tables of times and ratios, and a plot as SVG."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.report import processor

Figures = dict[str, float]
Measured = dict[str, dict[str, Figures]]
"""Policy -> engine -> figure -> seconds (or MiB)."""

OWN, LIBRARY = "counts", "libreapi_cli"
GOAL_SIZE, LARGE = 5_000, 15_000


@dataclass(frozen=True)
class Goal:
    """A goal for a figure at 5,000 nodes: how many times cheaper than libreapi_cli it has to be."""

    name: str
    policy: str
    figure: str
    least: float


GOALS = (
    Goal("load", "lonode", "load", 25),
    Goal("`lonode`, 1 slot", "lonode", "empty: 1 x (core, memory)", 300),
    Goal("`lonode`, 512 slots", "lonode", "empty: 512 x (core, memory)", 40),
    Goal("`first`, 512 slots", "first", "empty: 512 x (core, memory)", 10),
    Goal("`first`, 1 slot", "first", "empty: 1 x (core, memory)", 1),
    Goal("cancel of 512 slots", "lonode", "cancel of 512", 10),
    Goal("add a node", "lonode", "add a node", 100),
    Goal("remove a node", "lonode", "remove a node", 100),
    Goal("RSS of the graph", "lonode", "RSS of the graph, MiB", 15),
    Goal("RSS of the process", "lonode", "RSS of the process, MiB", 15),
)


def report(measured: dict[int, Measured]) -> str:
    """Return the page in Markdown."""
    lines = [
        "# Matching, compared with libreapi_cli",
        "",
        "Flat clusters of nodes with 32 cores, 32 units of memory and 4 gpus; prune filters",
        "`ALL:core,ALL:memory,ALL:gpu`. A match is timed with its placement and R read; each figure is the",
        "median of several calls, in milliseconds of CPU time.",
        "*counts* is the embedded engine on a document with counts,",
        "*walker* the same engine on a document with a vertex for each leaf. Half-full: 15 of 32 cores",
        "of every node are allocated; fragmented: every second of ten jobs of 3 cores on each node has ended.",
        "The RSS of the graph is the memory that loading adds to the process.",
        "Made by `python -m benchmarks.matcher --write`.",
        "",
        f"Machine: {os.cpu_count()} CPUs ({processor()}, load {os.getloadavg()[0]:.1f}),"
        f" Python {platform.python_version()}.",
        "",
        *_goals(measured),
        "![Milliseconds of a match by cluster size](matcher.svg)",
        "",
    ]
    for size, by_policy in measured.items():
        for policy, by_engine in by_policy.items():
            lines += [f"## {size:,} nodes, `{policy}`", "", *_table(by_engine), ""]
    return "\n".join(lines).rstrip()


def _goals(measured: dict[int, Measured]) -> Iterator[str]:
    at_size = measured.get(GOAL_SIZE, {})
    rows = []
    for goal in GOALS:
        engines = at_size.get(goal.policy, {})
        own, theirs = (engines.get(name, {}).get(goal.figure) for name in (OWN, LIBRARY))
        if own and theirs:
            rows.append((goal.name, f"{theirs / own:,.1f}", f"{goal.least:,.0f}", theirs / own >= goal.least))
    if not rows:
        return
    yield f"At {GOAL_SIZE:,} nodes, libreapi_cli's figure over that of counts:"
    yield ""
    yield "| | ratio | goal | |"
    yield "|---|---:|---:|---|"
    for name, ratio, least, met in rows:
        yield f"| {name} | {ratio} | ≥ {least} | {'met' if met else 'missed'} |"
    yield from _growth(measured)
    yield ""


def _growth(measured: dict[int, Measured]) -> Iterator[str]:
    for policy in measured[GOAL_SIZE]:
        own = measured[GOAL_SIZE][policy][OWN]
        figure = "empty: 512 x (core, memory)"
        large = measured.get(LARGE, {}).get(policy, {}).get(OWN)
        if large:
            ratio = large[figure] / own[figure]
            yield _bound(f"`{policy}`, 512 slots: {LARGE:,} nodes over {GOAL_SIZE:,}", ratio, 1.5)


def _bound(name: str, ratio: float, most: float) -> str:
    return f"| {name} | {ratio:,.2f} | ≤ {most:g} | {'met' if ratio <= most else 'missed'} |"


def _table(by_engine: dict[str, Figures]) -> Iterator[str]:
    engines = list(by_engine)
    others = [engine for engine in engines if engine != OWN]
    heads = ["", *engines, *(f"{engine} / {OWN}" for engine in others)]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|" + "---:|" * (len(heads) - 1)
    for figure, own in by_engine[OWN].items():
        is_size = figure.endswith("MiB")
        cells = [figure]
        for engine in engines:
            value = by_engine[engine].get(figure)
            cells.append("-" if value is None else f"{value if is_size else value * 1e3:,.3g}")
        for engine in others:
            value = by_engine[engine].get(figure)
            cells.append("-" if value is None else f"{value / own:,.1f}")
        yield "| " + " | ".join(cells) + " |"


COLOURS = {"counts": "#1b7837", "walker": "#b2791d", "libreapi_cli": "#762a83"}
PANELS = (
    ("lonode, 1 slot", "lonode", "empty: 1 x (core, memory)"),
    ("lonode, 512 slots", "lonode", "empty: 512 x (core, memory)"),
    ("first, 512 slots", "first", "empty: 512 x (core, memory)"),
    ("lonode, 512 slots, fragmented", "lonode", "fragmented: 512 x (core, memory)"),
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 210, 180, 48, 34
_LOW, _HIGH = -2, 5
"""Powers of ten of a millisecond that the axis spans."""


def plot(measured: dict[int, Measured]) -> str:
    """Draw milliseconds over nodes, both on logarithmic scales, with one panel for each kind of match."""
    step = _WIDTH + _LEFT + 16
    width, height = step * len(PANELS), _TOP + _HEIGHT + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        f' font-size="11"><rect width="{width}" height="{height}" fill="white"/>'
    ]
    sizes = sorted(measured)
    for place, (title, policy, figure) in enumerate(PANELS):
        parts += _panel(place * step + _LEFT, title, policy, figure, sizes, measured)
    for place, (engine, colour) in enumerate(COLOURS.items()):
        x = _LEFT + 130 * place
        parts.append(
            f'<rect x="{x}" y="{height - 16}" width="12" height="4" fill="{colour}"/>'
            f'<text x="{x + 18}" y="{height - 10}">{engine}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    left: int, title: str, policy: str, figure: str, sizes: list[int], measured: dict[int, Measured]
) -> Iterator[str]:
    yield f'<text x="{left}" y="{_TOP - 14}" font-weight="bold">{title}</text>'
    for power in range(_LOW, _HIGH + 1):
        y = _y(10.0**power)
        label = f"{10.0**power:g} ms" if power < 3 else f"{10 ** (power - 3)} s"
        yield f'<line x1="{left}" x2="{left + _WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{left - 4}" y="{y + 4}" text-anchor="end">{label}</text>'
    for size in sizes:
        x = left + _x(size, sizes)
        yield f'<text x="{x}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{size:,}</text>'
    for engine, colour in COLOURS.items():
        points = []
        for size in sizes:
            seconds = measured[size].get(policy, {}).get(engine, {}).get(figure)
            if seconds is not None:
                points.append((left + _x(size, sizes), _y(seconds * 1e3)))
        if points:
            line = " ".join(f"{x},{y}" for x, y in points)
            yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
            yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points)


def _x(size: int, sizes: list[int]) -> int:
    if len(sizes) == 1:
        return _WIDTH // 2
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])
    return round(12 + (_WIDTH - 24) * (math.log10(size) - low) / (high - low))


def _y(milliseconds: float) -> int:
    power = min(max(math.log10(milliseconds), _LOW), _HIGH)
    return round(_TOP + _HEIGHT * (_HIGH - power) / (_HIGH - _LOW))
