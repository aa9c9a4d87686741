"""What the sidecar asks of a vendor: which tasks are the pod's, and where each of them stands.

A third party adds a provider by an entry point of the group ``fluence_extender.providers`` whose value is an object
with the attributes of `Provider` (a module, an instance or a class without constructor arguments). Calls are made one
at a time, in a thread of their own and with a time limit; one that raises is made again later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from fluence_extender.coordination.tasks import Status


class ProviderError(Exception):
    """A vendor couldn't be asked, or gave an answer that is none; the text says why."""


class Queue(Protocol):
    """One backend of a vendor, with the credentials to ask about it."""

    def find_my_tasks(self, pod_uid: str) -> Sequence[str]:
        """The ids of the tasks that are marked with the pod's uid, oldest first; one look, without waiting."""
        ...

    def status(self, task: str) -> Status:
        """Where a task stands."""
        ...


@runtime_checkable
class Provider(Protocol):
    """A vendor."""

    name: str

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether a backend with these attributes is the vendor's; names in lower case, ``backend`` among them."""
        ...

    def connect(self, attributes: Mapping[str, str], environ: Mapping[str, str]) -> Queue:
        """The backend with ``attributes``; ``environ`` holds credentials. Raises `ProviderError` without them."""
        ...
