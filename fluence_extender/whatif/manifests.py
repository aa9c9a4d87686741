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

from fluence_extender.apiserver.defaults import KINDS as ADMISSION_KINDS
from fluence_extender.apiserver.defaults import AdmissionObjects
from fluence_extender.apiserver.faults import object_fault
from fluence_extender.cluster.decode.charge import decode_charge
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.gangs.membership.gang import Gang, Member, agreed_size
from fluence_extender.gangs.membership.workloads import Found, WorkloadIndex, owner_topology
from fluence_extender.gangs.queue.submissions import declared, submission_of
from fluence_extender.gangs.reporting.remarks import other_priority
from fluence_extender.kinds.job import more_runs
from fluence_extender.kinds.membership import Membership, Workloads
from fluence_extender.kinds.pod_sets import BadManifest, PodSet
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.registry import MADE_OF, NOT_UNDERSTOOD, POD_MAKERS, describing, pod_maker
from fluence_extender.kinds.replicas import LABELLED_KINDS
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    DEFAULT_SCHEDULER,
    DURATION_ANNOTATION,
    HOLD_ANNOTATION,
    KUEUE_LONGEST_LABEL,
    SCHEDULER_NAME,
    SCHEDULER_NAMES,
)
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.submission import NOTHING_SAID, QUEUE_LABELS, Submission
from fluence_extender.model.wording import shortened
from fluence_extender.objects.devices import DeviceObject, read_resource_claim, read_resource_claim_template
from fluence_extender.placement.demand import Demand
from fluence_extender.whatif.documents import Manifest, NothingToSimulate, TooManyPods, as_json, reading
from fluence_extender.whatif.remarks import (
    CLUSTER_WIDE,
    Remarks,
    chosen_node,
    full_name,
    later_pods,
    unjudged,
)
from fluence_extender.whatif.roles import Roles
from fluence_extender.whatif.trials import PodTrial, Template

CLAIMS: Mapping[str, Callable[[bytes], DeviceObject]] = {
    "ResourceClaim": read_resource_claim,
    "ResourceClaimTemplate": read_resource_claim_template,
}

MOST_PODS = 10_000
MOST_BYTES = 64 * 2**20
"""The most bytes of all pods together, as JSON."""
LARGEST_POD = 2**20

PLACING = ("nodeName", "schedulingGates")
"""The fields of a pod's spec by which somebody else decides when and where it runs."""

QUEUE_OBJECTS = ("Queue", "Reservation")
"""The kinds of objects that rule the queue, which belong to administrators."""

LONGEST_GENERATED = 58
"""The most characters of a ``generateName`` that the API server keeps, so that a label can hold the whole name."""
GENERATED = 5
"""How many characters the API server adds to them."""

NAMED_OBJECTS = 4
"""The most objects without pods that an error names."""

LONGEST_REFUSAL = 2_000
"""The most characters of the API server's refusal, which each gang of the template repeats."""


@dataclass(slots=True)
class RequestedGang:
    """One gang of a question: its pods, and how many of them make it whole.

    ``topology`` holds, by pod uid, the levels that a PodGroup requires and the size of the pod's Job.
    ``refusal`` is why the API server would refuse them, None if it wouldn't. ``submission`` is its submission to the
    queue.
    """

    key: GangKey
    pods: list[Pod] = field(default_factory=list)
    size: int | Reason = 1
    topology: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    refusal: Reason | None = None
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
class ManifestQuestion:
    """The objects of some manifests: those that make pods, by their ``templates``, and those that pods depend on.

    ``workloads`` describe gangs, ``claims`` are resource claims and templates, and ``objects`` are what admission
    consults. ``ignored`` are the names of the objects that make no pods. ``notes`` are sentences about assumptions, and
    ``remarks`` those about what the objects state.
    """

    objects: AdmissionObjects
    remarks: Remarks = field(default_factory=Remarks)
    templates: list[Template] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    claims: list[DeviceObject] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SimulationRequest:
    """The gangs of a question, with the workloads, resource claims and notes of the question."""

    gangs: list[RequestedGang]
    workloads: list[Workload] = field(default_factory=list)
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
        if manifest["kind"] in CLUSTER_WIDE:
            continue
        meta = manifest.get("metadata") or {}
        named = (meta.get("namespace") or namespace) if isinstance(meta, dict) else namespace
        if not isinstance(named, str):
            raise BadManifest(f"{manifest['kind']}: metadata.namespace is not the name of a namespace")
        found[named] = None
    if len(found) > MOST_NAMESPACES:
        raise BadManifest(f"objects in {len(found)} namespaces; ask about at most {MOST_NAMESPACES} at once")
    return list(found)


