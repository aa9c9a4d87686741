"""Manifests in an embedded cluster: objects that describe gangs are stored, and controllers make and replace pods.

Invariant: a controller has one pod for each of its templates, and a suspended Job has none. A pod that is gone or has
failed is replaced, up to ``backoffLimit`` times for a Job, which counts no evictions if it has a podFailurePolicy. A
pod of a Job that has succeeded isn't replaced, nor is one that was deleted because its Job was suspended.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fluence_extender.cluster.errors import Gone
from fluence_extender.cluster.port import Deleted, Listed, Observation
from fluence_extender.embeddedcluster.admission import admit, admit_job
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.kinds.job import BACKOFF_LIMIT, Job, merged
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.kinds.registry import describing, pod_maker
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.names import NODES_ANNOTATION, PLACED_ANNOTATION
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.objects.queues import NodeReservation, Queue, read_queue, read_reservation
from fluence_extender.whatif.documents import Manifest, as_json

SUFFIXES = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of which Kubernetes makes the last part of a pod's name."""


QUEUE_OBJECTS: Mapping[str, Callable[[bytes], Queue | NodeReservation]] = {
    "Queue": read_queue,
    "Reservation": read_reservation,
}


@dataclass(slots=True)
class _Controlled:
    """The pods of one controller: their ``templates``, and how many ``replacements`` of them are left.

    With ``spares_evicted`` evictions take none of these. ``prefixes`` are the beginnings of their names. ``current``
    has, by uid, the position of each pod's template. Of a ``job`` that isn't suspended ``running`` is true, and
    ``deadline`` is its activeDeadlineSeconds; ``done`` are the positions whose pods have succeeded.
    """

    namespace: str
    owner: Owner | None
    templates: list[Manifest]
    prefixes: list[str]
    replacements: float
    spares_evicted: bool = False
    current: dict[str, int] = field(default_factory=dict)
    job: Job | None = None
    running: bool = False
    deadline: float | None = None
    done: set[int] = field(default_factory=set)


