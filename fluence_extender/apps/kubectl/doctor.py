"""``kubectl fluence doctor``: looks at everything that has to be in place, and says what to do where it isn't.

Nothing is changed. What the user may not look at is said to be unknown and is no fault.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from fluence_extender.apps.kubectl.checkups import CHECKS, FAULT, CheckUp, Finding
from fluence_extender.apps.kubectl.question import read_question
from fluence_extender.apps.kubectl.service import Service
from fluence_extender.apps.kubectl.tables import STYLES, document
from fluence_extender.apps.kubectl.terminal import painted

PATIENCE = 20.0
"""Seconds for one answer of the service."""


def doctor(words: Sequence[str]) -> int:
    """``kubectl fluence doctor``: 1 when something is wrong."""
    question = read_question("doctor", words, ("json", "yaml"))
    if question is None:
        return 0
    at = CheckUp(question, Service(question, PATIENCE))
    findings: list[Finding] = []
    for check in CHECKS:
        for finding in check(at):
            findings.append(finding)
            if not question.output:
                _tell(finding)
    if question.output:
        document({"items": [asdict(finding) for finding in findings]}, question.output)
    return int(any(finding.status == FAULT for finding in findings))


def _tell(finding: Finding) -> None:
    status = painted(finding.status.ljust(8), STYLES.get(finding.status, ""), sys.stdout)
    print(f"{status} {finding.check:<10} {finding.text}", flush=True)
    if finding.fix:
        print(f"{'':19} → {finding.fix}", flush=True)
