"""Which members are to be near each other, and how near: what users and their controllers write about topology.

Five ways are read, from the outermost bond to the innermost: our annotations, the native PodGroup's constraint and the
label of flux-k8s (any with "jobspec" in its key, of the value ``zone``) hold for the gang; Kueue's annotations for a
pod set; Kueue's slices for so many consecutive ranks of a pod set (Kueue, Topology Aware Scheduling; KEP-5732).
"""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.names import (
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
"""Labels that tell a gang's pod sets apart, the first that is there counting."""


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """Members of one ``scope`` share a domain of the level ``required``, and of ``preferred`` if that can be had.

    Levels are as they were written: the name of a level or a node label; "" for none.
    """

    scope: str
    required: str = ""
    preferred: str = ""


def topology_constraints(
    pod: Pod, group_levels: tuple[str, ...] = (), job_size: int = 0
) -> tuple[TopologyConstraint, ...]:
    """The bonds of a pod, the outermost first.

    ``group_levels`` are the node labels its PodGroup requires; ``job_size`` is how many pods its Job has at once, by
    which ranks run on from one Job of a JobSet to the next, 0 where that isn't known.
    """
    # A plan asks this of each member, of which most say nothing of the kind.
    notes = pod.annotations
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
    return tuple(bond for bond in found if bond.required or bond.preferred)


def sliced(pod: Pod) -> bool:
    """Whether the pod is in a slice whose members depend on the size of its Job."""
    return SLICE_REQUIRED in pod.annotations and owner_index(pod) >= 0


def _slice(pod: Pod, job_size: int) -> str:
    """Which slice of its pod set a pod is in; an unnumbered pod is in slice 0.

    The pod set of a JobSet's pod is its replicated job, all of its Jobs one after the other (Kueue numbers them so).
    Where the size of a Job isn't known slices don't reach across Jobs.
    """
    text = pod.annotations.get(SLICE_SIZE, "")
    size = int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 else 0
    if not size:
        return "0"
    if job_size and owner_index(pod) >= 0:
        return str((owner_index(pod) * job_size + max(index(pod), 0)) // size)
    return f"{owner_index(pod)}.{max(index(pod), 0) // size}"
