"""A whole cluster in virtual time: API server, controller, driver, service, kube-scheduler and kubelets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, Unpack

from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.cluster import port
from fluence_extender.cluster.errors import Denied
from fluence_extender.cluster.live_resources import LiveResources
from fluence_extender.cluster.port import Observation
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.gangs.execution.actions import Action
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.leadership.audit import Auditor
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.planning.view import Plan, View
from fluence_extender.http.scheduler.port import RequestedPod
from fluence_extender.http.state.service import ServiceState
from fluence_extender.kinds.job import Job
from fluence_extender.model.accounting import AccountSink
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.room.audit import DriftKind
from fluence_extender.whatif.simulator import Simulator
from tests.core.clock import VirtualLoop
from tests.core.engine import EMBEDDED, CoreEngine
from tests.core.faulty_cluster import FaultyCluster
from tests.core.job_controller import JobController
from tests.core.scheduler import FaultyScheduler
from tests.core.values import SEAL, PodFields, classed
from tests.core.view_laws import check_view

P = ParamSpec("P")
T = TypeVar("T")

AUDIT_EVERY = 7.0
LIMITS = Limits(
    bind_wait=5.0,
    excluded_for=6.0,
    back_off=6.0,
    completion=25.0,
    unasked=6.0,
    longest_back_off=12.0,
    uncreated=8.0,
)


class World:
    """The placement core and a cluster in memory.

    ``scheduling`` starts kube-scheduler; without it a test asks and binds itself. If ``direct``, which is the default
    with kube-scheduler, there is the policy that tells direct pods from others; else all pods are filtered ones.

    ``sink`` takes in the accounts of pods, if there is one; ``on_waited`` is called with each wait of a gang.
    """

    def __init__(
        self,
        *objects: port.Watched,
        engine: CoreEngine = EMBEDDED,
        policy: str = "lonode",
        limits: Limits = LIMITS,
        scheduling: bool = True,
        direct: bool | None = None,
        sink: AccountSink | None = None,
        on_waited: Callable[[str, str, int, float], None] = lambda *_: None,
    ) -> None:
        self.sink = sink
        self.on_waited = on_waited
        self.loop = VirtualLoop()
        self.engine = engine
        self.policy = policy
        self.limits = limits
        self.loop.set_exception_handler(self._unhandled)
        self.cluster = FaultyCluster(*objects)
        self.scheduler = FaultyScheduler(self.cluster)
        self.cluster.judge = self.scheduler.judge
        self.direct = scheduling if direct is None else direct
        self.rejected: list[str] = []
        self.shown: tuple[object, dict[str, tuple[str, str]]] = (None, {})
        self.crashes: list[BaseException] = []
        self.drifted: list[DriftKind] = []
        self.beside_takes = 0.0
        self.around_steps: Callable[[World], AbstractContextManager[None]] = lambda _: nullcontext()
        self._uids = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._generation = 0
        self._tasks_of_cluster: list[asyncio.Task[None]] = []
        self.start()
        self.jobs = JobController(self.cluster, self.direct)
        self._tasks_of_cluster.append(self.loop.create_task(self.jobs.run()))
        if scheduling:
            self._tasks_of_cluster.append(self.loop.create_task(self.scheduler.run()))

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.crashes.append(context.get("exception") or RuntimeError(context["message"]))

    # The process of the extender.

    def start(self) -> None:
        """Start the extender: list, replay, decide."""
        self._generation += 1
        generation = self._generation
        self.ledger = self.engine.ledger(self.policy)
        live = LiveResources(lambda _, why: self.rejected.append(why))
        self.controller = Controller(
            self.ledger,
            self.limits,
            clock=self.loop.time,
            calendar=self.loop.time,
            ports=Ports(
                read_resources=live.read,
                sink=self.sink,
                on_waited=self.on_waited,
                chooser=self.engine.chooser(self.ledger, self.policy),
            ),
        )
        self.controller.registry.seal = SEAL
        self._watch_for_crashes(self.controller)
        self.driver = Driver(self.controller, self.cluster, clock=self.loop.time, in_thread=self._beside)
        driver = self.driver

        def sink(seen: Observation) -> None:
            if generation == self._generation:
                driver.sink(seen)

        self.cluster.held = False
        self.cluster.deliver()
        self.cluster.watch(sink)
        self.loop.run_until_complete(self.driver.start())
        self.placements = LivePlacements(self.controller, self.driver, lambda: "")
        session = EmbeddedSession(self.cluster)
        simulator = Simulator(self.controller, session.try_pod, session.disruption_budgets)
        self.state = ServiceState(self.controller, self.placements, simulator)
        self.scheduler.placements = self.placements
        self.auditor = Auditor(self.controller, self.drifted.append, self.cluster.own_pods, every=AUDIT_EVERY)
        working = (self.driver.run(), self.auditor.run(self.driver.wake))
        self._tasks = [self.loop.create_task(work) for work in working]
        self.advance(0.05)

    async def _beside(self, work: Callable[[], None]) -> None:
        """What is run beside the loop takes ``beside_takes`` seconds: half of them before it looks, half after."""
        await asyncio.sleep(self.beside_takes / 2)
        work()
        await asyncio.sleep(self.beside_takes / 2)

    def _watch_for_crashes(self, controller: Controller) -> None:
        """Let a step, or a beginning to lead, that raises end the test: the process would log it and try again."""

        def watched(work: Callable[P, T]) -> Callable[P, T]:
            def run(*args: P.args, **kwargs: P.kwargs) -> T:
                try:
                    return work(*args, **kwargs)
                except Exception as error:
                    self.crashes.append(error)
                    raise

            return run

        begin, finish, take_view = controller.begin, controller.finish, controller.simulation_view

        def begin_step() -> View | None:
            with self.around_steps(self):
                view = begin()
            if view is not None:
                check_view(view, controller)
            return view

        def simulation_view() -> View:
            view = take_view()
            check_view(view, controller)
            return view

        def finish_step(plan: Plan | None) -> list[Action]:
            with self.around_steps(self):
                return finish(plan)

        controller.begin = watched(begin_step)  # type: ignore[method-assign]
        controller.simulation_view = watched(simulation_view)  # type: ignore[method-assign]
        controller.plan = watched(controller.plan)  # type: ignore[method-assign]
        controller.finish = watched(finish_step)  # type: ignore[method-assign]
        controller.lead = watched(controller.lead)  # type: ignore[method-assign]

    def kill(self) -> None:
        """End the extender's process at once."""
        self._generation += 1
        self.scheduler.forget()
        for task in self._tasks:
            task.cancel()
        self.advance(0.0)

    def restart(self) -> None:
        """Kill it and start another."""
        self.kill()
        self.start()

    def close(self) -> None:
        """End everything."""
        for task in self._tasks_of_cluster:
            task.cancel()
        self.kill()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    # Time.

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(work)

    def advance(self, seconds: float = 1.0) -> None:
        """Let virtual time pass."""
        self.loop.run_until_complete(asyncio.sleep(seconds))
        if self.crashes:
            raise self.crashes[0]
        for task in self._tasks_of_cluster:
            if task.done() and not task.cancelled():
                task.result()

    # What users, kubelets and other controllers do.

    def pod(self, name: str, namespace: str = "default", **fields: Unpack[PodFields]) -> Pod:
        """Create a pod under a uid of its own."""
        number = next(self._uids)
        fields.setdefault("created", float(number))
        pod = Pod(namespace, name, f"u{number:04}", **fields)
        pod = classed(pod) if self.direct else pod
        self.cluster.put(pod)
        return pod

    def foreign(self, where: str, name: str, **fields: Unpack[PodFields]) -> Pod:
        """Bind a pod of another scheduler to the node ``where``."""
        self.disturb(where)
        fields["scheduler"], fields["node"] = "default-scheduler", where
        return self.pod(name, "others", **fields)

    def disturb(self, node: str) -> None:
        """Say that the node changes otherwise than by our own doing."""
        self.scheduler.disturbed.add(node)

    def change(self, thing: Pod | Node, **fields: Any) -> None:
        """Change fields of a pod (as it is now) or node."""
        if isinstance(thing, Node):
            self.disturb(thing.name)
            now = next(one for one in self.cluster.nodes() if one.name == thing.name)
            self.cluster.put(replace(now, **fields))
        else:
            self.cluster.put(replace(self.cluster.pod(thing), **fields))

    def change_job(self, job: Job, **fields: Any) -> None:
        """Change fields of a Job, as it is now. Raise `Denied` as admission does."""
        now = self.cluster.job(job)
        if now.suspended and not fields.get("suspended", True) and self.binds_at_birth(job):
            raise Denied("fluence gave the pods of this Job their nodes a moment ago", 403)
        self.cluster.put(replace(now, **fields))

    # Looking.

    def binds_at_birth(self, job: Job) -> bool:
        """Whether new pods of the Job are bound to their nodes by their creation."""
        return self.cluster.binds_at_birth(job.uid, self.loop.time())

    def now(self, pod: Pod) -> Pod:
        """The pod as it is now."""
        return self.cluster.pod(pod)

    def waits(self, pod: Pod) -> bool:
        """Whether nothing was written yet by which the pod gets a node."""
        return self.now(pod).withheld

    def nodes_of(self, *pods: Pod) -> list[str]:
        """Where the pods are bound, "" for those that aren't."""
        return [self.now(pod).node for pod in pods]

    def gang(self, name: str) -> Gang:
        """The gang of that name."""
        return next(gang for gang in self.controller.registry.gangs.values() if gang.key.name == name)

    def member(self, uid: str) -> Member:
        """The member that the pod of ours is."""
        found = self.controller.member(uid)
        assert found is not None, uid
        return found[1]

    def asked(self, pod: Pod) -> RequestedPod:
        """The pod as a filter call names it."""
        return RequestedPod(pod.namespace, pod.name, pod.uid, pod.scheduler)

    def told(self) -> list[str]:
        """The messages of all Events."""
        return [event.message for event in self.cluster.events]
