"""The topology constraints of pods: which members must or should be near each other, and how near.

Users and their controllers write them in five ways, from the outermost constraint to the innermost. Our annotations,
the constraint of the native PodGroup, and the label of flux-k8s (any label with "jobspec" in its key and the value
``zone``) hold for the gang. Kueue's annotations hold for a pod set, and Kueue's slices for a number of consecutive
ranks of a pod set (Kueue, Topology Aware Scheduling; KEP-5732). Pods that share claims need one node.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.names import (
    HOSTNAME,
    JOB_NAME,
    TOPOLOGY_PREFERRED_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
    ZONE,
)
from fluence_extender.model.pod import Pod
from fluence_extender.placement.ranks import ROLES, index, owner_index

FLUX_K8S = "jobspec"
KUEUE = "kueue.x-k8s.io/"
PODSET_REQUIRED = f"{KUEUE}podset-required-topology"
PODSET_PREFERRED = f"{KUEUE}podset-preferred-topology"
PODSET_GROUP = f"{KUEUE}podset-group-name"
SLICE_REQUIRED = f"{KUEUE}podset-slice-required-topology"
SLICE_SIZE = f"{KUEUE}podset-slice-size"
PODSETS = (f"{KUEUE}podset", *ROLES, JOB_NAME)
"""The labels that name a pod's pod set; the first one present counts."""

NOTES = frozenset(
    (
        TOPOLOGY_REQUIRED_ANNOTATION,
        TOPOLOGY_PREFERRED_ANNOTATION,
        PODSET_REQUIRED,
        PODSET_PREFERRED,
        SLICE_REQUIRED,
    )
)
"""The annotations that state constraints."""


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """Members of one ``scope`` share a domain of the level ``required``, and one of ``preferred`` if possible.

    Levels are as written in the pod: the name of a level or a node label, "" for none.
    """

    scope: str
    required: str = ""
    preferred: str = ""


def topology_constraints(
    pod: Pod, group_levels: tuple[str, ...] = (), job_size: int = 0
) -> tuple[TopologyConstraint, ...]:
    """Return the constraints of a pod, outermost first.

    ``group_levels`` are the node labels that its PodGroup requires. ``job_size`` is how many pods its Job has at once,
    0 when that isn't known: with it, ranks continue from one Job of a JobSet to the next.
    """
    # This runs for each member of a plan, and most members have no constraint.
    notes = pod.annotations
    if not (group_levels or pod.claim_group or "zone" in pod.labels.values() or not NOTES.isdisjoint(notes)):
        return ()
    found: list[TopologyConstraint] = []
    required, preferred = notes.get(TOPOLOGY_REQUIRED_ANNOTATION), notes.get(TOPOLOGY_PREFERRED_ANNOTATION)
    if required or preferred:
        found.append(TopologyConstraint("gang", required or "", preferred or ""))
    found.extend(TopologyConstraint("podgroup", level) for level in group_levels)
    if "zone" in pod.labels.values() and any(
        value == "zone" and FLUX_K8S in key for key, value in pod.labels.items()
    ):
        found.append(TopologyConstraint("flux-k8s", ZONE))
    if PODSET_REQUIRED in notes or PODSET_PREFERRED in notes or SLICE_REQUIRED in notes:
        podset = notes.get(PODSET_GROUP) or next(
            (pod.labels[key] for key in PODSETS if key in pod.labels), ""
        )
        found.append(
            TopologyConstraint(
                f"podset {podset}", notes.get(PODSET_REQUIRED, ""), notes.get(PODSET_PREFERRED, "")
            )
        )
        found.append(
            TopologyConstraint(
                f"podset {podset} slice {_slice(pod, job_size)}", notes.get(SLICE_REQUIRED, "")
            )
        )
    if pod.claim_group:
        found.append(TopologyConstraint(f"claims {pod.claim_group}", HOSTNAME))
    return tuple(one for one in found if one.required or one.preferred)


def sliced(pod: Pod) -> bool:
    """Return whether the pod is in a slice with members that depend on the size of its Job."""
    return SLICE_REQUIRED in pod.annotations and owner_index(pod) >= 0


def _slice(pod: Pod, job_size: int) -> str:
    """Return the slice of its pod set that a pod is in; an unnumbered pod is in slice 0.

    The pod set of a JobSet's pod is its replicated job, with all of its Jobs in order, as Kueue numbers them. When the
    size of a Job isn't known, slices don't extend across Jobs.
    """
    text = pod.annotations.get(SLICE_SIZE, "")
    size = int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 else 0
    if not size:
        return "0"
    if job_size and owner_index(pod) >= 0:
        return str((owner_index(pod) * job_size + max(index(pod), 0)) // size)
    return f"{owner_index(pod)}.{max(index(pod), 0) // size}"
