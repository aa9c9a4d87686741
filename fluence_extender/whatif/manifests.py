"""Manifests to pods and gangs: the pods that controllers would make, in all that matters for placement.

Pods are read, and objects that make pods or describe gangs. Other objects are listed and left out. Gangs and ranks are
recognized from the pods by the usual conventions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from fluence_extender.cluster.decode.devices import decode_resource_claim, decode_resource_claim_template
from fluence_extender.cluster.decode.job import decode_job
from fluence_extender.cluster.decode.operators import (
    decode_job_set,
    decode_leader_worker_set,
    decode_mpi_job,
    decode_ray_cluster,
)
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.decode.pod_groups import decode_coscheduling_group, decode_pod_group
from fluence_extender.cluster.decode.replicas import decode_replica_set, decode_stateful_set
from fluence_extender.gangs.membership.assembly import agreed_size
from fluence_extender.gangs.membership.conventions.membership import Membership, Workloads
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.workloads import Found, WorkloadIndex, owner_topology
from fluence_extender.gangs.queue.ends import declared
from fluence_extender.gangs.queue.submissions import submission_of
from fluence_extender.model.devices import DeviceObject
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    DURATION_ANNOTATION,
    HOLD_ANNOTATION,
    KUEUE_LONGEST_LABEL,
    SCHEDULER_NAME,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.submission import NOTHING_SAID, QUEUE_LABELS, Submission
from fluence_extender.model.workload import CoschedulingGroup, PodGroup, Workload
from fluence_extender.placement.demand import Demand
from fluence_extender.whatif.controllers import LABELLED_KINDS, MAKERS, Maker, as_made, maker, uid_of
from fluence_extender.whatif.documents import BadManifest, Manifest, NothingToSimulate, as_json
from fluence_extender.whatif.priority_classes import PriorityClasses
from fluence_extender.whatif.remarks import Remarks, full_name

CLAIMS: Mapping[str, Callable[[bytes], DeviceObject]] = {
    "ResourceClaim": decode_resource_claim,
    "ResourceClaimTemplate": decode_resource_claim_template,
}

MOST_PODS = 10_000
MOST_BYTES = 64 * 2**20
"""The most bytes of all pods together, as JSON."""
LARGEST_POD = 2**20

NAMED_OBJECTS = 4
"""The most objects without pods that an error names."""


class TooManyPods(BadManifest):
    """The manifests make more pods, or larger ones, than are simulated at once."""


@dataclass(slots=True)
class RequestedGang:
    """One gang of a question: its pods, and how many of them make it whole.

    ``topology`` holds, by pod uid, the levels that a PodGroup requires and the size of the pod's Job.
    ``unknown_class`` is a PriorityClass that one of the pods names and that isn't known, "" if there is none.
    ``submission`` is its submission to the queue.
    """

    key: GangKey
    pods: list[Pod] = field(default_factory=list)
    size: int | Reason = 1
    topology: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    unknown_class: str = ""
    submission: Submission = NOTHING_SAID

    def demand(self, pod: Pod) -> Demand:
        """Return the demand of one of the pods."""
        return Demand(pod, frozenset(), *self.topology[pod.uid])

    @property
    def has_levels(self) -> bool:
        """Return whether a PodGroup requires a topology domain."""
        return any(levels for levels, _ in self.topology.values())

    @property
    def priority(self) -> int:
        """Return the priority that counts for preempting: the lowest of the pods."""
        return min(pod.priority for pod in self.pods)


@dataclass(slots=True)
class SimulationRequest:
    """The gangs of some manifests.

    ``claims`` are resource claims and templates among them. ``ignored`` are the names of the objects that make no pods.
    ``notes`` are sentences about assumptions.
    """

    gangs: list[RequestedGang]
    claims: list[DeviceObject] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


MOST_NAMESPACES = 16
"""The most namespaces that the objects of a question may have. The caller's right to see each of them is looked up."""


class _Index(WorkloadIndex):
    """The objects among the manifests, and the existing PodGroups of the ``cluster``."""

    def __init__(self, cluster: Workloads | None) -> None:
        super().__init__()
        self._cluster = cluster

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        found = super().find(kind, namespace, name)
        if found is None and self._cluster is not None and kind in (PodGroup, CoschedulingGroup):
            return self._cluster.find(kind, namespace, name)
        return found


def namespaces_of(manifests: Iterable[Manifest], namespace: str) -> list[str]:
    """Return the namespaces of the objects; an object without one counts as in ``namespace``. Raise `BadManifest`."""
    found: dict[str, None] = {}
    for manifest in manifests:
        meta = manifest.get("metadata") or {}
        named = (meta.get("namespace") or namespace) if isinstance(meta, dict) else namespace
        if not isinstance(named, str):
            raise BadManifest(f"{manifest['kind']}: metadata.namespace is not the name of a namespace")
        found[named] = None
    if len(found) > MOST_NAMESPACES:
        raise BadManifest(f"objects in {len(found)} namespaces; ask about at most {MOST_NAMESPACES} at once")
    return list(found)


