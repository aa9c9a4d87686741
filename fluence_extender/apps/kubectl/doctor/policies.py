"""Which admission policies of ``deploy/`` are in force, and what is missing without each of the others.

A policy needs a binding, which has its name. A test compares `POLICIES` with ``deploy/``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fluence_extender.apps.kubectl.doctor.examination import (
    FAULT,
    OK,
    UNKNOWN,
    WARNING,
    Examination,
    Finding,
)
from fluence_extender.apps.kubectl.errors import KubectlFailed
from fluence_extender.model.names import INTAKE_LABEL, SCHEDULER_NAME

MUTATING, VALIDATING = "mutatingadmissionpolicy", "validatingadmissionpolicy"


@dataclass(frozen=True, slots=True)
class DeployedPolicy:
    """A policy of ``deploy/``: what happens ``without`` it, and the ``status`` of the finding in that case."""

    kind: str
    name: str
    status: str
    without: str

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The kinds and names of the objects that it consists of."""
        return ((self.kind, self.name), (f"{self.kind}binding", self.name))


POLICIES = (
    DeployedPolicy(
        MUTATING,
        "fluence-gate",
        WARNING,
        "pods are placed all the same, only slower",
    ),
    DeployedPolicy(
        MUTATING,
        "fluence-deviceclasses",
        WARNING,
        "pods whose extended resources are devices wait, unless they also have resource claims",
    ),
    DeployedPolicy(
        MUTATING,
        "fluence-suspend",
        WARNING,
        "the pods of Jobs are placed all the same, but only after they were created",
    ),
    DeployedPolicy(
        MUTATING,
        "fluence-suspend-operators",
        WARNING,
        "MPIJobs and RayClusters of a queue have their pods while they wait",
    ),
    DeployedPolicy(
        MUTATING,
        "fluence-groups",
        WARNING,
        "pods of Deployments, ReplicaSets and StatefulSets need the labels of flux-k8s on the template",
    ),
    DeployedPolicy(
        MUTATING,
        "fluence-intake",
        WARNING,
        f"pods need schedulerName: {SCHEDULER_NAME}, also in namespaces with the label {INTAKE_LABEL}",
    ),
    DeployedPolicy(
        MUTATING,
        "fluence-submitters",
        WARNING,
        "nobody records who submits work, and for the limits of queues each namespace counts as one user",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-stamps",
        FAULT,
        "users can choose the nodes of their pods, and change what the service records on them; whoever has a token of"
        " the service or of the webhook can change pods at will",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-stamps-jobs",
        FAULT,
        "users can choose the nodes of their Jobs' pods, and change what the service records on Jobs",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-stamps-operators",
        WARNING,
        "users can have the service resume MPIJobs and RayClusters that they suspend",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-stamps-submitters",
        FAULT,
        "users can have their work counted as that of others, for which queues have limits",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-accounts-jobs",
        WARNING,
        "whoever has a token of the service can change Jobs at will",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-accounts-operators",
        WARNING,
        "whoever has a token of the service can change MPIJobs and RayClusters at will",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-accounts-nodes",
        WARNING,
        "whoever has a token of the service can change nodes at will",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-accounts-sidecars",
        WARNING,
        "whoever has a token of the webhook can write ServiceAccounts, Roles and Secrets at will",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-accounts-podgroups",
        WARNING,
        "whoever has a token of the webhook can write PodGroups of others",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-accounts-registration",
        WARNING,
        "whoever has a token of the webhook can have any object sent to it",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-quantum-classical",
        WARNING,
        "every user can preempt everybody, if the PriorityClass fluence-quantum-classical exists",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-stateful-gangs",
        WARNING,
        "who creates a StatefulSet whose pods can't be a gang isn't told at once",
    ),
    DeployedPolicy(
        VALIDATING,
        "fluence-sidecars",
        WARNING,
        "whoever has the token of a quantum sidecar can change the pods of its namespace at will",
    ),
)


def policies(examination: Examination) -> Iterator[Finding]:
    """Check that each policy of ``deploy/`` is there with its binding."""
    findings = [finding for kind in (MUTATING, VALIDATING) for finding in _of_kind(examination, kind)]
    if not findings:
        yield Finding("policies", OK, f"all {len(POLICIES)} are installed")
    yield from findings


def _of_kind(examination: Examination, kind: str) -> Iterator[Finding]:
    try:
        names = examination.kubectl("get", f"{kind},{kind}binding", "-o", "name").decode().split()
    except KubectlFailed as error:
        text = f"you may not list {kind} objects" if "(Forbidden)" in str(error) else str(error)
        yield Finding("policies", UNKNOWN, text)
        return
    found = {tuple(name.replace(".admissionregistration.k8s.io/", "/").split("/")) for name in names}
    for policy in POLICIES:
        missing = [part for part in policy.parts if part not in found]
        if policy.kind == kind and missing:
            fix = f"{policy.without}; kubectl apply -k deploy adds it"
            yield Finding("policies", policy.status, f"there is no {' '.join(missing[0])}", fix)
