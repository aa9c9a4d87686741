"""Every combination of what a pod can declare gets what the documented matrix says, row by row."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import pytest

from fluence_extender.webhook.contract import GroupKind
from fluence_extender.webhook.mutate import mutate
from tests.unit.webhook.pods import (
    ALL,
    CONTEXT,
    QPU,
    QUBIT,
    REQUEST,
    Json,
    annotation,
    applied,
    container,
    env,
    gates,
    grouped,
    init_names,
)

SELECTIONS = (ALL, ("fluxion", "gang"), ("quantum",), ("gang", "quantum", "fluxion"))
SUBMITS, AWAITS = "producer", "consumer"
PREFIX = "fluence.flux-framework.org/"


@dataclass(frozen=True)
class Declared:
    """What a pod says, and what is known when it is admitted."""

    asks: str
    mode: str | None
    group: str
    owner: str
    observed: bool
    index: str | None
    size: str | None
    kind: GroupKind
    handlers: tuple[str, ...]
    produces: bool | None

    @property
    def base(self) -> str:
        return self.group or "job-7"

    @property
    def role(self) -> str:
        """Return the pod's row of the matrix: whether it is part of a shared job, and its role."""
        shared = self.mode == "shared" and self.size != "1" and (self.group or self.owner)
        if not shared or "quantum" not in self.handlers:
            return ""
        if self.asks != QPU:
            return AWAITS if self.group else ""
        if self.index is not None:
            return SUBMITS if self.index == "0" else AWAITS
        return AWAITS if self.produces is False else SUBMITS

    @property
    def runs_task(self) -> bool:
        return "quantum" in self.handlers and self.asks == QPU and self.role != AWAITS

    @property
    def label(self) -> str | None:
        if not self.role:
            return self.group or None
        return f"{self.base}-producer" if self.role == SUBMITS else self.base

    @property
    def linked(self) -> str | None:
        """Return the group after which its PodGroup is named."""
        return self.label if self.role or "gang" in self.handlers else None

    @property
    def backend(self) -> str | None:
        """The annotation that names the pod's backend."""
        if "fluxion" not in self.handlers:
            return None
        if self.asks == QUBIT or (self.asks == QPU and self.role != AWAITS):
            return f"{PREFIX}backend"
        return f"producer.{PREFIX}backend" if self.role == AWAITS else None

    def pod(self) -> Json:
        return grouped(
            container(asks={self.asks: "1"} if self.asks else None),
            group=self.group,
            mode=self.mode,
            size=self.size,
            index=self.index,
            observe="true" if self.observed else None,
            owner=(self.owner, "job-7") if self.owner else None,
        )


ROWS = [
    Declared(asks, mode, group, owner, observed, index, size, kind, handlers, produces)
    for asks, mode, group, owner, observed, index, size, kind, handlers, produces in itertools.product(
        ("", QUBIT, QPU),
        (None, "independent", "shared"),
        ("", "g"),
        ("", "Job", "ReplicaSet"),
        (False, True),
        (None, "0", "3"),
        (None, "1", "4"),
        GroupKind,
        SELECTIONS,
        (None, True, False),
    )
    if produces is None or (mode == "shared" and index is None and asks == QPU)
]


def test_the_matrix_is_large() -> None:
    assert len(ROWS) > 10_000


@pytest.mark.parametrize("kind", GroupKind)
@pytest.mark.parametrize("mode", [None, "independent", "shared"])
@pytest.mark.parametrize("asks", ["", QUBIT, QPU])
def test_each_pod_gets_what_the_matrix_says_and_keeps_the_rest(
    asks: str, mode: str | None, kind: GroupKind
) -> None:
    for row in (row for row in ROWS if (row.asks, row.mode, row.kind) == (asks, mode, kind)):
        before = row.pod()
        context = replace(CONTEXT, groups=kind)
        request = replace(REQUEST, produces=row.produces)
        after = applied(before, mutate(before, request, row.handlers, context))
        assert _found(after) == _wanted(row), row
        assert mutate(after, REQUEST, row.handlers, context).patch == (), row
        assert _untouched(after) == _untouched(before), row


def _wanted(row: Declared) -> Json:
    producer, consumer = row.role == SUBMITS, row.role == AWAITS
    native, coscheduled = row.kind is GroupKind.NATIVE, row.kind is GroupKind.COSCHEDULING
    watched = row.runs_task and (producer or row.observed)
    return {
        "label": row.label,
        "native": row.linked if native else None,
        "coscheduling": row.linked if coscheduled else None,
        "gates": ["quantum.braket/ready"] if consumer else [],
        "priority": "fluence-quantum-classical" if consumer else None,
        "depends on": f"{row.base}-producer" if consumer else None,
        "inits": ["fluence-stage"] * row.runs_task + ["fluence-sidecar"] * watched,
        "account": "default",
        "devices": {row.asks: "1"} if row.asks and not (consumer and row.asks == QPU) else {},
        "role": row.role or None,
        "task": annotation(f"{PREFIX}quantum-job-id") if consumer else None,
        "python": "/opt/fluence-staged" if row.runs_task else None,
        "backend": annotation(row.backend) if row.backend else None,
        "releases": row.base if producer else None,
        "observes": "true" if watched and not producer else None,
    }


def _found(after: Json) -> Json:
    labels, notes = after["metadata"].get("labels", {}), after["metadata"].get("annotations", {})
    spec, own = after["spec"], env(after)
    sidecar = env(after, "fluence-sidecar") if "fluence-sidecar" in init_names(after) else {}
    resources = spec["containers"][0]["resources"]
    assert resources.get("requests", {}) == resources.get("limits", {})
    return {
        "label": labels.get(f"{PREFIX}group"),
        "native": spec.get("schedulingGroup", {}).get("podGroupName"),
        "coscheduling": labels.get("scheduling.x-k8s.io/pod-group"),
        "gates": gates(after),
        "priority": spec.get("priorityClassName"),
        "depends on": notes.get(f"{PREFIX}depends-on-producer"),
        "inits": init_names(after),
        "account": spec["serviceAccountName"],
        "devices": resources.get("requests", {}),
        "role": own.get("FLUENCE_COORDINATION_ROLE"),
        "task": own.get("FLUENCE_QUANTUM_JOB_ID"),
        "python": own.get("PYTHONPATH"),
        "backend": own.get("FLUXION_BACKEND"),
        "releases": sidecar.get("FLUENCE_GANG_GROUP"),
        "observes": sidecar.get("FLUENCE_OBSERVE"),
    }


def _untouched(body: Json) -> Json:
    """Return the parts of the pod that no handler may change."""
    ours = {
        *("schedulingGroup", "schedulingGates", "initContainers", "volumes"),
        *("priorityClassName", "priority", "preemptionPolicy"),
    }
    spec = {key: value for key, value in body["spec"].items() if key not in ours}
    given = {"env", "volumeMounts", "resources"}
    spec["containers"] = [
        {key: value for key, value in one.items() if key not in given} for one in spec["containers"]
    ]
    metadata = {key: value for key, value in body["metadata"].items() if key not in ("labels", "annotations")}
    kept = (f"{PREFIX}group-size", f"{PREFIX}coordination", "batch.kubernetes.io/job-completion-index")
    notes = {key: body["metadata"].get("annotations", {}).get(key) for key in kept}
    return {**body, "spec": spec, "metadata": metadata, "notes": notes}
