"""The Job controller and the admission of Jobs' pods, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Unpack

from fluence_extender.model.names import COMPLETION_INDEX, GATE, NODE_NAME
from fluence_extender.model.pod import NodeTerm, Owner, Pod, Requirement
from fluence_extender.model.workload import Job
from tests.core.faulty_cluster import FaultyCluster
from tests.core.values import PodFields, asks

EVERY = 0.05
"""Seconds between two looks at the Jobs."""


def index_of(pod: Pod) -> int:
    """The completion index of a Job's pod."""
    return int(pod.annotations[COMPLETION_INDEX])


class JobController:
    """Creates the pods of Indexed Jobs; ``run`` it as a task.

    ``quota`` is how many pods it may create, None for any number. ``born`` are the pods that got their node at birth,
    and ``gated`` those that got the gate, by name.
    """

    def __init__(self, cluster: FaultyCluster) -> None:
        self.cluster = cluster
        self.quota: int | None = None
        self.born: list[str] = []
        self.gated: list[str] = []
        self._numbers = itertools.count(1)
        self._running: set[str] = set()

    def submit(
        self, name: str, count: int, cpu: int = 1000, held: bool = True, **fields: Unpack[PodFields]
    ) -> Job:
        """Create a Job as admission lets it through: suspended until it is placed, if ``held``.

        ``fields`` are those of its pods.
        """
        uid = f"job-{name}-{next(self._numbers)}"
        owner = Owner("Job", name, uid, "batch/v1")
        index = {COMPLETION_INDEX: "0"}
        fields.setdefault("gates", (GATE,))
        pod = Pod(
            "default",
            f"{name}-0-trial",
            "trial",
            labels=index,
            annotations=index,
            owner=owner,
            requests=asks(cpu, 1),
            created=float(next(self._numbers)),
        )
        self.cluster.first_pods[uid] = replace(pod, **fields)
        job = Job(
            "default",
            name,
            uid,
            parallelism=count,
            completions=count,
            indexed=True,
            ours=True,
            suspended=held,
            held_for_placement=held,
        )
        self.cluster.put(job)
        return self.cluster.job(job)

    def pods(self, job: Job) -> list[Pod]:
        """The Job's pods in the order of their indexes."""
        own = [
            pod
            for pod in self.cluster.pods()
            if pod.owner is not None and pod.owner.uid == job.uid and COMPLETION_INDEX in pod.annotations
        ]
        return sorted(own, key=lambda pod: (index_of(pod), pod.created))

    def nodes(self, job: Job) -> list[str]:
        """The nodes of the Job's pods, in the order of their indexes."""
        return [pod.node for pod in self.pods(job) if not pod.finished]

    async def run(self) -> None:
        """Follow the Jobs until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            for job in self.cluster.jobs():
                if job.uid in self.cluster.first_pods:
                    self._sync(job)

    def _sync(self, job: Job) -> None:
        pods = self.pods(job)
        done = sorted(index_of(pod) for pod in pods if pod.phase == "Succeeded")
        if job.finished:
            return
        known = {index for first, last in job.done for index in range(first, last + 1)}
        if not set(done) <= known:
            ranges = tuple((index, index) for index in sorted(known | set(done)))
            finished = len(ranges) == job.completions
            self.cluster.put(replace(job, done=ranges, finished=finished))
            return
        if job.suspended:
            for pod in pods:
                if not pod.deleting and not pod.finished:
                    self.cluster.delete(pod)
            return
        if self.quota == 0:
            return
        there = {index_of(pod) for pod in pods if not pod.finished}
        for index in range(job.completions or 0):
            if index not in there and index not in known:
                self._create(job, index)

    def _create(self, job: Job, index: int) -> None:
        if self.quota is not None:
            if not self.quota:
                return
            self.quota -= 1
        number = next(self._numbers)
        text = {COMPLETION_INDEX: str(index)}
        pod = replace(
            self.cluster.first_pods[job.uid],
            name=f"{job.name}-{index}-{number}",
            uid=f"pod-{number}",
            labels=text,
            annotations=text,
            created=float(number),
        )
        node = job.nodes[index] if index < len(job.nodes) else ""
        if node and job.uid not in self.cluster.gated:
            term = NodeTerm(fields=(Requirement(NODE_NAME, "In", (node,)),))
            pod = replace(pod, gates=(), affinity=(term,))
            self.born.append(pod.name)
        else:
            self.gated.append(pod.name)
        self.cluster.put(pod)
