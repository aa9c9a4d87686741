"""Manifests to pods and gangs: what the controllers would make of them, as far as placement can see.

Understood are pods and what makes pods; objects that only say something about gangs are read as well, and others are
named and left alone. Gangs and ranks are told from the pods as usual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from fluence_extender.cluster import decode_workload as workloads
from fluence_extender.cluster.decode import decode_pod
from fluence_extender.gangs.membership.assembly import agreed_size
from fluence_extender.gangs.membership.conventions.membership import Membership, Workloads
from fluence_extender.gangs.membership.workloads import Found, WorkloadIndex, owner_topology
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import SCHEDULER_NAME
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import CoschedulingGroup, PodGroup, Workload
from fluence_extender.placement.plan import Demand
from fluence_extender.whatif.controllers import MAKERS, Maker, maker
from fluence_extender.whatif.documents import BadManifest, Manifest, NothingAsked, as_json
from fluence_extender.whatif.priorities import PriorityClasses
from fluence_extender.whatif.remarked import Remarked, full_name

MOST_PODS = 10_000

NAMED = 4
"""So many objects are named of which no pods come."""


class TooManyPods(BadManifest):
    """More is asked than is answered."""


@dataclass(slots=True)
class Wanted:
    """One gang that is asked about: its pods by rank, and how many of them make it whole.

    ``unknown_class`` is the PriorityClass that one of them names and of which nothing is known, "" for none.
    """

    key: GangKey
    pods: list[Pod] = field(default_factory=list)
    size: int | Reason = 1
    topology: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    unknown_class: str = ""

    def demand(self, pod: Pod) -> Demand:
        """What a planner is asked for one of the pods."""
        return Demand(pod, frozenset(), *self.topology[pod.uid])

    @property
    def levels(self) -> bool:
        """Whether a PodGroup requires something of where the pods are."""
        return any(levels for levels, _ in self.topology.values())

    @property
    def priority(self) -> int:
        """The priority that counts for preempting: the lowest of its pods'."""
        return min(pod.priority for pod in self.pods)


@dataclass(slots=True)
class Asked:
    """All that the manifests ask for; ``ignored`` names the objects that make no pods, ``notes`` what was assumed."""

    gangs: list[Wanted]
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _Index(WorkloadIndex):
    """The objects among the manifests, and ``there`` the PodGroups that a cluster has already."""

    def __init__(self, there: Workloads | None) -> None:
        super().__init__()
        self._there = there

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        found = super().find(kind, namespace, name)
        if found is None and self._there is not None and kind in (PodGroup, CoschedulingGroup):
            return self._there.find(kind, namespace, name)
        return found


def asked(
    manifests: list[Manifest],
    namespace: str = "default",
    classes: Sequence[Manifest] | None = None,
    there: Workloads | None = None,
) -> Asked:
    """The gangs that ``manifests`` make.

    ``classes`` are the cluster's PriorityClasses, ``there`` its PodGroups, None where they aren't known. Raises
    `BadManifest`, and `NothingAsked` where they make none.
    """
    index = _Index(there)
    pods: list[Pod] = []
    result = Asked([])
    remarked = Remarked()
    known_classes = PriorityClasses(manifests, classes)
    for manifest in _named(manifests, namespace, result.notes):
        make = maker(manifest)
        known = _note(manifest, index)
        if make is None:
            if not known and not known_classes.knows(manifest):
                result.ignored.append(full_name(manifest))
            continue
        made = list(_made(make, manifest, len(pods), known_classes))
        if not made:
            result.notes.append(
                f"{full_name(manifest)} asks for no pods: its replicas, parallelism or completions are 0"
            )
        remarked.look(manifest, made)
        pods.extend(made)
    if not pods:
        raise NothingAsked(_nothing(result))
    others = sorted({pod.scheduler for pod in pods if pod.scheduler != SCHEDULER_NAME})
    if others:
        result.notes.append(f"asked as if schedulerName were {SCHEDULER_NAME}, not {', '.join(others)}")
    result.gangs = _gangs(pods, index)
    for wanted in result.gangs:
        wanted.unknown_class = next(filter(None, (known_classes.missing(pod.uid) for pod in wanted.pods)), "")
    result.notes.extend(known_classes.notes())
    remarked.look_at_alone(one.pods[0] for one in result.gangs if one.key.convention is Convention.ALONE)
    result.notes.extend(remarked.notes())
    return result


def _nothing(result: Asked) -> str:
    """Why there is nothing to simulate, and what to do."""
    unknown = [f"nothing is known of pods that {one} makes" for one in result.ignored[:NAMED]]
    why = [*result.notes[:NAMED], *unknown]
    more = len(result.notes) + len(result.ignored) - len(why)
    if more > 0:
        why.append(f"and {more} more")
    told = "; ".join(why) or "no object in these manifests makes a pod"
    return f"nothing to simulate: {told}. Give pods, or one of {', '.join(list(MAKERS)[1:])}"


