"""The table of the demo can be read on narrow and on wide terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fluence_extender.demo.view import Row, picture

REASON = "unsatisfiable: no node has 16 cpu (the largest has 4 cpu)"
FOUND = [
    Row("too-big", "too-big-0", "waiting", "Pending", "", "", REASON),
    Row("too-big", "too-big-1", "waiting", "Pending", "", "", REASON),
    Row("quantum", "quantum", "bound", "Running", "node-0", "rigetti_ankaa", ""),
    Row("lammps-with-a-long-name", "lammps-with-a-long-name-x7k2p", "bound", "Running", "node-5", "", ""),
    Row("-", "plain-0", "", "Running", "node-1", "", "placed by default-scheduler"),
    Row("-", "plain-1", "", "Running", "node-1", "", "placed by default-scheduler"),
]


def drawn(width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as capture:
        console.print(picture(FOUND, "after 1 s", width))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 220])
def test_reasons_are_shown_completely_at_every_width(width: int) -> None:
    lines = drawn(width)
    assert max(map(len, lines)) <= width
    if width < 130:
        assert f"too-big: {REASON}" in " ".join(lines)
        assert lines.count("plain-0: placed by default-scheduler") == 1
        assert lines.count("plain-1: placed by default-scheduler") == 1
    else:
        last = [line[line.index("unsat") :] for line in lines if "unsat" in line]
        assert len(last) == 1
        assert len(last[0]) >= 25


@pytest.mark.parametrize("width", [80, 160])
def test_no_cell_is_cut_off(width: int) -> None:
    text = "\n".join(drawn(width))
    assert "…" not in text
    for word in ("rigetti_ankaa", "node-5", "Running", "waiting", "too-big-1"):
        assert word in text


def test_reason_of_a_gang_is_shown_once() -> None:
    assert sum(line.startswith("too-big: ") for line in drawn(80)) == 1
