"""The command ``doctor``: run all checks in order and print what each of them finds."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from fluence_extender.apps.kubectl.doctor import installation, service
from fluence_extender.apps.kubectl.doctor.bundle import FILE, MISSING, write_bundle
from fluence_extender.apps.kubectl.doctor.examination import FAULT, Check, Examination, Finding
from fluence_extender.apps.kubectl.doctor.policies import policies
from fluence_extender.apps.kubectl.doctor.queues import queues
from fluence_extender.apps.kubectl.options import StateApiCommand, namespace_option, output_option
from fluence_extender.apps.kubectl.state_api import StateApiClient
from fluence_extender.apps.kubectl.tables import STYLES, print_document
from fluence_extender.apps.kubectl.terminal import painted

PATIENCE = 20.0
"""Seconds for one answer of the service."""

CHECKS: tuple[Check, ...] = (
    installation.cluster,
    service.answers,
    service.versions,
    installation.replicas,
    installation.scheduler,
    policies,
    queues,
    installation.webhook,
    installation.dashboard,
    installation.rights,
    service.nodes,
    service.drift,
    service.resources,
    service.gangs,
)

OF_THE_CLUSTER: tuple[Check, ...] = (
    installation.replicas,
    installation.scheduler,
    policies,
    queues,
    installation.webhook,
    installation.dashboard,
    installation.rights,
)
"""The checks that are left out where the service is at an address and no cluster can be asked."""


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
    examination = Examination(client, namespace)
    findings: list[Finding] = []
    for check in CHECKS:
        if check in OF_THE_CLUSTER and client.server and not examination.cluster:
            continue
        for finding in check(examination):
            findings.append(finding)
            if not output:
                _print(finding)
    if output:
        print_document({"items": [asdict(finding) for finding in findings]}, output)
    if bundle:
        _save(examination, findings, Path(bundle))
    return int(any(finding.status == FAULT for finding in findings))


def _save(examination: Examination, findings: list[Finding], file: Path) -> None:
    lines = (f"{one.status:<8} {one.check:<10} {one.text}\n{'':19} → {one.fix}" for one in findings)
    missing = write_bundle(examination, "\n".join(lines) + "\n", file)
    lacks = f"; {MISSING} in it names what can't be read" if missing else ""
    print(
        f"wrote {file}{lacks}. It names namespaces, gangs and users, so choose whom you give it to",
        file=sys.stderr,
    )


def _print(finding: Finding) -> None:
    status = painted(finding.status.ljust(8), STYLES.get(finding.status, ""), sys.stdout)
    print(f"{status} {finding.check:<10} {finding.text}", flush=True)
    if finding.fix:
        print(f"{'':19} → {finding.fix}", flush=True)