def _named(manifests: Iterable[Manifest], namespace: str, notes: list[str]) -> Iterator[Manifest]:
    """The objects, each with its namespace and a name."""
    names = _Names()
    for manifest in manifests:
        meta = manifest.setdefault("metadata", {})
        if not isinstance(meta, dict):
            raise BadManifest(f"{manifest['kind']}: metadata isn't a mapping")
        meta.setdefault("namespace", namespace)
        meta["name"] = meta.get("name") or names.made(manifest["kind"], meta)
        if names.twice(manifest):
            notes.append(
                f"{full_name(manifest)} is there more than once: in a cluster the last one would replace the others"
            )
        yield manifest


class _Names:
    """The names of the objects of some manifests."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._seen: set[tuple[str, str, str]] = set()

    def made(self, kind: str, meta: Mapping[str, Any]) -> str:
        """A name for an object that has none, as ``generateName`` asks for it."""
        prefix = str(meta.get("generateName") or kind.lower())
        self._made[prefix] += 1
        return f"{prefix}{self._made[prefix]}"

    def twice(self, manifest: Manifest) -> bool:
        """Whether another object of that kind and name has been seen."""
        meta = manifest["metadata"]
        key = manifest["kind"], str(meta["namespace"]), str(meta["name"])
        seen = key in self._seen
        self._seen.add(key)
        return seen


def _made(make: Maker, manifest: Manifest, before: int, classes: PriorityClasses) -> Iterator[Pod]:
    where = full_name(manifest)
    if manifest.get("spec") is None:
        raise BadManifest(f"{where}: spec is missing")
    try:
        for number, template in enumerate(make(manifest)):
            if before + number >= MOST_PODS:
                raise TooManyPods(f"more than {MOST_PODS:,} pods")
            yield _pod(template, manifest["metadata"]["namespace"], f"what-if-{before + number}", classes)
    except TooManyPods:
        raise
    except KeyError as missing:
        raise BadManifest(f"{where}: {missing.args[0]} is missing") from missing
    except (TypeError, AttributeError) as error:
        raise BadManifest(f"{where}: a field of its spec is of the wrong type") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadManifest(f"{where}: {error}") from error


def _pod(template: Manifest, namespace: str, uid: str, classes: PriorityClasses) -> Pod:
    meta = {**template["metadata"], "namespace": namespace, "uid": uid}
    spec = classes.resolved(uid, template["spec"])
    spec.pop("nodeName", None)
    spec.pop("schedulingGates", None)
    pod = decode_pod(as_json({"metadata": meta, "spec": spec}))
    owner = template.get("owner")
    return replace(pod, owner=Owner(*owner) if owner else None)


def _note(manifest: Manifest, index: WorkloadIndex) -> bool:
    """Keep what says how large gangs are; whether this is such an object."""
    if manifest["kind"] not in _DECODED:
        return False
    try:
        thing = workload(manifest["kind"], as_json(manifest))
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise BadManifest(f"{manifest['kind']} {manifest['metadata']['name']}: {error}") from error
    if thing is not None:
        index.put(thing)
    return thing is not None


class _Typed(msgspec.Struct, rename="camel"):
    api_version: str = ""


_typed = msgspec.json.Decoder(_Typed).decode


def workload(kind: str, raw: bytes) -> Workload | None:
    """The object that says how large gangs are, None for others. Raises `msgspec.MsgspecError`."""
    if kind not in _DECODED:
        return None
    decode = _DECODERS.get((_typed(raw).api_version.partition("/")[0], kind))
    return decode(raw) if decode is not None else None


def _gangs(pods: list[Pod], index: WorkloadIndex) -> list[Wanted]:
    found: dict[GangKey, Wanted] = {}
    memberships: dict[GangKey, list[Membership]] = {}
    for pod in pods:
        membership = index.membership(pod)
        wanted = found.setdefault(membership.key, Wanted(membership.key))
        wanted.pods.append(pod)
        memberships.setdefault(membership.key, []).append(membership)
        wanted.topology[pod.uid] = owner_topology(index, pod)
    for key, wanted in found.items():
        wanted.size = agreed_size(key, memberships[key])
    return list(found.values())


_DECODERS: Mapping[tuple[str, str], Callable[[bytes], Workload]] = {
    ("batch", "Job"): workloads.decode_job,
    ("scheduling.k8s.io", "PodGroup"): workloads.decode_pod_group,
    ("scheduling.x-k8s.io", "PodGroup"): workloads.decode_coscheduling_group,
    ("jobset.x-k8s.io", "JobSet"): workloads.decode_job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): workloads.decode_leader_worker_set,
    ("kubeflow.org", "MPIJob"): workloads.decode_mpi_job,
}
_DECODED = frozenset(kind for _, kind in _DECODERS)
