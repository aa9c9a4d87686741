"""Short ways to write accounts of pods in tests."""

from __future__ import annotations

from typing import Any

from fluence_extender.model.access import EVERYTHING, CallerSight
from fluence_extender.model.accounting import HeldAmount, PodAccount, Reader, WorkOutcome

NOON = 20_000 * 86_400 + 43_200
HOUR = 3600
ALL = Reader(EVERYTHING)


def pod(uid: str, **fields: Any) -> PodAccount:
    """A pod of two cores and a device that has started at noon and runs."""
    given = {
        "run": f"run-{uid}",
        "namespace": "lab",
        "pod": uid,
        "gang": "train",
        "convention": "job",
        "workload": "job/train",
        "queue": "physics",
        "user": "ada",
        "account": "grant",
        "node": "n1",
        "submitted": NOON - HOUR,
        "started": NOON,
        "amounts": (HeldAmount("cpu", "", 2000), HeldAmount("qpu", "ibm-a", 1)),
        **fields,
    }
    if given.get("ended") is not None:
        given.setdefault("outcome", WorkOutcome.SUCCEEDED)
    return PodAccount(uid, **given)


def seeing(*namespaces: str, user: str = "") -> Reader:
    """One who may list the pods of these namespaces."""
    return Reader(CallerSight(frozenset(namespaces)), user)
