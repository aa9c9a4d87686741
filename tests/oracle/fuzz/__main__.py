"""``python -m tests.oracle.fuzz``: offer many spoiled documents to an engine; the exit code is 1 if one did harm."""

from __future__ import annotations

import sys

import click

from tests.oracle.engines import ENGINES
from tests.oracle.fuzz.children import run


@click.command()
@click.option("--engine", type=click.Choice(tuple(ENGINES)), default="oracle", show_default=True)
@click.option("--documents", default=100_000, show_default=True)
@click.option("--start", default=0, help="Number of the first document.", show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--seconds", default=3600.0, help="Stop after that long.", show_default=True)
def main(engine: str, documents: int, start: int, seed: int, seconds: float) -> None:
    report = run(engine, seed, start, documents, seconds)
    rate = report.documents / report.seconds
    click.echo(f"{engine}: {report.documents} documents in {report.seconds:.0f} s ({rate:.0f}/s)")
    for (kind, answer), count in sorted(report.answers.items()):
        click.echo(f"  {kind:9} {answer:18} {count}")
    for finding, (number, times) in report.findings.items():
        click.echo(f"  document {number}, {times} times: {finding}")
    sys.exit(1 if report.findings else 0)


if __name__ == "__main__":
    main()
