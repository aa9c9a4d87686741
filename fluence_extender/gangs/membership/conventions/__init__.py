"""The conventions by which pods name their gang, in the order in which they count.

A pod may follow several; the first one that recognises it decides, and the others say nothing. A group that somebody
has named comes before one that follows from who owns the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fluence_extender.gangs.membership.conventions import (
    coscheduling,
    job,
    jobset,
    kueue,
    labelled,
    leaderworkerset,
    mpijob,
    native,
    owned,
    raycluster,
)
from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads, alone, patience
from fluence_extender.model.gang import Convention
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason

Recognise = Callable[[Pod, Workloads], Claim | None]

CONVENTIONS: Mapping[Convention, Recognise] = {
    Convention.POD_GROUP: native.recognise,
    Convention.COSCHEDULING: coscheduling.recognise,
    Convention.LABEL: labelled.recognise,
    Convention.KUEUE: kueue.recognise,
    Convention.LEADER_WORKER_SET: leaderworkerset.recognise,
    Convention.RAY_CLUSTER: raycluster.recognise,
    Convention.MPI_JOB: mpijob.recognise,
    Convention.JOB_SET: jobset.recognise,
    Convention.OWNER: owned.recognise,
    Convention.JOB: job.recognise,
}

BY_NAME = (Convention.POD_GROUP, Convention.COSCHEDULING, Convention.LABEL, Convention.KUEUE)
"""The conventions in which somebody names the group on the pod."""


def recognise(pod: Pod, workloads: Workloads) -> Claim:
    """What a pod says of its gang by the first convention that it follows; by none of them it is alone."""
    if raycluster.cleans_up(pod):
        return alone(pod)
    found = (claim for one in CONVENTIONS.values() if (claim := one(pod, workloads)) is not None)
    claim = next(found, None) or alone(pod)
    seconds = patience(pod)
    if isinstance(seconds, Reason):
        return replace(claim, size=seconds)
    return claim if seconds is None else replace(claim, patience=seconds)
