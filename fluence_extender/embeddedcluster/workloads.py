"""Manifests in an embedded cluster: objects that describe gangs are stored, and controllers make and replace pods.

Invariant: a controller has one pod for each of its templates. A pod that is gone or has failed is replaced, up to
``backoffLimit`` times for a Job; a pod of a Job that has succeeded isn't.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.cluster.port import Deleted, Kind, Observation
from fluence_extender.embeddedcluster.admission import admit
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.workload import BACKOFF_LIMIT
from fluence_extender.whatif.controllers import maker
from fluence_extender.whatif.documents import BadManifest, Manifest, as_json
from fluence_extender.whatif.manifests import workload

SUFFIXES = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of which Kubernetes makes the last part of a pod's name."""


@dataclass(slots=True)
class _Controlled:
    """The pods of one controller: their ``templates``, and how many ``replacements`` of them are left.

    ``prefixes`` are the beginnings of their names. ``current`` has, by uid, the position of each pod's template.
    """

    namespace: str
    owner: Owner | None
    templates: list[Manifest]
    prefixes: list[str]
    replacements: float
    current: dict[str, int] = field(default_factory=dict)


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

        Raise `BadManifest` for an object that neither makes pods nor describes a gang.
        """
        meta = manifest["metadata"] = {
            "namespace": namespace,
            **manifest["metadata"],
            "uid": str(uuid.uuid4()),
        }
        make = maker(manifest)
        described = workload(manifest["kind"], as_json(manifest))
        if make is None and described is None:
            raise BadManifest(f"the embedded cluster has no controller for {manifest['kind']} {meta['name']}")
        if described is not None:
            self._cluster.put(described)
        if make is not None:
            self._control(manifest, list(make(manifest)))

    def _control(self, manifest: Manifest, templates: list[Manifest]) -> None:
        meta, spec, kind = manifest["metadata"], manifest["spec"], manifest["kind"]
        owner, replacements = None, 0.0
        names = [one["metadata"]["name"] for one in templates]
        if kind != "Pod" and templates:
            owner = Owner(templates[0]["owner"][0], meta["name"], meta["uid"], manifest["apiVersion"])
            replacements = spec.get("backoffLimit", BACKOFF_LIMIT) if kind == "Job" else float("inf")
            if kind != "StatefulSet" and spec.get("completionMode") != "Indexed":
                names = [meta["name"]] * len(templates)
        one = _Controlled(meta["namespace"], owner, templates, names, replacements)
        self._controlled.append(one)
        for position in range(len(templates)):
            self._create(one, position)

    def _create(self, one: _Controlled, position: int) -> None:
        template, uid, name = one.templates[position], str(uuid.uuid4()), one.prefixes[position]
        metadata: dict[str, Any] = {**template["metadata"], "namespace": one.namespace, "uid": uid}
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
        admitted = admit({"metadata": metadata, "spec": template["spec"]}, self._resources)
        one.current[uid] = position
        self._cluster.put(replace(decode_pod(as_json(admitted)), created=time.time()))

    def _observe(self, seen: Observation) -> None:
        if seen.kind is not Kind.POD or not hasattr(seen, "object"):
            return
        pod = seen.object
        assert isinstance(pod, Pod)
        gone = isinstance(seen, Deleted) and pod.phase != "Succeeded"
        if gone or pod.phase == "Failed":
            # Other sinks have to see this change before the one that follows from it.
            asyncio.get_running_loop().call_soon(self._replace, pod.uid)

    def _replace(self, uid: str) -> None:
        for one in self._controlled:
            position = one.current.pop(uid, None)
            if position is not None and one.replacements > 0:
                one.replacements -= 1
                self._create(one, position)


def _suffix(number: int) -> str:
    """Return five characters that differ for each ``number``."""
    scrambled, base = number * 7_368_787 % 14_348_907, len(SUFFIXES)
    return "".join(SUFFIXES[scrambled // base**place % base] for place in range(5))
