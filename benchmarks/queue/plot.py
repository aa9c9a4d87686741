"""Draw as SVG which share of the jobs waits longer than some time, one curve for each scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 420, 60, 230, 40, 50
TIMES = ((10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36_000, "10 h"), (360_000, "100 h"))
SHORTEST, LONGEST = 10.0, 1_000_000.0


def curves(title: str, waits: Mapping[str, Sequence[float]]) -> str:
    """Draw a curve for each of ``waits``, which are the waits of all jobs in seconds by scheduler."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="12" y="20" font-size="14">{title}</text>',
        *_grid(),
    ]
    for number, (name, some) in enumerate(waits.items()):
        colour = COLOURS[number % len(COLOURS)]
        dashes = ' stroke-dasharray="6 4"' if name.startswith("reference") else ""
        lines.append(
            f'<polyline points="{_points(some)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        y, x = TOP + 14 + 20 * number, WIDTH - RIGHT + 20
        lines.append(f'<path d="M{x} {y - 4} h24" stroke="{colour}" stroke-width="2"{dashes}/>')
        lines.append(f'<text x="{x + 32}" y="{y}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _points(waits: Sequence[float]) -> str:
    rising = sorted(waits)
    steps = [(SHORTEST, sum(one > SHORTEST for one in rising) / len(rising))]
    for number, wait in enumerate(rising):
        if wait > SHORTEST:
            share = (len(rising) - number - 1) / len(rising)
            steps += [(wait, steps[-1][1]), (wait, share)]
    return " ".join(f"{_x(wait):.1f},{_y(share):.1f}" for wait, share in steps)


def _grid() -> list[str]:
    lines = []
    for seconds, name in TIMES:
        x = _x(seconds)
        lines.append(f'<path d="M{x:.1f} {TOP} V{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{name}</text>')
    for percent in range(0, 101, 20):
        y = _y(percent / 100)
        lines.append(f'<path d="M{LEFT} {y:.1f} H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*lines, f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">wait longer than</text>']


def _x(wait: float) -> float:
    share = math.log(min(max(wait, SHORTEST), LONGEST) / SHORTEST) / math.log(LONGEST / SHORTEST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
