"""Keep the `Context` up to date: the state of the cluster that handlers need, as one value.

PodGroups and pods are watched; the priority class is read every few seconds, and our own pod once. Invariants:
until each value of a context has been read once, `missing` says what isn't known yet. A value that can't be read later
stays the same.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import structlog

from fluence_extender.cluster.errors import Denied
from fluence_extender.cluster.pacing import jittered
from fluence_extender.cluster.port import Kind, Listed, Objects, Observation, follow_pods
from fluence_extender.cluster.reconciler import Reconciler
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.model.coordination import (
    CONSUMER_PRIORITY_CLASS,
    PRODUCER,
    PRODUCER_SUFFIX,
    ROLE_ANNOTATION,
)
from fluence_extender.model.names import GROUP_LABEL, RESOURCES_KEY
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import Context, GroupKind, GroupName

log = structlog.get_logger(__name__)

PRIORITY_CLASS = f"/apis/scheduling.k8s.io/v1/priorityclasses/{CONSUMER_PRIORITY_CLASS}"

PERIOD = 10.0
"""Seconds between two reads of what isn't watched."""


class ContextTracker(Reconciler[str]):
    """Keeps ``context`` up to date, beginning with ``initial``.

    ``own_pod`` is the path of the pod that this process runs in, "" if that doesn't matter. Sidecars run the image of
    that pod, so a deployment names one image only.
    """

    def __init__(self, objects: Objects, initial: Context, own_pod: str = "") -> None:
        super().__init__("the context of admissions")
        self.context = initial
        self._own_pod = own_pod
        self._objects = objects
        self._served: dict[Kind, bool] = {}
        self._read_once = False
        self._names = ProducerNames()
        self._has_resources = False
        self.enqueue(("cluster",))

    @property
    def missing(self) -> str:
        """The values that aren't known yet, in words, "" once all are."""
        unknown = [
            RESOURCES_KEY if not self._has_resources else "",
            "which PodGroups are served" if len(self._served) < 2 else "",
            "whether the priority class of consumers exists" if not self._read_once else "",
        ]
        listed = ", ".join(filter(None, unknown))
        return f"not known yet: {listed}" if listed else ""

    def adopt(self, resources: VirtualResources) -> None:
        """Use these resources from now on."""
        self._has_resources = True
        self.context = replace(self.context, resources=resources)

    def observe(self, seen: Observation) -> None:
        """Note from lists of PodGroups whether they are served, and from pods which groups have producers' names."""
        if self._names.observe(seen):
            self.context = replace(
                self.context,
                producer_groups=self._names.of_producers,
                producer_like_groups=self._names.of_others,
            )
        if isinstance(seen, Listed) and seen.kind in (PodGroup, CoschedulingGroup):
            self._served[seen.kind] = seen.served
            self.context = replace(self.context, groups=self._best_groups())

    async def reconcile(self, key: str) -> float:
        """Read what isn't watched."""
        has_class = await self._has_priority_class()
        if not self._read_once and self._own_pod:
            await self._learn_image()
        self.context = replace(self.context, priority_class=has_class)
        self._read_once = True
        return jittered(PERIOD)

    def _best_groups(self) -> GroupKind:
        if self._served.get(PodGroup):
            return GroupKind.NATIVE
        return GroupKind.COSCHEDULING if self._served.get(CoschedulingGroup) else GroupKind.NONE

    async def _learn_image(self) -> None:
        with suppress(Denied):
            if pod := await self._objects.read(self._own_pod):
                image = pod["spec"]["containers"][0]["image"]
                self.context = replace(self.context, sidecar_image=image)

    async def _has_priority_class(self) -> bool:
        """Return whether the priority class of consumers exists, as far as we may know."""
        try:
            return await self._objects.read(PRIORITY_CLASS) is not None
        except Denied as error:
            log.warning("the webhook lacks a right", problem=str(error))
            return False


class ProducerNames:
    """The groups whose names end like a producer's: ``of_producers``, and ``of_others``, which aren't producers.

    The producer of a shared group ``g`` is in the group ``g-producer``. A user may have a group of that name too, and
    then its pods and the producer would be one gang. Users may choose any valid name, so the clash is reported: to
    the user of the pod that comes second, and in the log. Invariant: a group is known as long as it has a pod that
    hasn't ended.
    """

    def __init__(self) -> None:
        self.of_producers: frozenset[GroupName] = frozenset()
        self.of_others: frozenset[GroupName] = frozenset()
        self._key_of: dict[str, tuple[GroupName, bool]] = {}
        self._pods: dict[tuple[GroupName, bool], set[str]] = {}

    def observe(self, seen: Observation) -> bool:
        """Note an observation, of whatever kind. Return whether the groups have changed."""
        known = frozenset(self._pods)
        follow_pods(seen, self._key_of, self._put, self._drop)
        if self._pods.keys() == known:
            return False
        clashes = self.of_producers & self.of_others
        self.of_producers, self.of_others = (
            frozenset(group for group, produces in self._pods if produces is wanted)
            for wanted in (True, False)
        )
        for namespace, group in (self.of_producers & self.of_others) - clashes:
            log.warning("a group has the name of a producer's group", group=f"{namespace}/{group}")
        return True

    def _put(self, pod: Pod) -> None:
        group = pod.labels.get(GROUP_LABEL, "")
        if not pod.ours or not group.endswith(PRODUCER_SUFFIX) or pod.finished:
            self._drop(pod.uid)
            return
        key = (pod.namespace, group), pod.annotations.get(ROLE_ANNOTATION) == PRODUCER
        if self._key_of.get(pod.uid, key) != key:
            self._drop(pod.uid)
        self._key_of[pod.uid] = key
        self._pods.setdefault(key, set()).add(pod.uid)

    def _drop(self, uid: str) -> None:
        key = self._key_of.pop(uid, None)
        if key is None:
            return
        self._pods[key].remove(uid)
        if not self._pods[key]:
            del self._pods[key]
