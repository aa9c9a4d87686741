"""With which gang a pod got its place, and the annotation that records it on the pod.

A gang that has begun is completed before others are served, whatever their priority. Its users choose who belongs to it
and how large it is, and may change both at any time: labels, owners, PodGroups. So a member counts as the beginning of
its gang only if it got its place with that very gang, and the gang is completed only as far as it needed members then.
A pod that was bound otherwise, or with another gang, uses its node and completes nothing.

The record also names the queue to which the place is charged. Work that has places stays in that queue, whatever its
labels, its owners or the defaults of its namespace say later, so nobody takes what runs out of a quota.

The annotation is written when the pod is ungated or nominated and in the Binding, so that it outlives a restart. A pod
that is created with its node has the annotation from its Job's template. The service believes only records that it has
sealed (`seal`). The functions here read such a record, with or without its seal.
"""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import PLACED_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.seal import unsealed


@dataclass(frozen=True, slots=True)
class PlaceRecord:
    """The gang with which a pod got its place, the ``size`` of that gang then, and the ``queue`` that it was in.

    ``queue`` is "" if nobody has made the queue, so that it has no quota.
    """

    gang: GangKey
    size: int
    queue: str = ""

    def __str__(self) -> str:
        return f"{self.size} {_identity(self.gang)}{IN_QUEUE}{self.queue}".removesuffix(IN_QUEUE)

    @classmethod
    def recorded(cls, pod: Pod, gang: GangKey) -> PlaceRecord | None:
        """Return what the pod's annotation records of its place with ``gang``, None if it records no such place."""
        size, _, rest = unsealed(pod.annotations.get(PLACED_ANNOTATION, "")).partition(" ")
        identity, _, queue = rest.partition(IN_QUEUE)
        if identity != _identity(gang) or not size.isdecimal() or len(size) > LONGEST_SIZE:
            return None
        return cls(gang, int(size), queue)


def recorded_queue(pod: Pod) -> str:
    """Return the queue to which the pod's place is charged, with whatever gang it got it; "" if none is recorded."""
    return unsealed(pod.annotations.get(PLACED_ANNOTATION, "")).partition(IN_QUEUE)[2]


IN_QUEUE = " in "
"""Stands before the name of the queue. No other part of the record has a space in it."""

LONGEST_SIZE = 9
"""Digits of a size at most; a longer number isn't read."""


def _identity(key: GangKey) -> str:
    """Return what distinguishes the gang from all others in its namespace."""
    parts = (
        f"{key.convention}/{key.name}",
        f"/{key.part}" if key.part else "",
        f" {key.uid}" if key.uid else "",
    )
    return "".join(parts)
