"""A kind of workloads: all that the service has to know of it, in one row of `registry.KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fluence_extender.kinds.membership import Membership, Workloads
from fluence_extender.kinds.pod_sets import Json, PodSet, trial_of
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.pod import Pod

Maker = Callable[[Json], Iterator[PodSet]]
"""Yields the pods of an object that has a name, a namespace and a uid.

Raises `BadManifest`, and what reading a mapping of another form raises.
"""

Recognize = Callable[[Pod, Workloads], Membership | None]
"""Returns the membership of a pod in the gang of an object, None if it is in none."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: the class of its ``values``, and how an object is read.

    ``pods`` yields the pods that its controller makes of an object, None where other objects are made of it first.
    ``label`` is the label by which pods name their object, and ``recognize`` the rule for pods that have it.
    ``suspend`` is the path of the field in the spec that suspends an object, empty where the service doesn't.
    """

    values: type[Workload]
    decode: Callable[[bytes], Workload]
    pods: Maker | None = None
    label: str = ""
    recognize: Recognize | None = None
    suspend: tuple[str, ...] = ()

    @property
    def api(self) -> Api:
        """Where it is served."""
        return self.values.api

    def first_pods(self, manifest: Json) -> list[Json]:
        """Return a pod of each shape, for a dry run, in the order of `Resumable.groups`.

        Raise `BadManifest`, and what reading a mapping of another form raises.
        """
        sets = list(self.pods(manifest)) if self.pods is not None else []
        # A Job has a shape even while its parallelism is 0.
        shapes = [one for one in sets if one.count and not one.later] or sets[:1]
        namespace = manifest["metadata"]["namespace"]
        return [trial_of(one.first(namespace)) for one in shapes]

    def suspending(self, suspended: bool) -> Json:
        """Return the spec of the patch that suspends or resumes an object."""
        spec: Any = suspended
        for name in reversed(self.suspend):
            spec = {name: spec}
        return dict(spec)
