"""`python -m tests.chaos --kills 200 --seed 1`: after a violation it prints the story, and the exit code is 1."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from tests.chaos.page import keep, kept, write
from tests.chaos.run import Run


@click.command()
@click.option(
    "--kills", type=click.IntRange(min=1), default=200, show_default=True, help="Disturbances in all."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Gives the script.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds in a row.")
@click.option("--replicas", type=click.IntRange(1, 2), default=1, show_default=True, help="Of the service.")
@click.option("--engine", type=click.Choice(("embedded", "fluxion")), default="embedded", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Where logs, stories and reports are kept.")
@click.option(
    "--page", is_flag=True, help="Write the figures of all reports in the folder to docs/reliability.md."
)
def main(
    kills: int, seed: int, runs: int, replicas: int, engine: str, folder: Path | None, page: bool
) -> None:
    """Kill and stop everything at random, and check whether anything was booked twice, lost or left half done."""
    kept_in = folder or Path(tempfile.mkdtemp(prefix="fluence-chaos-"))
    for number in range(seed, seed + runs):
        report = Run(
            kept_in / f"{engine}-{replicas}-{number}", number, kills, replicas=replicas, engine=engine
        ).play()
        keep(report, kept_in)
        click.echo(
            f"seed {number}: {sum(report.disturbances.values())} disturbances, {report.rounds} quiet points, "
            f"{report.gangs} workloads, {report.pods} pods, {len(report.explained)} explained refusals, "
            f"quiet after {report.median_settling:.1f} s (median), {max(report.settling):.1f} s (longest), "
            f"{len(report.violations)} violations"
        )
        if report.violations:
            story = kept_in / f"{engine}-{replicas}-{number}.story.txt"
            story.write_text(report.story)
            click.echo(f"{report.story}\n\nkept in {story}", err=True)
            sys.exit(1)
    if page:
        write(kept(kept_in))


if __name__ == "__main__":
    main()
