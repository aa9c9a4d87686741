"""Measure how long ``kubectl fluence`` takes to start, compared with a Python that does nothing.

The programs are started in turns, so that other load on the machine affects all of them alike. The budget is 150 ms of
processor time more than bare Python takes. Processor time doesn't grow while a program waits for its turn. The unit
tests keep the budget by the set of modules that are imported.

    python -m benchmarks.plugin_start
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path

from rich.console import Console
from rich.table import Table

BUDGET = 0.150
ROUNDS = 21
PLUGIN = str(Path(sysconfig.get_path("scripts")) / "kubectl-fluence")
PROGRAMS = {
    "bare Python": [sys.executable, "-c", "pass"],
    "version": [PLUGIN, "version"],
    "help": [PLUGIN, "--help"],
    "explain group-size": [PLUGIN, "explain", "group-size"],
    "jobs --help": [PLUGIN, "jobs", "--help"],
}


def _processor_time(command: list[str]) -> float:
    """Return the seconds of processor time that a program takes."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def main() -> int:
    """Measure and print; return 1 if the budget isn't kept."""
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, command in PROGRAMS.items():
            taken[name].append(_processor_time(command))
    middle = {name: statistics.median(times) for name, times in taken.items()}
    table = Table("program", "ms, median", "ms beyond bare Python", "budget")
    over = 0
    for name, seconds in middle.items():
        more = seconds - middle["bare Python"]
        kept = more <= BUDGET
        over += not kept
        table.add_row(name, f"{seconds * 1e3:.0f}", f"{more * 1e3:.0f}", "kept" if kept else "not kept")
    Console().print(table)
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