def read_question(manifests: list[Manifest], namespace: str = "default") -> ManifestQuestion:
    """Return what ``manifests`` ask. An object without a namespace counts as in ``namespace``.

    Raise `BadManifest`, and `NothingToSimulate` if they make no pods.
    """
    notes: list[str] = []
    named = list(_named(manifests, namespace, notes))
    question = ManifestQuestion(_admission(named), notes=notes)
    roles = Roles()
    others: set[str] = set()
    pods = 0
    for manifest, fault in _made(named, question):
        maker = pod_maker(manifest)
        described = _workload(manifest)
        if described is not None:
            question.workloads.append(described)
        if maker is not None:
            pods += _add_templates(question, manifest, fault, roles, others)
            if pods > MOST_PODS:
                raise TooManyPods(f"{full_name(manifest)}: more than {MOST_PODS:,} pods")
        elif manifest["kind"] in CLAIMS:
            question.claims.append(CLAIMS[manifest["kind"]](as_json(manifest)))
        elif manifest["kind"] in QUEUE_OBJECTS:
            question.notes.append(f"{full_name(manifest)} counts once it is in the cluster: apply it first")
        elif described is None and manifest["kind"] not in ADMISSION_KINDS:
            question.ignored.append(full_name(manifest))
    if not question.templates:
        raise NothingToSimulate(_nothing(question))
    if others:
        question.notes.append(
            f"simulated as if schedulerName were {SCHEDULER_NAME}, not {', '.join(sorted(others))}: as it is, fluence "
            f"won't place these pods; did you mean schedulerName: {SCHEDULER_NAME}?"
        )
    return question


def _admission(manifests: Iterable[Manifest]) -> AdmissionObjects:
    """Return what admission consults. Raise `BadManifest` for an object that the API server refuses."""
    consulted = [one for one in manifests if one["kind"] in ADMISSION_KINDS]
    for one in consulted:
        if fault := object_fault(one):
            raise BadManifest(f"the API server refuses {full_name(one)}: {fault}")
    return AdmissionObjects(consulted)


def _add_templates(
    question: ManifestQuestion, manifest: Manifest, fault: str, roles: Roles, others: set[str]
) -> int:
    """Add the templates of one object, and return how many pods they have.

    ``fault`` is why the API server refuses the object, "" if it doesn't. ``others`` gets the schedulers that the
    templates name in place of ours.
    """
    name, namespace, maker = (
        full_name(manifest),
        manifest["metadata"]["namespace"],
        POD_MAKERS[manifest["kind"]][1],
    )
    templates: list[Template] = []
    with reading(name, fault):
        if manifest.get("spec") is None:
            raise BadManifest("spec is missing")
        for pods in list(maker(manifest)):
            if node := pods.template["spec"].get("nodeName"):
                question.remarks.add_text(chosen_node(node), name)
            others.update({scheduler_of(pods.template)}.difference(SCHEDULER_NAMES))
            for part in roles.parts(placed_by_us(pods), namespace):
                templates.append(Template(name, namespace, part, fault))
        count = sum(one.pods.count for one in templates)
        if manifest["kind"] == "Job" and (later := more_runs(manifest["spec"])):
            question.notes.append(later_pods(name, count, later))
    if not count:
        question.notes.append(f"{name} makes no pods: its replicas, parallelism or completions are 0")
    with_pods = [one for one in templates if one.pods.count]
    with reading(name, fault):
        question.remarks.add(manifest, [one.pods.first(namespace)["metadata"] for one in with_pods])
    question.templates.extend(with_pods)
    return count


def requested_gangs(
    question: ManifestQuestion, trials: Sequence[PodTrial], cluster: Workloads | None = None
) -> SimulationRequest:
    """Return the gangs of a question, whose templates have these trials.

    ``cluster`` finds the PodGroups that exist, None if they aren't known. Raise `BadManifest`.
    """
    index = _Index(cluster)
    for described in question.workloads:
        index.put(described)
    remarks = question.remarks
    space, pods, refusals = _Space(), list[Pod](), dict[str, str]()
    for template, trial in zip(question.templates, trials, strict=True):
        with reading(template.owner):
            made = list(_pods(template, trial, len(pods), space))
            for text in (*trial.notes, *unjudged(trial.added["spec"])):
                remarks.add_text(text, template.owner)
            pods.extend(made)
            if trial.refusal:
                refusal = shortened(trial.refusal, LONGEST_REFUSAL)
                refusals.update((pod.uid, refusal) for pod in made)
    gangs = _gangs(pods, index)
    for gang in gangs:
        refused = next(filter(None, (refusals.get(pod.uid) for pod in gang.pods)), "")
        if refused:
            gang.refusal = Reason(ReasonCode.INVALID_REQUEST, refused)
        for pod in gang.pods:
            remarks.add_missing(pod, gang.key.convention, gang.size)
            for text in other_priority(pod, index):
                remarks.add_text(text, f"Pod {pod.key}")
    notes = [*question.notes, *remarks.notes()]
    return SimulationRequest(gangs, question.workloads, question.claims, question.ignored, notes)


def _nothing(result: ManifestQuestion) -> str:
    """Return why there is nothing to simulate, and what to do."""
    unknown = [f"the pods that {one} makes are not known" for one in result.ignored[:NAMED_OBJECTS]]
    why = [*result.notes[:NAMED_OBJECTS], *unknown]
    more = len(result.notes) + len(result.ignored) - len(why)
    if more > 0:
        why.append(f"and {more} more")
    text = "; ".join(why) or "no object in these manifests makes a pod"
    kinds = sorted((POD_MAKERS.keys() | MADE_OF.keys()) - {"Pod"})
    return f"nothing to simulate: {text}. Give pods, or one of {', '.join(kinds)}"


