"""Write the figures of runs into docs/reliability.md, between two marks. The rest of that page is written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.chaos.run import Report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: made by python -m tests.chaos --page -->", "<!-- end of figures -->"
KEPT = ".report.json"


def keep(report: Report, folder: Path) -> None:
    """Write a report beside the logs of its run."""
    name = f"{report.engine}-{report.replicas}-{report.seed}{KEPT}"
    (folder / name).write_bytes(msgspec.json.encode(report))


def kept(folder: Path) -> list[Report]:
    """Return all reports in ``folder``, ordered by engine, replicas and seed."""
    reports = [msgspec.json.decode(path.read_bytes(), type=Report) for path in folder.glob(f"*{KEPT}")]
    return sorted(reports, key=lambda one: (one.engine, one.replicas, one.seed))


def write(reports: Sequence[Report], page: Path = PAGE) -> None:
    """Replace the figures on the page by those of ``reports``."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text("\n".join([before + BEGIN, "", *figures(reports), "", END]) + after)


def figures(reports: Sequence[Report]) -> list[str]:
    """Return the lines of the tables."""
    return [*_runs(reports), "", *_kinds(reports)]


def _runs(reports: Iterable[Report]) -> list[str]:
    lines = [
        "| engine | replicas | seed | disturbances | quiet points | workloads | pods | refused by a kubelet, explained"
        " | quiet after (median / longest) | violations | drift |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in reports:
        settling = f"{one.median_settling:.1f} s / {max(one.settling, default=0.0):.1f} s"
        cells = [
            one.engine,
            one.replicas,
            one.seed,
            sum(one.disturbances.values()),
            one.rounds,
            one.gangs,
            one.pods,
        ]
        cells += [len(one.explained), settling, len(one.violations), f"{one.drift:g}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _kinds(reports: Iterable[Report]) -> list[str]:
    total: Counter[str] = Counter()
    for one in reports:
        total.update(one.disturbances)
    lines = ["| disturbance | times |", "|---|---|"]
    return lines + [f"| {kind} | {count} |" for kind, count in sorted(total.items())]
