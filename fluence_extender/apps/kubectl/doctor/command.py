"""The command ``doctor``: run all checks in order and print what each of them finds."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from fluence_extender.apps.kubectl.doctor import installation, service
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
    installation.former,
    installation.scheduler,
    policies,
    queues,
    installation.webhook,
    installation.rights,
    service.nodes,
    service.drift,
    service.resources,
    service.gangs,
)


@click.command(cls=StateApiCommand, patience=PATIENCE)
@output_option("json", "yaml")
@namespace_option
@click.pass_obj
def doctor(client: StateApiClient, output: str | None, namespace: str) -> int:
    """Check the installation and say what to do.

    Looks at the cluster, the service, versions, replicas, former installations, the scheduler, admission policies,
    queues, the webhook, rights, nodes, drift, resources and gangs. Ends with 1 if something is wrong. Changes nothing.
    """
    examination = Examination(client, namespace)
    findings: list[Finding] = []
    for check in CHECKS:
        for finding in check(examination):
            findings.append(finding)
            if not output:
                _print(finding)
    if output:
        print_document({"items": [asdict(finding) for finding in findings]}, output)
    return int(any(finding.status == FAULT for finding in findings))


def _print(finding: Finding) -> None:
    status = painted(finding.status.ljust(8), STYLES.get(finding.status, ""), sys.stdout)
    print(f"{status} {finding.check:<10} {finding.text}", flush=True)
    if finding.fix:
        print(f"{'':19} → {finding.fix}", flush=True)