def _named(manifests: Iterable[Manifest], namespace: str, notes: list[str]) -> Iterator[Manifest]:
    """Yield the objects, each with a namespace and a name."""
    names = _Names()
    for manifest in manifests:
        meta = manifest.setdefault("metadata", {})
        if not isinstance(meta, dict):
            raise BadManifest(f"{manifest['kind']}: metadata is not a mapping")
        meta["namespace"] = meta.get("namespace") or namespace
        if meta.get("name") in (None, ""):
            meta["name"] = names.generate(manifest["kind"], meta)
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
        """Return a name for an object that has none; with a ``generateName`` it is as long as in a cluster."""
        given = meta.get("generateName")
        prefix = str(given or kind.lower())[:LONGEST_GENERATED]
        self._generated[prefix] += 1
        return f"{prefix}{self._generated[prefix]:0{GENERATED if given else 1}}"

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


def _made(manifests: Iterable[Manifest], question: ManifestQuestion) -> Iterator[tuple[Manifest, str]]:
    """Yield each object, or in its place the one that its controller makes of it, with a uid.

    The second is why the API server refuses the object, "" if it doesn't.
    """
    for given in manifests:
        why = object_fault(given)
        fault = f"the API server refuses {full_name(given)}: {why}" if why else ""
        if not isinstance(given["metadata"]["name"], str):
            raise BadManifest(fault)
        manifest: Manifest | None = given
        while manifest is not None and manifest["kind"] in MADE_OF:
            with reading(full_name(manifest), fault):
                manifest = MADE_OF[manifest["kind"]](manifest)
        if manifest is None:
            question.notes.append(f"{full_name(given)} makes no pods: it uses a cluster that exists")
            continue
        if given["kind"] in NOT_UNDERSTOOD:
            question.notes.append(f"{full_name(given)} isn't understood: {NOT_UNDERSTOOD[given['kind']]}")
            continue
        manifest["metadata"] = {
            **manifest["metadata"],
            "uid": uid_of(manifest["kind"], manifest["metadata"]["name"]),
        }
        yield manifest, fault


def _pods(template: Template, trial: PodTrial, before: int, space: _Space) -> Iterator[Pod]:
    """Yield the pods of a template as they would be; ``before`` pods come before them."""
    added, charge = trial.added["metadata"], None
    spec = {key: value for key, value in trial.added["spec"].items() if key not in PLACING}
    for number, member in enumerate(template.pods.members()):
        meta = {
            "namespace": template.namespace,
            "name": member.name,
            "uid": f"what-if-{before + number}",
            "labels": {**(added.get("labels") or {}), **member.labels},
            "annotations": {**(added.get("annotations") or {}), **member.annotations},
            **({"ownerReferences": [member.owner]} if member.owner is not None else {}),
        }
        raw = space.take(as_json({"metadata": meta, "spec": spec}))
        # Pods of one template count alike in quotas.
        charge = charge if number else decode_charge(raw)
        yield replace(decode_pod(raw), charge=charge)


def _workload(manifest: Manifest) -> Workload | None:
    """Return an object that describes gangs, None if it is another one."""
    kind = describing(str(manifest.get("apiVersion") or ""), manifest["kind"])
    if kind is None:
        return None
    meta = manifest["metadata"]
    if manifest["kind"] in LABELLED_KINDS:
        # Their spec states the size. Labels and annotations that the API server would refuse do no harm.
        meta = {
            **{key: meta[key] for key in ("namespace", "name", "uid")},
            "labels": _texts(meta.get("labels"), (*QUEUE_LABELS, KUEUE_LONGEST_LABEL)),
            "annotations": _texts(
                meta.get("annotations"), (HOLD_ANNOTATION, AFTER_ANNOTATION, DURATION_ANNOTATION)
            ),
        }
    try:
        return kind.decode(as_json({**manifest, "metadata": meta}))
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise BadManifest(f"{manifest['kind']} {manifest['metadata']['name']}: {error}") from error


def _texts(given: object, keys: Iterable[str]) -> dict[str, str]:
    """Return the entries of a mapping with these keys whose values are texts."""
    found = {key: given.get(key) for key in keys} if isinstance(given, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def uid_of(kind: str, name: str) -> str:
    """Return the uid that an object of the manifests has as the owner of its pods."""
    return f"{kind.lower()}-{name}"


def scheduler_of(template: Mapping[str, Any]) -> str:
    """Return the scheduler that is to place the pods of a template."""
    return str(template["spec"].get("schedulerName") or DEFAULT_SCHEDULER)


def placed_by_us(pods: PodSet) -> PodSet:
    """Return the pods as if we placed them and no node was chosen."""
    spec = {key: value for key, value in pods.template["spec"].items() if key not in PLACING}
    template = {**pods.template, "spec": {**spec, "schedulerName": SCHEDULER_NAME}}
    return replace(pods, template=template)


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
