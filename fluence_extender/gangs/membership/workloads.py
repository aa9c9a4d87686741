"""The objects that say how large gangs are, and which pods' claims rest on which of them.

Invariant: a claim is known to rest on every object, and every kind of objects, that was asked for when it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from fluence_extender.gangs.membership.conventions import recognise
from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Workload

Found = TypeVar("Found", bound=Workload)
Name = tuple[str, str]
Ref = tuple[type, Name | None]
"""An object, or with None the question whether there are such objects at all."""


class WorkloadIndex:
    """Workloads by kind and name. What changes one says which pods (by uid) claim anew.

    ``rule`` says what a pod claims.
    """

    def __init__(self, rule: Callable[[Pod, Workloads], Claim] = recognise) -> None:
        self._rule = rule
        self._objects: dict[type, dict[Name, Workload]] = {}
        self._unserved: set[type[Workload]] = set()
        self._resting: dict[Ref, set[str]] = {}
        self._asked: dict[str, frozenset[Ref]] = {}

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        """The object of that name, None while it isn't known."""
        found = self._objects.get(kind, {}).get((namespace, name))
        return found if isinstance(found, kind) else None

    def served(self, kind: type[Workload]) -> bool:
        """Whether the cluster has such objects at all; that is believed until it is known not to."""
        return kind not in self._unserved

    def claim(self, pod: Pod) -> Claim:
        """What the pod says of its gang now; it is told of by its uid when that may have changed."""
        looker = _Looker(self)
        claim = self._rule(pod, looker)
        asked = frozenset(looker.asked)
        if asked != self._asked.get(pod.uid, frozenset()):
            self.forget(pod.uid)
            if asked:
                self._asked[pod.uid] = asked
            for ref in asked:
                self._resting.setdefault(ref, set()).add(pod.uid)
        return claim

    def forget(self, uid: str) -> None:
        """The pod is gone, or asks for others now."""
        for ref in self._asked.pop(uid, ()):
            resting = self._resting[ref]
            resting.discard(uid)
            if not resting:
                del self._resting[ref]

    def put(self, thing: Workload) -> list[str]:
        """Take note of an object; the pods that it matters to if it has changed."""
        name = thing.namespace, thing.name
        objects = self._objects.setdefault(type(thing), {})
        changed = objects.get(name) != thing
        objects[name] = thing
        return self._on(type(thing), name) if changed else []

    def drop(self, thing: Workload) -> list[str]:
        """Forget an object; the pods that it mattered to."""
        name = thing.namespace, thing.name
        gone = self._objects.get(type(thing), {}).pop(name, None)
        return self._on(type(thing), name) if gone is not None else []

    def replace(self, kind: type[Workload], objects: Iterable[Workload], served: bool) -> list[str]:
        """Take a whole list of one kind; the pods that a difference matters to."""
        listed = {(one.namespace, one.name): one for one in objects}
        gone = [one for name, one in self._objects.get(kind, {}).items() if name not in listed]
        touched = [uid for one in gone for uid in self.drop(one)]
        touched += [uid for one in listed.values() for uid in self.put(one)]
        if served is (kind in self._unserved):
            (self._unserved.discard if served else self._unserved.add)(kind)
            touched += self._on(kind, None)
        return touched

    def _on(self, kind: type[Workload], name: Name | None) -> list[str]:
        return sorted(self._resting.get((kind, name), ()))


class _Looker:
    """Looks into an index and keeps what was asked for."""

    def __init__(self, index: WorkloadIndex) -> None:
        self._index = index
        self.asked: list[Ref] = []

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        self.asked.append((kind, (namespace, name)))
        return self._index.find(kind, namespace, name)

    def served(self, kind: type[Workload]) -> bool:
        self.asked.append((kind, None))
        return self._index.served(kind)
