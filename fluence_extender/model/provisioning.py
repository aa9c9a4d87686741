"""Requests for nodes: ProvisioningRequests (autoscaling.x-k8s.io), and what the service asks for with one."""

from __future__ import annotations

from dataclasses import dataclass

from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.workload import Resumable


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """A ProvisioningRequest, reduced to what the service reads.

    ``created`` is in seconds since the epoch. ``ours``: the service has made it. ``templates`` are the names of its
    PodTemplates. ``accepted``: an autoscaler has taken it up. ``refusal`` is why there is no capacity so far, while the
    autoscaler goes on trying, and ``failure`` why it is over; "" if that isn't so.
    """

    namespace: str
    name: str
    uid: str = ""
    created: float = 0.0
    ours: bool = False
    templates: tuple[str, ...] = ()
    accepted: bool = False
    refusal: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class PodSet:
    """``count`` pods like ``pod``; ``job`` is the workload that will have it, if it doesn't exist yet."""

    pod: Pod
    count: int
    job: Resumable | None = None


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A ProvisioningRequest that is to be made, of the class ``class_name``; it goes when all ``owners`` are gone."""

    namespace: str
    name: str
    class_name: str
    sets: tuple[PodSet, ...]
    owners: tuple[Owner, ...]
