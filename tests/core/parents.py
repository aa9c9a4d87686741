"""RayJobs and TrainJobs, and what KubeRay and the Trainer make of them.

KubeRay makes a RayCluster of a RayJob, with the labels and annotations that the RayJob has at that moment. It deletes
the RayCluster when the RayJob is suspended or has ended, and makes another one, of another name, when it is resumed.
The Trainer makes a JobSet of the TrainJob's name, which has none of its labels, and suspends and resumes it with the
TrainJob.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fluence_extender.kinds.ray import RayCluster, RayJob
from fluence_extender.kinds.trainjob import TrainJob
from fluence_extender.model.submission import Submission
from tests.core.operated import Said, operate, pods_of, ray
from tests.core.values import PodFields
from tests.core.world import World

CORE = 1000


@dataclass
class _OfRay:
    """A RayJob with so many workers, and the RayCluster that it has now."""

    made: RayJob
    workers: int
    said: Said
    suspended: bool = False
    ended: bool = False
    cluster: RayCluster | None = None


class Parents:
    """The RayJobs and TrainJobs of a world; ``second`` returns a second in which nothing else is created."""

    def __init__(self, world: World, second: Callable[[], float]) -> None:
        self._world = world
        self._second = second
        self._ray_jobs: dict[str, _OfRay] = {}
        self._train_jobs: dict[str, TrainJob] = {}

    @property
    def names(self) -> list[str]:
        """The names of all of them."""
        return sorted([*self._ray_jobs, *self._train_jobs])

    @property
    def sets(self) -> frozenset[str]:
        """The JobSets that are the Trainer's: it makes them anew if their users delete them."""
        return frozenset(self._train_jobs)

    def submit_ray_job(self, name: str, workers: int, said: Said, duration: float | None) -> None:
        """Create a RayJob; ``duration`` is its deadline, and ``said`` what it and its pods say."""
        made = RayJob("default", name, f"rayjob-{name}", submission=said.submission, duration=duration)
        self._world.cluster.put(made)
        self._ray_jobs[name] = _OfRay(made, workers, said)

    def submit_train_job(self, name: str, counts: list[int], said: Said, duration: float | None) -> None:
        """Create a TrainJob, whose JobSet has Jobs of so many pods."""
        made = TrainJob("default", name, f"trainjob-{name}", submission=said.submission, duration=duration)
        self._world.cluster.put(made)
        self._train_jobs[name] = made
        jobs, second = self._world.jobs, self._second()
        fields = PodFields(priority=said.priority, created=second)
        for job in jobs.submit_set(name, *counts, made_of=name, **fields):
            self._world.change_job(job, created=second)

    def say(self, name: str, change: Callable[[Submission], Submission]) -> None:
        """Change what one says about its place in the queue."""
        ray_job, train_job = self._ray_jobs.get(name), self._train_jobs.get(name)
        if ray_job is not None:
            ray_job.made = replace(ray_job.made, submission=change(ray_job.made.submission))
            self._world.cluster.put(ray_job.made)
        elif train_job is not None:
            self._train_jobs[name] = replace(train_job, submission=change(train_job.submission))
            self._world.cluster.put(self._train_jobs[name])

    def suspend(self, name: str, suspended: bool) -> None:
        """Suspend or resume one, as its user."""
        if name in self._ray_jobs:
            self._ray_jobs[name].suspended = suspended
        else:
            self._world.jobs.suspend_set(name, suspended)

    def end(self, name: str) -> None:
        """Have the work of a RayJob end; that of a TrainJob ends as its Jobs do."""
        one = self._ray_jobs.get(name)
        if one is not None and one.cluster is not None:
            for pod in pods_of(self._world, one.cluster):
                if pod.node and not pod.deleting:
                    self._world.change(pod, phase="Succeeded")
                    one.ended = True

    def delete(self, name: str) -> None:
        """Delete one, with all that was made of it."""
        if name in self._ray_jobs:
            one = self._ray_jobs.pop(name)
            self._world.cluster.remove(one.made)
            self._delete_cluster(one)
            return
        self._world.cluster.remove(self._train_jobs.pop(name))
        for job in self._world.jobs.remove_set(name):
            for pod in self._world.jobs.pods(job):
                if not pod.deleting:
                    self._world.cluster.delete(pod)

    def look(self) -> None:
        """Do what the operators do next."""
        for name, one in self._ray_jobs.items():
            if one.cluster is not None and (one.suspended or one.ended):
                self._delete_cluster(one)
            elif one.cluster is None and not (one.suspended or one.ended):
                second = self._second()
                said = replace(one.said, submission=one.made.submission, created=second)
                named = f"{name}-{second:.0f}"
                one.made = replace(one.made, cluster=named)
                self._world.cluster.put(one.made)
                one.cluster = ray(self._world, named, CORE, CORE, one.workers, said=said, made_of=name)
            if one.cluster is not None:
                operate(self._world, one.cluster)

    def _delete_cluster(self, one: _OfRay) -> None:
        cluster, one.cluster = one.cluster, None
        if cluster is None:
            return
        self._world.cluster.remove(self._world.cluster.job(cluster))
        for pod in pods_of(self._world, cluster):
            if not pod.deleting:
                self._world.cluster.delete(pod)
