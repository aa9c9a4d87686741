"""A restart decides the same: what the API server has is all that the queue goes by.

Jobs, JobSets, TrainJobs, MPIJobs, RayClusters, RayJobs and pods of several queues come, wait for each other, are held,
preempted, sent back in line, suspended and resumed by their users, end and are deleted. Whenever nothing is under way,
a core that knows nothing but the objects on the API server must find the line, the reasons, the reservations and the
shares that the running one has, and must want to do nothing.

What a restart may change isn't compared: on which nodes is reserved, what a gang that lacks room was told last, and the
order of Jobs of one second, of which there are none here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from zlib import crc32

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fluence_extender.kinds.job import Job
from fluence_extender.model.dependency import Ending
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, QUEUE_LABEL
from fluence_extender.model.node import Node
from fluence_extender.model.submission import Submission
from fluence_extender.objects.queues import (
    DEFAULT_QUEUE,
    OverrunAction,
    PolicyName,
    Queue,
    QueueLimits,
    Quota,
    SchedulingOptions,
    Stop,
)
from tests.core.anew import anew, standing
from tests.core.operated import Operated, Said, mpi, operate, pods_of, ray
from tests.core.parents import Parents
from tests.core.shapes import allocatable, requests
from tests.core.values import PodFields
from tests.core.world import World

Create = Callable[..., Operated]

SHARE = 10
CORES = 4

queues = st.sampled_from(["", "a", "b"])
choice = st.randoms(use_true_random=False)
counts = st.integers(1, 4)
priorities = st.sampled_from([0, 0, 0, 10])
durations = st.sampled_from([None, 30.0, 300.0])
after = st.sampled_from(["", "", "ok", "any", "failed"])


class Restarts(RuleBasedStateMachine):
    """Rules are what users, controllers and administrators do."""

    @initialize(count=st.integers(1, 3), policy=st.sampled_from(PolicyName))
    def begin(self, count: int, policy: PolicyName) -> None:
        nodes = [Node(f"n{number}", allocatable=allocatable(CORES, 64, 0)) for number in range(count)]
        self.made = 0
        self.operated: list[Operated] = []
        default = Queue(DEFAULT_QUEUE, scheduling=SchedulingOptions(policy), uid="d")
        self.world = World(*nodes, default, Queue("a", uid="a"), Queue("b", uid="b"))
        self.parents = Parents(self.world, self._second)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()

    # Users.

    @rule(
        count=counts,
        indexed=st.booleans(),
        queue=queues,
        priority=priorities,
        after=after,
        held=st.sampled_from([None, None, "true"]),
        duration=durations,
        random=choice,
    )
    def submit_a_job(
        self,
        count: int,
        indexed: bool,
        queue: str,
        priority: int,
        after: str,
        held: str | None,
        duration: float | None,
        random: Random,
    ) -> None:
        name = self._name("j")
        waits_for = f"{after}:job/{random.choice(self._jobs()).name}" if after and self._jobs() else None
        jobs, labels = self.world.jobs, {QUEUE_LABEL: queue} if queue else {}
        fields = PodFields(priority=priority, labels=labels, duration=duration, created=self._now())
        job = (
            jobs.submit(name, count, **fields) if indexed else jobs.submit_array(name, count, count, **fields)
        )
        said = Submission(held, waits_for, None, tuple(labels.items()))
        self.world.change_job(job, submission=said, created=fields["created"])

    @rule(
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=2),
        queue=queues,
        priority=priorities,
        duration=durations,
    )
    def submit_a_job_set(self, counts: list[int], queue: str, priority: int, duration: float | None) -> None:
        name, labels = self._name("s"), {QUEUE_LABEL: queue} if queue else {}
        fields = PodFields(priority=priority, labels=labels, duration=duration, created=self._now())
        for job in self.world.jobs.submit_set(name, *counts, **fields):
            said = Submission(queues=tuple(labels.items()))
            self.world.change_job(job, submission=said, created=fields["created"])

    @rule(random=choice, suspended=st.booleans())
    def suspend_or_resume_a_job_set(self, random: Random, suspended: bool) -> None:
        if sets := sorted(self.world.jobs.sets.keys() - self.parents.sets):
            self.world.jobs.suspend_set(random.choice(sets), suspended)

    @rule(random=choice)
    def delete_a_job_set(self, random: Random) -> None:
        if sets := sorted(self.world.jobs.sets.keys() - self.parents.sets):
            for job in self.world.jobs.remove_set(random.choice(sets)):
                self._delete_pods(job)

    @rule(count=counts, queue=queues, priority=priorities, held=st.booleans(), duration=durations)
    def submit_a_gang(
        self, count: int, queue: str, priority: int, held: bool, duration: float | None
    ) -> None:
        name = self._name("g")
        for number in range(count):
            self.world.pod(
                f"{name}-{number}",
                gates=(GATE,),
                labels={GROUP_LABEL: name, **({QUEUE_LABEL: queue} if queue else {})},
                annotations={GROUP_SIZE_ANNOTATION: str(count)},
                requests=requests(1000, 0),
                priority=priority,
                duration=duration,
                created=self._now(),
            )

    @rule(
        create=st.sampled_from([ray, mpi]),
        count=st.integers(1, 3),
        queue=st.sampled_from(["a", "b"]),
        priority=priorities,
        after=after,
        held=st.sampled_from([None, None, "true"]),
        duration=durations,
        random=choice,
    )
    def submit_to_an_operator(
        self,
        create: Create,
        count: int,
        queue: str,
        priority: int,
        after: str,
        held: str | None,
        duration: float | None,
        random: Random,
    ) -> None:
        name, labels = self._name("o"), {QUEUE_LABEL: queue}
        waits_for = f"{after}:job/{random.choice(self._jobs()).name}" if after and self._jobs() else None
        said = Submission(held, waits_for, None, tuple(labels.items()))
        fields = Said(said, priority, duration, self._now(), labels)
        self.operated.append(create(self.world, name, 1000, 1000, count, said=fields))

    @rule(
        of_ray=st.booleans(),
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=2),
        queue=queues,
        priority=priorities,
        held=st.sampled_from([None, None, "true"]),
        deadline=durations,
    )
    def submit_a_ray_job_or_a_train_job(
        self,
        of_ray: bool,
        counts: list[int],
        queue: str,
        priority: int,
        held: str | None,
        deadline: float | None,
    ) -> None:
        # Without a label admission doesn't suspend RayClusters.
        named = ((QUEUE_LABEL, queue or "a"),) if queue or of_ray else ()
        said = Said(Submission(held, queues=named), priority)
        if of_ray:
            self.parents.submit_ray_job(self._name("r"), counts[0], said, deadline)
        else:
            self.parents.submit_train_job(self._name("t"), counts, said, deadline)

    @rule(random=choice, held=st.sampled_from([None, "true"]), queue=st.sampled_from(["", "a", "b"]))
    def hold_or_move_what_operators_make_others_of(
        self, random: Random, held: str | None, queue: str
    ) -> None:
        named = ((QUEUE_LABEL, queue),) if queue else ()
        if self.parents.names:
            self.parents.say(
                random.choice(self.parents.names), lambda said: replace(said, hold=held, queues=named)
            )

    @rule(random=choice, suspended=st.booleans())
    def suspend_or_resume_what_operators_make_others_of(self, random: Random, suspended: bool) -> None:
        if self.parents.names:
            self.parents.suspend(random.choice(self.parents.names), suspended)

    @rule(random=choice, deleted=st.booleans())
    def what_operators_make_others_of_ends_or_is_deleted(self, random: Random, deleted: bool) -> None:
        if self.parents.names:
            (self.parents.delete if deleted else self.parents.end)(random.choice(self.parents.names))

    @rule(random=choice, held=st.sampled_from([None, "true"]))
    def hold_or_release(self, random: Random, held: str | None) -> None:
        if jobs := [job for job in self._jobs() if not job.finished]:
            job = random.choice(jobs)
            said = job.submission
            self.world.change_job(job, submission=replace(said, hold=held))

    @rule(random=choice)
    def delete_a_job_that_has_ended(self, random: Random) -> None:
        if jobs := [job for job in self._users_jobs() if job.finished]:
            self._delete(random.choice(jobs))

    @rule(random=choice)
    def delete_a_job(self, random: Random) -> None:
        if jobs := self._users_jobs():
            self._delete(random.choice(jobs))

    def _delete(self, job: Job) -> None:
        self.world.cluster.remove(job)
        self._delete_pods(job)

    def _delete_pods(self, job: Job) -> None:
        for pod in self.world.jobs.pods(job):
            if not pod.deleting:
                self.world.cluster.delete(pod)

    # Pods.

    @rule(random=choice, ending=st.sampled_from(Ending))
    def job_ends(self, random: Random, ending: Ending) -> None:
        running = [job for job in self._jobs() if any(pod.node for pod in self.world.jobs.pods(job))]
        if not running:
            return
        job = random.choice(running)
        for pod in self.world.jobs.pods(job):
            if pod.node and not pod.deleting:
                self.world.change(pod, phase="Succeeded" if ending is Ending.SUCCEEDED else "Failed")
        self.world.change_job(job, finished=True, outcome=ending)

    @rule(random=choice)
    def work_of_an_operator_ends(self, random: Random) -> None:
        running = [one for one in self.operated if any(pod.node for pod in pods_of(self.world, one))]
        if running:
            one = random.choice(running)
            for pod in pods_of(self.world, one):
                if pod.node and not pod.deleting:
                    self.world.change(pod, phase="Succeeded")
            self.world.cluster.put(replace(self.world.cluster.job(one), finished=True))

    @rule(random=choice, held=st.sampled_from([None, "true"]))
    def hold_or_release_work_of_an_operator(self, random: Random, held: str | None) -> None:
        if self.operated:
            now = self.world.cluster.job(random.choice(self.operated))
            self.world.cluster.put(replace(now, submission=replace(now.submission, hold=held)))

    @rule(random=choice)
    def delete_work_of_an_operator(self, random: Random) -> None:
        if self.operated:
            one = self.operated.pop(random.randrange(len(self.operated)))
            self.world.cluster.remove(self.world.cluster.job(one))
            for pod in pods_of(self.world, one):
                if not pod.deleting:
                    self.world.cluster.delete(pod)

    @rule(random=choice)
    def gang_ends(self, random: Random) -> None:
        running = [pod for pod in self.world.cluster.pods() if pod.owner is None and pod.node]
        if running:
            name = random.choice(running).labels[GROUP_LABEL]
            for pod in running:
                if pod.labels[GROUP_LABEL] == name and not pod.deleting:
                    self.world.change(pod, phase="Succeeded")

    # Administrators.

    @rule(
        name=st.sampled_from(["a", "b"]),
        stop=st.sampled_from([Stop.NONE, Stop.NONE, Stop.HOLD, Stop.EVICT]),
        running=st.sampled_from([0, 0, 1]),
        queued=st.sampled_from([0, 0, 2]),
        limit=st.sampled_from([None, None, 3000]),
        weight=st.sampled_from([None, 1.0, 3.0]),
        overrun=st.sampled_from(OverrunAction),
    )
    def edit_a_queue(
        self,
        name: str,
        stop: Stop,
        running: int,
        queued: int,
        limit: int | None,
        weight: float | None,
        overrun: OverrunAction,
    ) -> None:
        quota = Quota() if limit is None else Quota(limit={"cpu": limit})
        limits = QueueLimits(running=running, queued=queued)
        self.world.cluster.put(
            Queue(name, stop=stop, limits=limits, quota=quota, weight=weight, overrun=overrun, uid=name)
        )

    @rule(policy=st.sampled_from(PolicyName), depth=st.sampled_from([None, 0, 2]))
    def edit_the_default_queue(self, policy: PolicyName, depth: int | None) -> None:
        options = SchedulingOptions(policy, reservation_depth=depth)
        self.world.cluster.put(Queue(DEFAULT_QUEUE, scheduling=options, uid="d"))

    @rule(random=choice, closed=st.booleans())
    def cordon(self, random: Random, closed: bool) -> None:
        self.world.change(random.choice(self.world.cluster.nodes()), unschedulable=closed)

    # Time, and restarts.

    @rule(seconds=st.sampled_from([0.02, 0.5, 5.0, 50.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @invariant()
    def a_restart_decides_the_same(self) -> None:
        if not hasattr(self, "world"):
            return
        self._rest()
        found, wanted = anew(self.world)
        now, then = standing(self.world.controller), standing(found)
        assert now == then, f"now: {now}\nafter a restart: {then}"
        assert not wanted, f"{wanted} at {now}"

    def _rest(self) -> None:
        """Let everything happen that follows from what has happened."""
        quiet = 0
        for _ in range(60):
            before = self.world.cluster.revision
            self.world.advance(2.0)
            self.world.cluster.reap()
            for thing in self.operated:
                operate(self.world, thing)
            self.parents.look()
            for pod in self.world.cluster.pods():
                if pod.node and not pod.started and not pod.finished:
                    self.world.change(pod, started=self.world.loop.time(), phase="Running")
            quiet = quiet + 1 if self.world.cluster.revision == before else 0
            if quiet >= 3 and not self._due():
                return
        raise AssertionError("it never comes to rest")

    def _due(self) -> bool:
        """Whether something was to happen by now that the running core finds at its next look at the clock."""
        queue = self.world.controller.queue
        starts = list(queue.reserved_starts().values())
        ends = queue.cluster.timeline.returns().tolist() if starts and queue.cluster is not None else []
        return min([*starts, *ends], default=math.inf) <= self.world.loop.time()

    def _jobs(self) -> list[Job]:
        return list(self.world.cluster.jobs())

    def _users_jobs(self) -> list[Job]:
        """The Jobs of which no JobSet would make another one."""
        return [job for job in self._jobs() if not job.job_set]

    def _now(self) -> float:
        """A second in which nothing else is created: Jobs of one second may change places when they are written to."""
        return self.made + 0.5

    def _second(self) -> float:
        self.made += 1
        return self._now()

    def _name(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made:02}"


def test_a_restart_decides_the_same() -> None:
    machine: type[Restarts] = Restarts
    if settings().derandomize:
        machine = seed(crc32(b"restarts"))(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=settings().max_examples // SHARE,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
