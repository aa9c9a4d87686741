"""The controller: observations of the cluster go in, actions on the cluster come out.

It is synchronous and does no I/O, and time is injected. In whatever order observations come, the same final state leads
to the same plans. Nothing is planned before `start` has taken over what runs already, or while another replica leads. A
standby only follows the facts, so that `lead` has little left to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from fluence_extender.cluster.port import (
    DEVICE_KINDS,
    QUEUE_KINDS,
    Changed,
    Deleted,
    Kind,
    Listed,
    Observation,
    OwnPods,
    ResourcesFile,
)
from fluence_extender.devices.book import DeviceBook, Touched
from fluence_extender.devices.evaluation import Evaluations
from fluence_extender.devices.judge import Judge
from fluence_extender.gangs.execution.actions import Action
from fluence_extender.gangs.leadership.takeover import Standby, take_up_devices
from fluence_extender.gangs.lifecycle.lifecycle import Lifecycle
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.places import CoreParts
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.planning.known_reasons import PassMemory
from fluence_extender.gangs.planning.one_pass import plan
from fluence_extender.gangs.planning.view import Plan, View
from fluence_extender.gangs.queue.endings import Endings
from fluence_extender.gangs.reporting.accounts import PodAccounts
from fluence_extender.gangs.reporting.status import QueueReports
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.accounting import AccountSink
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.objects.devices import DeviceObject
from fluence_extender.objects.queues import KueueQueue, Namespace
from fluence_extender.objects.resource_quota import ResourceQuota
from fluence_extender.placement.chooser import NodeChooser
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.topology import Topology
from fluence_extender.room.ledger import Ledger

PODS_AT_ONCE = 64
"""The most pods that are taken in again before other work has its turn."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What the controller uses of others. All of it is optional.

    ``read_resources`` returns the resources to adopt from a changed resources.yaml, if any. ``sink`` receives what pods
    hold, for the account of past work. ``judge`` has the selectors of ResourceClaims evaluated; without one they are
    evaluated at once. ``chooser`` picks the nodes of equal members; without one they are placed by first fit.
    ``on_preempted`` is called for each gang whose eviction begins. ``on_waited`` is called with the namespace, the
    reason, the priority and the seconds of each wait of a gang that has become complete.
    """

    read_resources: Callable[[ResourcesFile], VirtualResources | None] = lambda _: None
    sink: AccountSink | None = None
    judge: Judge | None = None
    chooser: NodeChooser | None = None
    on_preempted: Callable[[], None] = lambda: None
    on_waited: Callable[[str, str, int, float], None] = lambda *_: None


NO_PORTS = Ports()


class Controller:
    """The observed state of the cluster, and the decisions that follow from it.

    ``clock`` measures waiting times, and ``calendar`` returns seconds since the epoch, for times that people read.
    ``revision`` grows when the cluster changes, and the registry's revision when a gang changes. ``leading`` says
    whether this replica decides; a replica that may have to stand by starts with False.
    """

    def __init__(
        self,
        ledger: Ledger,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
        leading: bool = True,
        ports: Ports = NO_PORTS,
    ) -> None:
        self.ledger = ledger
        self.registry = Registry(calendar)
        self.eligibility = EligibilityIndex()
        planner = Planner(self.eligibility, Topology(self.eligibility, ledger.graph.levels))
        core = CoreParts(self.registry, ledger, planner, limits or Limits(), clock)
        self.lifecycle = Lifecycle(core, ports.on_preempted, self._count_waits)
        self._memory = PassMemory(ledger.graph.levels, ports.chooser)
        self.queue = self.lifecycle.queue
        self._queue_reports = QueueReports(
            self.queue, self.lifecycle.admission.usage, self.eligibility.nodes, calendar
        )
        self._endings = Endings(
            self.registry.gangs,
            self.queue.ends,
            self.lifecycle.admission.usage,
            self.lifecycle.requeues,
            calendar,
        )
        self._accounts = (
            PodAccounts(ports.sink, self.registry, self.lifecycle.admission, calendar) if ports.sink else None
        )
        self._expected_pods = self.lifecycle.expected_pods
        self._clock = clock
        self._ports = ports
        self.devices = DeviceBook(ports.judge or Judge(Evaluations().judge))
        self._to_take_again: dict[str, None] = {}
        """The uids of pods whose ResourceClaims have changed, in the order in which they are taken in again."""
        self._pods: dict[str, Pod] = {}
        self.started = False
        self.revision = 0
        self.leading = leading
        self._standby = Standby(self.registry, ledger, self.lifecycle.admission, clock)
        self._look_version = 0
        """The resourceVersion of the last look at our pods: older observations of the watch are ignored."""
        self._dropped_during_look: set[str] | None = None

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Every pod of the cluster by uid, as the watch has shown it."""
        return self._pods

    # Observations. `_put_…` takes in an object as the watch shows it, `_take_…` joins it with its devices and claims.

    def observe(self, seen: Observation) -> None:
        """Take in one observation."""
        if seen.kind in QUEUE_KINDS:
            if seen.kind is Namespace:
                self._observe_namespaces(seen)
            self._observe_queues(seen)
            return
        if seen.kind in DEVICE_KINDS:
            self._observe_devices(seen)
            return
        if seen.kind is ResourceQuota:
            self.lifecycle.namespace_quotas.observe(seen)
            return
        match seen:
            case Listed(kind, objects, served):
                self._listed(kind, objects, served)
            case Changed(observed):
                self._put(observed)
            case Deleted(observed):
                self._drop(observed)

    def _observe_namespaces(self, seen: Observation) -> None:
        """Take in the labels of namespaces, by which anti-affinity may select pods."""
        objects = seen.objects if isinstance(seen, Listed) else (seen.object,)
        labels = {
            namespace.name: namespace.labels for namespace in objects if isinstance(namespace, Namespace)
        }
        if isinstance(seen, Deleted):
            labels = {name: {} for name in labels}
        elif isinstance(seen, Listed):
            labels = {name: {} for name in self.ledger.kept_apart.namespaces} | labels
        # A list, because `any` of a generator would leave out the namespaces after the first change.
        changed = [
            self.ledger.kept_apart.put_namespace(name, its_labels) for name, its_labels in labels.items()
        ]
        if any(changed) and self.started:
            self.lifecycle.resources_changed()

    def _observe_queues(self, seen: Observation) -> None:
        settings = self.queue.settings
        before = settings.revision
        settings.observe(seen)
        if seen.kind is KueueQueue and settings.revision != before:
            for job in self.registry.workloads.all(Job).values():
                self._put(job)
        if settings.revision != before:
            self.revision += 1
            if self.started:
                self.lifecycle.look_at_all()

    def _observe_devices(self, seen: Observation) -> None:
        """Take in slices, classes and ResourceClaims, and then again the nodes and pods that they affect."""
        match seen:
            case Listed(kind, objects) if issubclass(kind, DeviceObject):
                devices = [device for device in objects if isinstance(device, DeviceObject)]
                touched = self.devices.replace_all(kind, devices)
            case Changed(device) if isinstance(device, DeviceObject):
                touched = self.devices.put(device)
            case Deleted(device) if isinstance(device, DeviceObject):
                touched = self.devices.drop(device)
            case _:
                return
        self._take_touched(touched)

    def take_decided(self) -> None:
        """Bring nodes and pods up to date with new verdicts on selectors."""
        self._take_touched(self.devices.decided())

    def _take_touched(self, touched: Touched) -> None:
        for name in sorted(touched.nodes):
            node = self.devices.node_now(name)
            if node is not None:
                self._take_node(node)
        if touched.counts and self.started:
            self.ledger.claim_rooms.count_anew()
            self.ledger.changed()
        self._take_again(touched.pods)

    def _take_again(self, uids: Iterable[str]) -> None:
        """Take in pods with their present ResourceClaims: some of them at once, and the others in the next steps."""
        self._to_take_again.update(dict.fromkeys(sorted(uids)))
        for uid in list(islice(self._to_take_again, PODS_AT_ONCE)):
            del self._to_take_again[uid]
            pod = self.devices.pod_now(uid)
            if pod is not None:
                self._take_pod(pod)

    def _listed(self, kind: Kind, objects: Iterable[object], served: bool) -> None:
        """Take in all objects of a kind, and drop those that are gone."""
        listed = tuple(objects)
        if kind is Pod:
            self._look_version = 0
            uids = {pod.uid for pod in listed if isinstance(pod, Pod)}
            for pod in [pod for pod in self._pods.values() if pod.uid not in uids and not pod.expected]:
                self._drop(pod)
        elif kind is Node:
            names = {node.name for node in listed if isinstance(node, Node)}
            for node in [node for name, node in self.eligibility.nodes.items() if name not in names]:
                self._drop(node)
        elif issubclass(kind, Workload):
            workloads = [workload for workload in listed if isinstance(workload, Workload)]
            self.registry.replace_workloads(kind, workloads, served)
            if issubclass(kind, Resumable):
                self._list_jobs(kind, [job for job in workloads if isinstance(job, Resumable)])
            return
        for observed in listed:
            self._put(observed)

    def _put(self, observed: object) -> None:
        match observed:
            case Pod():
                self._put_pod(observed)
            case Node():
                self._put_node(observed)
            case ResourcesFile():
                resources = self._ports.read_resources(observed)
                if resources is not None:
                    self.replace_resources(resources)
            case _ if isinstance(observed, Workload):
                self.registry.put_workload(observed)
                if isinstance(observed, Resumable):
                    self._put_job(observed)

    def _list_jobs(self, kind: type[Workload], jobs: Iterable[Resumable]) -> None:
        present = {job.uid: job for job in jobs}
        for job in self._expected_pods.jobs():
            if isinstance(job, kind) and job.uid not in present:
                self._expected_pods.job_gone(job)
        for job in present.values():
            self._put_job(job)

    def _put_job(self, job: Resumable) -> None:
        if self.queue.settings.is_kueues(job):
            self._expected_pods.job_gone(job)
            return
        self._expected_pods.job_seen(job)

    def _drop(self, observed: object) -> None:
        self.revision += 1
        match observed:
            case Pod():
                self._drop_pod(observed)
            case Node():
                self.lifecycle.node_holds.drop(observed.name)
                self.eligibility.drop(observed.name)
                self.devices.drop_node(observed.name)
                if self.started:
                    self.ledger.drop_node(observed.name)
                    self.lifecycle.node_changed(observed.name)
            case _ if isinstance(observed, Workload):
                self.registry.drop_workload(observed)
                if isinstance(observed, Resumable):
                    self._expected_pods.job_gone(observed)

    def _put_node(self, node: Node) -> None:
        self.lifecycle.node_holds.put(node)
        self._take_node(self.devices.node(node))

    def _take_node(self, node: Node) -> None:
        """Take in a node with its devices."""
        old = self.eligibility.nodes.get(node.name)
        if old == node:
            return
        self.revision += 1
        self.eligibility.put(node)
        if self.started:
            self.ledger.put_node(node)
            declared = self.ledger.graph.declared.resources
            if old is None and any(resource.parent == node.name for resource in declared):
                take_up_devices(self.registry, self.ledger)
            self.lifecycle.node_changed(node.name)

    def _put_pod(self, pod: Pod) -> None:
        if not pod.ours:
            self._take_pod(self.devices.pod(pod))
            self._take_again(self.devices.stale())
        elif not 0 < pod.revision <= self._look_version:
            self._put_own(self.lifecycle.admission.believed(pod))

    def _take_pod(self, pod: Pod) -> None:
        """Take in a pod with its ResourceClaims."""
        if pod.ours:
            self._take_own(pod)
            return
        old = self._pods.get(pod.uid)
        self._pods[pod.uid] = pod
        self.queue.known_ends.pod_seen(pod)
        self.revision += old is None or _use(old) != _use(pod)
        self.registry.put_foreign_pod(pod)
        if self.started:
            self._count_foreign(pod)

    def _put_own(self, pod: Pod) -> None:
        self._take_own(self.devices.pod(pod))
        self._take_again(self.devices.stale())

    def _take_own(self, pod: Pod) -> None:
        """Take in a pod of ours with its ResourceClaims."""
        old = self._pods.get(pod.uid)
        if old is not None and old.resource_version == pod.resource_version and old == pod:
            return
        if not pod.expected:
            taken_over = self._expected_pods.arrived(pod)
            if taken_over is not None:
                old = self._pods.pop(taken_over.uid)
                self.devices.drop_pod(taken_over.uid)
                self.queue.known_ends.pod_gone(taken_over.uid)
        self._pods[pod.uid] = pod
        member = self.registry.put_pod(pod)
        self.queue.known_ends.pod_seen(pod)
        if self.started:
            for uid in self.ledger.claims_changed(pod):
                self.lifecycle.look_at_gang_of(uid)
            self.lifecycle.pod_changed(member, old)
        if self._accounts is not None:
            self._accounts.changed(pod)

    def _update_expected_pods(self, whole: bool = False) -> list[Pod]:
        """Bring expected pods up to date, only some of them unless ``whole``; return those that are new or changed."""
        gone, coming = self._expected_pods.changes(whole)
        for pod in gone:
            self._drop_pod(pod)
        for pod in coming:
            self._put_own(pod)
        return coming

    def _count_foreign(self, pod: Pod) -> None:
        if pod.node and not pod.finished:
            is_new = pod.uid not in self.ledger.foreign
            self.ledger.put_foreign(pod)
            if pod.apart and is_new:
                self.lifecycle.keeps_apart(pod.uid)
        else:
            self.ledger.drop_foreign(pod.uid)

    def _drop_pod(self, pod: Pod) -> None:
        self._forget_pod(pod)
        self._take_again(self.devices.stale())

    def _forget_pod(self, pod: Pod) -> None:
        """Forget a pod that is gone, and release what it held."""
        self._pods.pop(pod.uid, None)
        self.devices.drop_pod(pod.uid)
        self.queue.known_ends.pod_gone(pod.uid)
        if not pod.ours:
            self.ledger.drop_foreign(pod.uid)
            self.registry.drop_foreign_pod(pod.uid)
            return
        if self._dropped_during_look is not None:
            self._dropped_during_look.add(pod.uid)
        if not pod.expected:
            self._expected_pods.pod_gone(pod)
        if self._accounts is not None:
            self._accounts.pod_gone(pod.uid)
        for uid in self.ledger.gated_beside(pod.uid):
            self.lifecycle.look_at_gang_of(uid)
        self.ledger.release(pod.uid)
        self.registry.drop_pod(pod.uid)

    # The beginning and the end of a term.

    def start(self) -> None:
        """Take over what runs in the cluster, then begin to plan.

        The surest facts come first: foreign pods, then our bound pods (first those whose recorded devices exist), then
        our pods that were steered and aren't bound yet. All other pods are planned like new ones.
        """
        self.revision += 1
        # The pods may have been listed before the queues that decide which records count.
        own = [pod for pod in self._pods.values() if pod.ours and not pod.expected]
        for before, pod in zip(own, map(self.lifecycle.admission.believed, own), strict=True):
            if pod != before:
                self._pods[pod.uid] = pod
                self.registry.put_pod(pod)
        self.registry.treat_all_as_old()
        self.ledger.load(self.eligibility.nodes.values())
        foreign = (pod for pod in self._pods.values() if not pod.ours)
        self.ledger.put_foreign(*(pod for pod in foreign if pod.node and not pod.finished))
        self.lifecycle.replay()
        if self.leading:
            self._begin_to_lead()
        # These are computed now, because otherwise the first gang to be placed would wait for them.
        self.ledger.free.now()
        self.ledger.whole.now()
        self.started = True

    def begin_look(self) -> dict[str, str]:
        """Prepare for a look at our pods, which is then passed to `lead`; return their resourceVersions by uid."""
        self._dropped_during_look = set()
        return self.versions()

    def versions(self) -> dict[str, str]:
        """Return the resourceVersions of our pods that exist, by uid."""
        return {pod.uid: pod.resource_version for pod in self._pods.values() if pod.ours and not pod.expected}

    def end_look(self) -> None:
        """Stop recording which pods are deleted during a look."""
        self._dropped_during_look = None

    def lead(self, look: OwnPods) -> None:
        """Begin to decide. The ``look`` must have begun after the previous leader had stopped writing."""
        self._take_in(look)
        self.leading = True
        self._begin_to_lead()

    def _begin_to_lead(self) -> None:
        self.registry.catch_up()
        self.lifecycle.admission.shares.take_over()
        self._expected_pods.lead(True)
        self._update_expected_pods(whole=True)
        self.lifecycle.lead()
        if self._accounts is not None:
            self._accounts.begin()

    def stand_down(self, why: str) -> None:
        """Stop deciding: drop plans that aren't bound, and fail the waits at barriers with ``why``."""
        self.leading = False
        if self._accounts is not None:
            self._accounts.stand_down()
        self._expected_pods.lead(False)
        self._update_expected_pods(whole=True)
        self.lifecycle.preemption.forget()
        self.lifecycle.growth.forget()
        self.lifecycle.node_holds.forget()
        self.queue.forget()
        self._standby.begin(why)

    def _take_in(self, look: OwnPods) -> None:
        """Take in a look at our pods. Older observations of the watch that come later are ignored.

        The watch may be behind the look or ahead of it. A comparison of the resourceVersions shows which (KEP-5504).
        """
        version, dropped = int(look.version), self._dropped_during_look or set()
        self._look_version = 0
        own = [pod for pod in self._pods.values() if pod.ours and not pod.expected]
        for pod in own:
            if pod.uid not in look.uids and pod.revision <= version:
                self._drop_pod(pod)
        for pod in look.changed:
            old = self._pods.get(pod.uid)
            if pod.uid not in dropped and (old is None or old.revision < pod.revision):
                self._put_pod(pod)
        self._look_version = version

    def replace_resources(self, resources: VirtualResources) -> None:
        """Take over changed virtual resources; pods keep what they hold."""
        self.revision += 1
        if not self.started:
            self.ledger.graph.declare(resources)
            return
        self.ledger.replace_resources(resources)
        take_up_devices(self.registry, self.ledger)
        self.lifecycle.resources_changed()

    # Decisions.

    def step(self) -> list[Action]:
        """Decide what to do now, with a whole pass if one is due."""
        view = self.begin()
        return self.finish(None if view is None else self.plan(view))

    def begin(self) -> View | None:
        """Look at what has changed. Return the view for a pass, if one is due; `finish` has to follow in any case."""
        if not self.started:
            return None
        self.take_decided()
        self.lifecycle.hold_planned_nodes(self._update_expected_pods())
        if not self.leading:
            self._standby.step()
            self.lifecycle.passes.follow()
            return None
        return self.lifecycle.begin()

    def plan(self, view: View) -> Plan:
        """Make a pass. It may take long, so it may run in a thread of its own. Only one pass may run at a time."""
        return plan(view, self._memory)

    def simulation_view(self) -> View:
        """Return a view with no gang in line, for a simulation. Its pass also needs the result of `new_memory`."""
        return self.lifecycle.passes.simulation_view(self._clock())

    def new_memory(self) -> PassMemory:
        """Return an empty memory for a pass on such a view."""
        return PassMemory(self.ledger.graph.levels)

    def finish(self, plan: Plan | None) -> list[Action]:
        """Carry out what a pass has decided, if one is over; return what has to be done now."""
        if not (self.started and self.leading):
            if plan is not None:
                self.lifecycle.passes.drop()
            return []
        now = self._clock()
        ended = self._endings.due(self.queue.settings.queues, now)
        actions = [*self.lifecycle.finish(plan), *ended, *self._queue_reports.due(now)]
        if self._accounts is not None:
            self._accounts.send()
        return actions

    @property
    def restless(self) -> bool:
        """Whether another step is wanted at once."""
        return bool(self._to_take_again) or self.lifecycle.restless

    def _count_waits(self, gang: Gang) -> None:
        """Tell the waits of a gang that has become complete."""
        for reason, seconds in gang.history.waits():
            self._ports.on_waited(gang.key.namespace, reason, gang.priority, seconds)

    def member(self, uid: str) -> tuple[Gang, Member] | None:
        """Return the gang and the member of a pod of ours, or None if the pod isn't known."""
        return self.registry.member(uid)


def _use(pod: Pod) -> tuple[object, ...]:
    """Return what a foreign pod takes from its node."""
    return pod.node, pod.finished, pod.requests, pod.host_ports