def requested_gangs(
    manifests: list[Manifest],
    namespace: str = "default",
    classes: Sequence[Manifest] | None = None,
    cluster: Workloads | None = None,
) -> SimulationRequest:
    """Return the gangs that ``manifests`` make.

    ``classes`` are the PriorityClasses of the cluster, and ``cluster`` finds its PodGroups; None if they aren't
    known. Raise `BadManifest`, and `NothingToSimulate` if the manifests make no pods.
    """
    index = _Index(cluster)
    pods: list[Pod] = []
    space = _Space()
    result = SimulationRequest([])
    remarks = Remarks()
    known_classes = PriorityClasses(manifests, classes)
    for manifest in map(as_made, _named(manifests, namespace, result.notes)):
        make = maker(manifest)
        describes_gangs = _put_workload(manifest, index)
        if make is None and manifest["kind"] in CLAIMS:
            result.claims.append(CLAIMS[manifest["kind"]](as_json(manifest)))
            continue
        if make is None:
            if not describes_gangs and not known_classes.is_class(manifest):
                result.ignored.append(full_name(manifest))
            continue
        made = list(_made(make, manifest, len(pods), known_classes, space))
        if not made:
            result.notes.append(
                f"{full_name(manifest)} makes no pods: its replicas, parallelism or completions are 0"
            )
        remarks.add(manifest, made)
        pods.extend(made)
    if not pods:
        raise NothingToSimulate(_nothing(result))
    foreign = sorted({pod.scheduler for pod in pods if pod.scheduler != SCHEDULER_NAME})
    if foreign:
        result.notes.append(
            f"simulated as if schedulerName were {SCHEDULER_NAME}, not {', '.join(foreign)}: as it is, fluence won't "
            f"place these pods; did you mean schedulerName: {SCHEDULER_NAME}?"
        )
    result.gangs = _gangs(pods, index)
    for gang in result.gangs:
        gang.unknown_class = next(filter(None, (known_classes.missing(pod.uid) for pod in gang.pods)), "")
    result.notes.extend(known_classes.notes())
    for gang in result.gangs:
        for pod in gang.pods:
            remarks.add_missing(pod, gang.key.convention, gang.size)
    result.notes.extend(remarks.notes())
    return result


def _nothing(result: SimulationRequest) -> str:
    """Return why there is nothing to simulate, and what to do."""
    unknown = [f"the pods that {one} makes are not known" for one in result.ignored[:NAMED_OBJECTS]]
    why = [*result.notes[:NAMED_OBJECTS], *unknown]
    more = len(result.notes) + len(result.ignored) - len(why)
    if more > 0:
        why.append(f"and {more} more")
    text = "; ".join(why) or "no object in these manifests makes a pod"
    return f"nothing to simulate: {text}. Give pods, or one of {', '.join(list(MAKERS)[1:])}"


def _named(manifests: Iterable[Manifest], namespace: str, notes: list[str]) -> Iterator[Manifest]:
    """Yield the objects, each with a namespace and a name."""
    names = _Names()
    for manifest in manifests:
        meta = manifest.setdefault("metadata", {})
        if not isinstance(meta, dict):
            raise BadManifest(f"{manifest['kind']}: metadata is not a mapping")
        meta["namespace"] = meta.get("namespace") or namespace
        meta["name"] = meta.get("name") or names.generate(manifest["kind"], meta)
        if names.is_repeated(manifest):
            notes.append(
                f"{full_name(manifest)} is there more than once: in a cluster the last one would replace the others"
            )
        yield manifest


class _Names:
    """The names of the objects of some manifests."""

    def __init__(self) -> None:
        self._generated: Counter[str] = Counter()
        self._seen: set[tuple[str, str, str]] = set()

    def generate(self, kind: str, meta: Mapping[str, Any]) -> str:
        """Return a name for an object that has none, with the prefix of its ``generateName``."""
        prefix = str(meta.get("generateName") or kind.lower())
        self._generated[prefix] += 1
        return f"{prefix}{self._generated[prefix]}"

    def is_repeated(self, manifest: Manifest) -> bool:
        """Return whether another object of that kind and name came before."""
        meta = manifest["metadata"]
        key = manifest["kind"], str(meta["namespace"]), str(meta["name"])
        seen = key in self._seen
        self._seen.add(key)
        return seen


