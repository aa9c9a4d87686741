"""What a pod's membership is, among the workloads that are known."""

from __future__ import annotations

from collections.abc import Iterable

from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.kinds.membership import Membership
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.reason import Reason
from tests.core.manifests import (
    Manifest,
    decoded,
)


def index(*known: Workload, unserved: Iterable[type[Workload]] = ()) -> WorkloadIndex:
    made = WorkloadIndex()
    for one in known:
        made.put(one)
    for kind in unserved:
        made.set_served(kind, served=False)
    return made


def membership(body: Manifest, *known: Workload, unserved: Iterable[type[Workload]] = ()) -> Membership:
    return index(*known, unserved=unserved).membership(decoded(body))


def key(name: str, convention: Convention, part: str = "", uid: str = "") -> GangKey:
    return GangKey("default", name, convention, uid, part)


def told(body: Manifest, *known: Workload, unserved: Iterable[type[Workload]] = ()) -> tuple[GangKey, object]:
    """The key, and the size or what is said instead."""
    found = membership(body, *known, unserved=unserved)
    return found.key, found.size.text if isinstance(found.size, Reason) else found.size


def is_alone(body: Manifest, *known: Workload, unserved: Iterable[type[Workload]] = ()) -> bool:
    found = membership(body, *known, unserved=unserved)
    return found.key.convention is Convention.ALONE and found.size == 1
