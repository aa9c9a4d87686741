"""The pods of a namespace, without an API server, with scripted failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

from fluence_extender.cluster.errors import ClusterError, Gone
from fluence_extender.model.coordination import (
    DEPENDS_ON_PRODUCER,
    PRODUCER,
    READY_GATE,
    ROLE_ANNOTATION,
    producer_group,
)
from fluence_extender.model.names import GATE, GROUP_LABEL
from fluence_extender.model.pod import Owner, Pod

BACKEND = {
    "fluence.flux-framework.org/backend": "ibm_fez",
    "fluence.flux-framework.org/attr-vendor": "ibm",
    "fluence.flux-framework.org/allocation": "{}",
}


class PodFields(TypedDict, total=False):
    """The fields of a `Pod` that a test may set, besides its names."""

    uid: str
    annotations: Mapping[str, str]
    scheduler: str
    phase: str
    deleting: bool
    owner: Owner | None
    node: str
    gates: tuple[str, ...]
    created: float


def producer(name: str = "lead", group: str = "g", **fields: Unpack[PodFields]) -> Pod:
    """Return the producer of ``group``, bound to a backend."""
    notes = {**BACKEND, ROLE_ANNOTATION: PRODUCER, **fields.pop("annotations", {})}
    pod = Pod(
        "ns",
        name,
        f"uid-{name}",
        {GROUP_LABEL: producer_group(group)},
        notes,
        phase="Running",
        node="n",
        created=10.0,
    )
    return replace(pod, **fields)


def consumer(name: str, group: str = "g", **fields: Unpack[PodFields]) -> Pod:
    """Return a gated consumer of ``group``."""
    notes = {DEPENDS_ON_PRODUCER: producer_group(group), **fields.pop("annotations", {})}
    pod = Pod("ns", name, f"uid-{name}", {GROUP_LABEL: group}, notes, gates=(GATE, READY_GATE), created=20.0)
    return replace(pod, **fields)


JOB = Owner("Job", "j", "uid-j")


@dataclass
class FakePods:
    """See `release.Pods`. ``fault(verb, pod name)`` raises what the call is to raise; ``seen`` is called after each."""

    pods: dict[str, Pod]
    mine: str = "lead"
    released: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    fault: Callable[[str, str], None] = lambda verb, name: None
    seen: Callable[[str, str], None] = lambda verb, name: None

    def _enter(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        self.fault(verb, name)

    async def own(self) -> Pod:
        self._enter("own", self.mine)
        if self.mine not in self.pods:
            raise Gone("no such pod", 404)
        self.seen("own", self.mine)
        return self.pods[self.mine]

    async def annotate_own(self, annotations: Mapping[str, str]) -> None:
        self._enter("note", self.mine)
        own = self.pods[self.mine]
        self.pods[self.mine] = replace(own, annotations={**own.annotations, **annotations})
        self.seen("note", self.mine)

    async def group(self, name: str) -> list[Pod]:
        self._enter("group", name)
        found = [pod for pod in self.pods.values() if pod.labels.get(GROUP_LABEL) == name]
        self.seen("group", name)
        return found

    async def named(self, names: Sequence[str]) -> list[Pod]:
        self._enter("named", ",".join(names))
        return [self.pods[name] for name in names if name in self.pods]

    async def release(self, pod: Pod, annotations: Mapping[str, str]) -> None:
        self._enter("release", pod.name)
        now = self.pods.get(pod.name)
        if now is None or now.uid != pod.uid:
            raise Gone("no such pod", 404)
        gates = tuple(gate for gate in now.gates if gate != READY_GATE)
        self.pods[pod.name] = replace(now, gates=gates, annotations={**now.annotations, **annotations})
        self.released.append(pod.name)
        self.seen("release", pod.name)

    def gated(self) -> list[str]:
        """Return the names of the pods that still have the gate."""
        return sorted(name for name, pod in self.pods.items() if READY_GATE in pod.gates)


def failing(times: int, *verbs: str, status: int = 500) -> Callable[[str, str], None]:
    """Return a fault with which the first ``times`` calls of these verbs fail."""
    left = [times]

    def fault(verb: str, name: str) -> None:
        if verb in verbs and left[0] > 0:
            left[0] -= 1
            raise ClusterError(f"{verb} {name} failed", status)

    return fault