class _Space:
    """The rest of `MOST_BYTES`."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def take(self, raw: bytes) -> bytes:
        """Subtract the bytes of a pod and return them. Raise `TooManyPods` if it is too large."""
        self._left -= len(raw)
        if len(raw) > LARGEST_POD:
            raise TooManyPods(f"a pod of more than {LARGEST_POD:,} bytes")
        if self._left < 0:
            raise TooManyPods(f"the pods take more than {MOST_BYTES:,} bytes together")
        return raw


def _made(
    make: Maker, manifest: Manifest, before: int, classes: PriorityClasses, space: _Space
) -> Iterator[Pod]:
    """Yield the pods of one object; ``before`` pods were made by the objects before it."""
    where = full_name(manifest)
    if manifest.get("spec") is None:
        raise BadManifest(f"{where}: spec is missing")
    try:
        for number, template in enumerate(make(manifest)):
            if before + number >= MOST_PODS:
                raise TooManyPods(f"more than {MOST_PODS:,} pods")
            namespace, uid = manifest["metadata"]["namespace"], f"what-if-{before + number}"
            yield _pod(template, namespace, uid, classes, space)
    except TooManyPods:
        raise
    except KeyError as missing:
        raise BadManifest(f"{where}: {missing.args[0]} is missing") from missing
    except (TypeError, AttributeError) as error:
        raise BadManifest(f"{where}: a field of its spec is of the wrong type") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadManifest(f"{where}: {error}") from error


def _pod(template: Manifest, namespace: str, uid: str, classes: PriorityClasses, space: _Space) -> Pod:
    meta = {**template["metadata"], "namespace": namespace, "uid": uid}
    spec = classes.resolved(uid, template["spec"])
    spec.pop("nodeName", None)
    spec.pop("schedulingGates", None)
    pod = decode_pod(space.take(as_json({"metadata": meta, "spec": spec})))
    owner = template.get("owner")
    return replace(pod, owner=Owner(*owner) if owner else None)


def _put_workload(manifest: Manifest, index: WorkloadIndex) -> bool:
    """Put an object that describes gangs into the index; return whether this is one."""
    if manifest["kind"] not in _DECODED:
        return False
    meta = manifest["metadata"]
    if manifest["kind"] in LABELLED_KINDS:
        # Their spec states the size. Labels and annotations that the API server would refuse do no harm.
        meta = {
            **{key: meta[key] for key in ("namespace", "name")},
            "labels": _texts(meta.get("labels"), (*QUEUE_LABELS, KUEUE_LONGEST_LABEL)),
            "annotations": _texts(
                meta.get("annotations"), (HOLD_ANNOTATION, AFTER_ANNOTATION, DURATION_ANNOTATION)
            ),
        }
    manifest = {**manifest, "metadata": {**meta, "uid": uid_of(manifest["kind"], meta["name"])}}
    try:
        decoded = workload(manifest["kind"], as_json(manifest))
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise BadManifest(f"{manifest['kind']} {manifest['metadata']['name']}: {error}") from error
    if decoded is not None:
        index.put(decoded)
    return decoded is not None


def _texts(given: object, keys: Iterable[str]) -> dict[str, str]:
    """Return the entries of a mapping with these keys whose values are texts."""
    found = {key: given.get(key) for key in keys} if isinstance(given, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


class _Typed(msgspec.Struct, rename="camel"):
    api_version: str = ""


_typed = msgspec.json.Decoder(_Typed).decode


def workload(kind: str, raw: bytes) -> Workload | None:
    """Return an object that describes gangs, None for others. Raise `msgspec.MsgspecError`."""
    if kind not in _DECODED:
        return None
    decode = _DECODERS.get((_typed(raw).api_version.partition("/")[0], kind))
    return decode(raw) if decode is not None else None


def _gangs(pods: list[Pod], index: WorkloadIndex) -> list[RequestedGang]:
    found: dict[GangKey, RequestedGang] = {}
    memberships: dict[GangKey, list[Membership]] = {}
    for pod in pods:
        membership = index.membership(pod)
        gang = found.setdefault(membership.key, RequestedGang(membership.key))
        gang.pods.append(replace(pod, duration=declared(pod, index)))
        memberships.setdefault(membership.key, []).append(membership)
        gang.topology[pod.uid] = owner_topology(index, pod)
    for key, gang in found.items():
        gang.size = agreed_size(key, zip((pod.name for pod in gang.pods), memberships[key], strict=True))
        members = {
            pod.uid: Member(pod, membership)
            for pod, membership in zip(gang.pods, memberships[key], strict=True)
        }
        gang.submission = submission_of(Gang(key, members), index)
    return list(found.values())


_DECODERS: Mapping[tuple[str, str], Callable[[bytes], Workload]] = {
    ("batch", "Job"): decode_job,
    # A Deployment's pods are simulated as those of a ReplicaSet of its name.
    ("apps", "Deployment"): decode_replica_set,
    ("apps", "ReplicaSet"): decode_replica_set,
    ("apps", "StatefulSet"): decode_stateful_set,
    ("scheduling.k8s.io", "PodGroup"): decode_pod_group,
    ("scheduling.x-k8s.io", "PodGroup"): decode_coscheduling_group,
    ("jobset.x-k8s.io", "JobSet"): decode_job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): decode_leader_worker_set,
    ("kubeflow.org", "MPIJob"): decode_mpi_job,
    ("ray.io", "RayCluster"): decode_ray_cluster,
}
_DECODED = frozenset(kind for _, kind in _DECODERS)
