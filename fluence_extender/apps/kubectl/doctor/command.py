"""The command ``doctor``: print what all checks find."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from fluence_extender.apps.kubectl.doctor.bundle import FILE, MISSING, write_bundle
from fluence_extender.apps.kubectl.doctor.checks import findings
from fluence_extender.apps.kubectl.doctor.snapshot import FAULT, Finding, take
from fluence_extender.apps.kubectl.options import StateApiCommand, namespace_option, output_option
from fluence_extender.apps.kubectl.state_api import StateApiClient
from fluence_extender.apps.kubectl.tables import STYLES, print_document
from fluence_extender.apps.kubectl.terminal import painted, waiting

PATIENCE = 20.0
"""Seconds for one answer of the service."""


@click.command(cls=StateApiCommand, patience=PATIENCE)
@output_option("json", "yaml")
@namespace_option
@click.option(
    "--bundle",
    is_flag=False,
    flag_value=FILE,
    metavar="[=FILE]",
    help=f"Write all that is found, with objects and logs, to a file for support.  [default: {FILE}]",
)
@click.pass_obj
def doctor(client: StateApiClient, output: str | None, namespace: str, bundle: str | None) -> int:
    """Check the installation and say what to do.

    Looks at the cluster, the service, versions, replicas, the scheduler, admission policies,
    queues, the webhook, the dashboard, rights, nodes, drift, resources and gangs. Ends with 1 if something is wrong.
    Changes nothing.
    """
    with waiting("looking at the cluster and the service"):
        named = list(findings(take(client, namespace)))
    if output:
        print_document({"items": [{"check": check} | asdict(finding) for check, finding in named]}, output)
    else:
        for check, finding in named:
            _print(check, finding)
    if bundle:
        _save(client, named, Path(bundle))
    return int(any(finding.status == FAULT for _, finding in named))


def _save(client: StateApiClient, named: list[tuple[str, Finding]], file: Path) -> None:
    lines = (f"{each.status:<8} {check:<10} {each.text}\n{'':19} → {each.fix}\n" for check, each in named)
    missing = write_bundle(client, "".join(lines), file)
    lacks = f"; {MISSING} in it names what can't be read" if missing else ""
    print(
        f"wrote {file}{lacks}. It names namespaces, gangs and users, so choose whom you give it to",
        file=sys.stderr,
    )


def _print(check: str, finding: Finding) -> None:
    status = painted(finding.status.ljust(8), STYLES.get(finding.status, ""), sys.stdout)
    print(f"{status} {check:<10} {finding.text}")
    if finding.fix:
        print(f"{'':19} → {finding.fix}")
