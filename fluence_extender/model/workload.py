"""The objects that say how large a gang is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A native PodGroup (scheduling.k8s.io); ``min_count`` is 1 for the basic (not gang) policy."""

    namespace: str
    name: str
    uid: str
    min_count: int


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job; ``completions`` is None when the Job doesn't set it."""

    namespace: str
    name: str
    uid: str
    parallelism: int
    completions: int | None = None