class EmbeddedWorkloads:
    """Applies manifests to ``cluster``, whose virtual resources are ``resources``."""

    def __init__(self, cluster: EmbeddedCluster, resources: VirtualResources) -> None:
        self._cluster = cluster
        self._resources = resources
        self._numbers = itertools.count(1)
        self._controlled: list[_Controlled] = []
        cluster.watch(self._observe)

    def apply(self, manifest: Manifest, namespace: str = "default") -> None:
        """Create the object, and the pods that its controller makes of it.

        Raise `BadManifest` for an object that neither makes pods nor describes a gang, nor rules the queue.
        """
        meta = manifest["metadata"] = {
            "namespace": namespace,
            **manifest["metadata"],
            "uid": str(uuid.uuid4()),
        }
        rules = QUEUE_OBJECTS.get(manifest["kind"])
        if rules is not None:
            self._cluster.put(rules(as_json(manifest)))
            return
        maker = pod_maker(manifest)
        if maker is not None and manifest["kind"] == "Job":
            manifest = admit_job(manifest)
        kind = describing(str(manifest.get("apiVersion") or ""), manifest["kind"])
        described = kind.decode(as_json(manifest)) if kind is not None else None
        if maker is None and described is None:
            raise BadManifest(f"the embedded cluster has no controller for {manifest['kind']} {meta['name']}")
        if isinstance(described, Job):
            described = replace(described, created=time.time())
        if described is not None:
            self._cluster.put(described)
        if maker is not None:
            sets = maker(manifest)
            pods = [pod for one in sets if one.count for pod in one.pods(meta["namespace"])]
            self._control(manifest, pods, described)

    def _control(self, manifest: Manifest, templates: list[Manifest], described: Workload | None) -> None:
        meta, spec, kind = manifest["metadata"], manifest["spec"], manifest["kind"]
        owner, replacements = None, 0.0
        names = [one["metadata"]["name"] for one in templates]
        if kind != "Pod" and templates:
            controller = templates[0]["metadata"]["ownerReferences"][0]["kind"]
            owner = Owner(controller, meta["name"], meta["uid"], manifest["apiVersion"])
            replacements = spec.get("backoffLimit", BACKOFF_LIMIT) if kind == "Job" else float("inf")
            if kind != "StatefulSet" and spec.get("completionMode") != "Indexed":
                names = [meta["name"]] * len(templates)
        spared = "podFailurePolicy" in spec
        one = _Controlled(meta["namespace"], owner, templates, names, replacements, spared)
        self._controlled.append(one)
        if isinstance(described, Job) and templates:
            one.job, one.deadline = described, spec.get("activeDeadlineSeconds")
            self._cluster.first_pods[described.uid] = (self._admitted(one, 0, None),)
            self._follow(one)
        else:
            self._fill(one)

    def _fill(self, one: _Controlled) -> None:
        """Create the pods that are missing."""
        job = self._current_job(one)
        filled = {*one.done, *one.current.values()}
        for position in range(len(one.templates)):
            if position not in filled:
                pod = self._admitted(one, position, job)
                one.current[pod.uid] = position
                self._cluster.put(pod)

    def _admitted(self, one: _Controlled, position: int, job: Job | None) -> Pod:
        """Return the new pod at ``position``, after its admission, with the plan of its ``job``, if it has one."""
        template, uid, name = one.templates[position], str(uuid.uuid4()), one.prefixes[position]
        notes = {
            key: text for key, text in template["metadata"]["annotations"].items() if key != NODES_ANNOTATION
        }
        if job is not None and job.nodes:
            notes |= {NODES_ANNOTATION: ",".join(job.nodes), PLACED_ANNOTATION: job.placed_with}
        metadata: dict[str, Any] = {
            **template["metadata"],
            "annotations": notes,
            "namespace": one.namespace,
            "uid": uid,
        }
        if one.owner is not None:
            metadata["name"] = f"{name}-{_suffix(next(self._numbers))}"
            metadata["ownerReferences"] = [
                {
                    "apiVersion": one.owner.api_version,
                    "kind": one.owner.kind,
                    "name": one.owner.name,
                    "uid": one.owner.uid,
                    "controller": True,
                }
            ]
        pod = {"metadata": metadata, "spec": template["spec"]}
        now = asyncio.get_running_loop().time()
        bound = one.job is not None and self._cluster.binds_at_birth(one.job.uid, now)
        return replace(
            admit(pod, self._resources, bound, self._cluster.objects),
            created=time.time(),
        )

    def _current_job(self, one: _Controlled) -> Job | None:
        """Return the Job as it is now, None if it is gone or these are pods of another kind of object."""
        try:
            return self._cluster.job(one.job) if one.job is not None else None
        except Gone:
            return None

    def _observe(self, seen: Observation) -> None:
        if isinstance(seen, Listed) or not isinstance(seen.object, Pod | Job):
            return
        if isinstance(seen.object, Job) or isinstance(seen, Deleted) or seen.object.finished:
            # Other sinks have to see this change before the one that follows from it.
            asyncio.get_running_loop().call_soon(self._react, seen.object)

    def _react(self, seen: Pod | Job) -> None:
        for one in tuple(self._controlled):
            if isinstance(seen, Job):
                if one.job is not None and one.job.uid == seen.uid:
                    self._follow(one)
            elif seen.uid in one.current:
                self._lose(one, seen)

    def _follow(self, one: _Controlled) -> None:
        """Give a Job its pods when it begins to run, and take them away when it is suspended or deleted."""
        job = self._current_job(one)
        if job is None:
            self._controlled.remove(one)
            for pod in self._cluster.pods():
                if pod.owner == one.owner:
                    self._cluster.delete(pod)
        elif one.running is job.suspended:
            one.running = not job.suspended
            ends = time.time() + one.deadline if one.running and one.deadline else None
            if job.ends != ends:
                self._cluster.put(replace(job, ends=ends))
            if one.running:
                self._fill(one)
            else:
                deleted, one.current = one.current, {}
                for pod in self._cluster.pods():
                    if pod.uid in deleted:
                        self._cluster.delete(pod)

    def _lose(self, one: _Controlled, pod: Pod) -> None:
        """Replace a pod that is gone or has failed; note one that has succeeded."""
        job = self._current_job(one)
        if pod.phase == "Succeeded":
            if job is not None:
                self._complete(one, job, pod)
        else:
            del one.current[pod.uid]
            counted = not one.spares_evicted or pod.uid not in self._cluster.evicted
            if one.replacements > 0 or not counted:
                one.replacements -= counted
                self._fill(one)
            elif job is not None:
                self._cluster.put(replace(job, finished=True))

    def _complete(self, one: _Controlled, job: Job, pod: Pod) -> None:
        one.done.add(one.current.pop(pod.uid))
        done = merged((index, index) for index in one.done) if job.indexed else ()
        self._cluster.put(replace(job, done=done, finished=len(one.done) == len(one.templates)))


def _suffix(number: int) -> str:
    """Return five characters that differ for each ``number``."""
    scrambled, base = number * 7_368_787 % 14_348_907, len(SUFFIXES)
    return "".join(SUFFIXES[scrambled // base**place % base] for place in range(5))
