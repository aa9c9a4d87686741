"""Records of places on users' objects: with which gang a pod got its place, and a seal that nobody else can write.

A gang that has begun is completed before others are served, whatever their priority. Its users choose who belongs to it
and how large it is, and may change both at any time: labels, owners, PodGroups. So a member counts as the beginning of
its gang only if it got its place with that very gang, and the gang is completed only as far as it needed members then.
A pod that was bound otherwise, or with another gang, uses its node and completes nothing.

The record also names the queue to which the place is charged. Work that has places stays in that queue, whatever its
labels, its owners or the defaults of its namespace say later, so nobody takes what runs out of a quota.

The annotation with the record is written when the pod is ungated or nominated and in the Binding, so that it outlives a
restart. A pod that is created with its node has the annotation from its Job's template.

Users may write any annotation. So a record ends with a *seal*: a keyed digest over the record and the object for which
it was written. The record of a pod is sealed for the pod's uid and namespace. That of a Job's template is sealed for
the Job, because the pods that are made of the template carry it: the seal names the Job by a digest of its uid.

Invariants: a record whose seal isn't right is treated as if it weren't there. The seal isn't right if the record was
copied to another pod, Job or namespace, or if its gang, size or queue was changed. A Job's record counts for pods that
this Job controls. On a bound pod it counts whatever controls the pod: users may take a pod's owner away, and no pod is
bound with a record that another pod brought, because the service overwrites it when it places the pod.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from fluence_extender.kinds.job import Job
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import PLACED_ANNOTATION
from fluence_extender.model.pod import Pod

KEY_BYTES = 32
"""The length of a key, that of SHA-256's digest."""

SEALED = " #"
"""Stands between a record and its seal. No part of a record has this character."""

OF_JOB = "."
"""Stands in the seal of a Job's record, between the digest of the Job's uid and the seal itself."""

SEAL_BYTES = 12
NAME_BYTES = 9
LONGEST_RECORD = 1024
"""The most characters of a record; a longer one isn't read. Names of gangs and queues have 253 at most."""

REMEMBERED = 4096
"""The seals that are cached: a pod's is looked at again at each of its changes."""


class Seal:
    """Seals records with the first of ``keys``, and believes those that any of them has sealed."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)

    @classmethod
    def of_this_process(cls) -> Seal:
        """Return a seal that no other process believes."""
        return cls((secrets.token_bytes(KEY_BYTES),))

    def on_pod(self, pod: Pod, record: str) -> str:
        """Return a record of the pod's place, sealed for it; "" stays as it is."""
        return f"{record}{SEALED}{_digest(self._keys[0], pod.namespace, pod.uid, record)}" if record else ""

    def on_job(self, namespace: str, uid: str, record: str) -> str:
        """Return a record for the template of the Job ``uid``, sealed for its pods; "" stays as it is."""
        if not record:
            return ""
        name = _name(uid)
        return f"{record}{SEALED}{name}{OF_JOB}{_digest(self._keys[0], namespace, name + OF_JOB, record)}"

    def believed(self, pod: Pod) -> Pod:
        """Return the pod; without its record and pin if the service hasn't sealed the record for it."""
        return pod if self._is_right(pod, pod.annotations.get(PLACED_ANNOTATION, "")) else without_record(pod)

    def believed_job(self, job: Job) -> Job:
        """Return the Job; without the plan on its template if the record there isn't sealed for this Job."""
        if not (job.nodes or job.placed_with):
            return job
        record, name, seal = _parts(job.placed_with)
        if name == _name(job.uid) and self._sealed(seal, job.namespace, name + OF_JOB, record):
            return job
        return replace(job, nodes=(), placed_with="")

    def _is_right(self, pod: Pod, text: str) -> bool:
        record, name, seal = _parts(text)
        if not name:
            return self._sealed(seal, pod.namespace, pod.uid, record)
        owner = pod.owner
        controlled = owner is not None and owner.is_a("Job", "batch") and name == _name(owner.uid)
        return (controlled or bool(pod.node)) and self._sealed(seal, pod.namespace, name + OF_JOB, record)

    def _sealed(self, seal: str, namespace: str, whose: str, record: str) -> bool:
        if not seal or not seal.isascii():
            return False
        return any(hmac.compare_digest(seal, _digest(key, namespace, whose, record)) for key in self._keys)


def without_record(pod: Pod) -> Pod:
    """Return the pod as if it said nothing of a place."""
    if PLACED_ANNOTATION not in pod.annotations:
        return pod
    rest = {key: value for key, value in pod.annotations.items() if key != PLACED_ANNOTATION}
    return replace(pod, annotations=rest)


def unsealed(text: str) -> str:
    """Return a record without its seal."""
    return text.rpartition(SEALED)[0] if SEALED in text else text


def _parts(text: str) -> tuple[str, str, str]:
    """Return a record, the digest of its Job's uid ("" if it was sealed for a pod), and the seal."""
    record, _, end = text.rpartition(SEALED) if len(text) <= LONGEST_RECORD else ("", "", "")
    name, _, seal = end.rpartition(OF_JOB)
    return record, name, seal


@lru_cache(maxsize=REMEMBERED)
def _digest(key: bytes, namespace: str, whose: str, record: str) -> str:
    """Return the seal. Neither a namespace nor ``whose`` contains a newline."""
    said = "\n".join((namespace, whose, record)).encode()
    return base64.urlsafe_b64encode(hmac.digest(key, said, "sha256")[:SEAL_BYTES]).decode()


def _name(uid: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(uid.encode()).digest()[:NAME_BYTES]).decode()


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
