"""The whole placement core under arbitrary histories of a cluster.

Gangs, nodes, other schedulers' pods and resources come and go, writes fail, the extender is killed; after every step
the ledger equal the cluster and the matcher equals the ledger, and when all is quiet nobody waits who could go on.
"""

from __future__ import annotations

import json
from contextlib import suppress
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fluence_extender.cluster.errors import Denied
from fluence_extender.cluster.port import Kind, ResourcesFile
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION, REQUIRE_PREFIX
from fluence_extender.model.node import Node
from fluence_extender.model.pod import HostPort, Owner, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Taint, Toleration
from tests.core.engine import EMBEDDED, ENGINES, CoreEngine
from tests.core.invariants import check, check_at_rest
from tests.core.shapes import absurd, allocatable, requests
from tests.core.world import World

SHARE = 5
"""A run of the machine costs as much as this many other examples, and more."""

OTHER_GATE = "example.com/quota"
TAINT = Taint("example.com/dedicated", "NoSchedule", "x")
QUANTUM = """
resources:
  - type: qdevice
    name: fez
    attributes: {vendor: ibm}
    with: [{type: qpu, count: 2, with: [{type: qubit, count: 8}]}]
  - {type: simulator, name: sv1, count: 4, attributes: {vendor: aws}}
"""
OTHER_QUANTUM = """
resources:
  - {type: simulator, name: sv1, count: 4, attributes: {vendor: aws}}
  - {type: simulator, name: sv2, count: 2, attributes: {vendor: ibm}}
  - {type: accelerator, name: chip, count: 1, parent: n0, with: [{type: lane, count: 2}]}
"""
SMALLER_QUANTUM = """
resources:
  - type: qdevice
    name: fez
    attributes: {vendor: other}
    with: [{type: qpu, count: 1, with: [{type: qubit, count: 3}]}]
  - {type: simulator, name: sv1, count: 1, attributes: {vendor: aws}}
  - {type: accelerator, name: chip, count: 2, parent: n1, with: [{type: lane, count: 1}]}
"""
BROKEN = "resources: [{type: 7}]"
MOST_MEMORY = {"embedded": 6 * 2**40, "oracle": 64 * 2**30}
"""Bytes; a GiB is a vertex of the oracle, which looks at each of them in each match."""

names = st.integers(0, 3).map(lambda number: f"n{number}")
cores = st.sampled_from([200, 500, 1000, 1500, 2000])
rarely = st.sampled_from([False, False, False, True])
gibs = st.sampled_from([0, 1, 2])
choice = st.randoms(use_true_random=False)
pauses = st.sampled_from([0.0, 0.05, 0.3, 1.0])
running = st.lists(st.integers(1, 3), max_size=3)

DECIDED_WITHIN = 0.011
"""Seconds within which the driver acts on what it has seen."""


class Core(RuleBasedStateMachine):
    """Rules are what a cluster's users, controllers, kubelets and networks do."""

    engine: CoreEngine = EMBEDDED
    policy = "lonode"

    @initialize(
        count=st.integers(2, 4),
        size=st.integers(2, 6),
        text=st.sampled_from([None, QUANTUM]),
        running=running,
    )
    def begin(self, count: int, size: int, text: str | None, running: list[int]) -> None:
        nodes = [Node(f"n{number}", allocatable=allocatable(size, 8, number % 2)) for number in range(count)]
        self.world = World(*nodes, ResourcesFile("test", text), engine=self.engine, policy=self.policy)
        self.text = text
        self._run(running)

    def _run(self, sizes: list[int]) -> None:
        """Have gangs of these sizes that run already."""
        self.made = 0
        self.owned: dict[str, Pod] = {}
        for size in sizes:
            self.labelled_gang(1, [(500, 0)] * size, False, 0, True, 0, False, 0, 0.0)
        self.world.advance(0.5)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.quiet()
            self.world.close()

    # Gangs.

    def _member(self, name: str, **fields: Any) -> Pod:
        gates = fields.pop("gates", (GATE,))
        pod = self.world.pod(name, gates=gates, **fields)
        if pod.owner is not None:
            self.owned[pod.uid] = pod
        return pod

    @rule(
        gangs=st.integers(1, 3),
        members=st.lists(st.tuples(cores, gibs), min_size=1, max_size=4),
        mixed=st.booleans(),
        missing=st.sampled_from([0, 0, 0, 1]),
        gated=rarely.map(lambda one: not one),
        priority=st.sampled_from([0, 0, 10]),
        tolerant=st.booleans(),
        gpus=st.sampled_from([0, 0, 0, 1]),
        pause=pauses,
        owned=st.booleans(),
        interdependent=rarely,
    )
    def labelled_gang(
        self,
        gangs: int,
        members: list[tuple[int, int]],
        mixed: bool,
        missing: int,
        gated: bool,
        priority: int,
        tolerant: bool,
        gpus: int,
        pause: float,
        owned: bool = False,
        interdependent: bool = False,
    ) -> None:
        for _ in range(gangs):
            self.made += 1
            owner = Owner("ReplicaSet", f"g{self.made}", f"uid-g{self.made}") if owned else None
            for number, shape in enumerate(members):
                millicores, gib = shape if mixed else members[0]
                self._member(
                    f"g{self.made}-{number}",
                    labels={GROUP_LABEL: f"g{self.made}"},
                    annotations={GROUP_SIZE_ANNOTATION: str(len(members) + missing)},
                    gates=(GATE,) if gated else (),
                    requests=requests(millicores, gib, gpus),
                    priority=priority,
                    tolerations=(Toleration(TAINT.key, "Exists"),) if tolerant else (),
                    owner=owner,
                    interdependent=interdependent and number % 2 == 0,
                )
        self.world.advance(pause)

    @rule(count=st.integers(1, 4), minimum=st.integers(1, 4), millicores=cores, late=rarely)
    def pod_group(self, count: int, minimum: int, millicores: int, late: bool) -> None:
        self.made += 1
        name = f"p{self.made}"
        if not late:
            self.world.cluster.put(PodGroup("default", name, f"uid-{name}", minimum))
        for number in range(count):
            self._member(f"{name}-{number}", group=name, requests=requests(millicores, 1))

    @rule(random=choice, minimum=st.integers(0, 3))
    def pod_group_is_written_or_deleted(self, random: Random, minimum: int) -> None:
        named = sorted({pod.group for pod in self.world.cluster.pods() if pod.group})
        if named:
            name = random.choice(named)
            group = PodGroup("default", name, f"uid-{name}", minimum)
            (self.world.cluster.put if minimum else self.world.cluster.remove)(group)

    @rule(parallelism=st.integers(1, 3), millicores=cores, foreign_gate=rarely)
    def job(self, parallelism: int, millicores: int, foreign_gate: bool) -> None:
        self.made += 1
        name = f"j{self.made}"
        self.world.cluster.put(Job("default", name, f"uid-{name}", parallelism, parallelism))
        for number in range(parallelism):
            self._member(
                f"{name}-{number}",
                labels={GROUP_LABEL: name},
                owner=Owner("Job", name, f"uid-{name}"),
                gates=(GATE, OTHER_GATE) if foreign_gate else (GATE,),
                requests=requests(millicores, 0),
            )

    # Jobs that are placed before their pods exist.

    @rule(
        count=st.integers(2, 4),
        jobs=st.integers(1, 2),
        millicores=cores,
        priority=st.sampled_from([0, 0, 10]),
    )
    def suspended_jobs(self, count: int, jobs: int, millicores: int, priority: int) -> None:
        for _ in range(jobs):
            self.made += 1
            self.world.jobs.submit(f"b{self.made}", count, millicores, priority=priority)

    @rule(parallelism=st.integers(1, 4), more=st.sampled_from([None, 0, 2]), millicores=cores)
    def array_of_a_queue(self, parallelism: int, more: int | None, millicores: int) -> None:
        self.made += 1
        completions = None if more is None else parallelism + more
        self.world.jobs.submit_array(f"a{self.made}", parallelism, completions, millicores)

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=3), millicores=cores)
    def job_set(self, counts: list[int], millicores: int) -> None:
        self.made += 1
        self.world.jobs.submit_set(f"s{self.made}", *counts, cpu=millicores)

    @rule(random=choice, suspended=st.booleans())
    def user_suspends_or_resumes_a_job_set(self, random: Random, suspended: bool) -> None:
        if self.world.jobs.sets:
            self.world.jobs.suspend_set(random.choice([*self.world.jobs.sets]), suspended)

    @rule(random=choice)
    def job_set_is_deleted(self, random: Random) -> None:
        if self.world.jobs.sets:
            jobs = self.world.jobs.remove_set(random.choice([*self.world.jobs.sets]))
            self._pods_go_with(*jobs)

    def _pods_go_with(self, *jobs: Job) -> None:
        for pod in (pod for job in jobs for pod in self.world.jobs.pods(job)):
            if not pod.deleting:
                self.world.cluster.delete(pod)

    def _submitted(self, random: Random) -> Job | None:
        jobs = [job for job in self.world.cluster.jobs() if job.ours and not job.finished]
        return random.choice(jobs) if jobs else None

    @rule(random=choice, suspended=st.booleans())
    def user_suspends_or_resumes_a_job(self, random: Random, suspended: bool) -> None:
        if (job := self._submitted(random)) is not None and job.suspended is not suspended:
            with suppress(Denied):
                self.world.change_job(job, suspended=suspended, held_for_placement=False)

    @rule(random=choice)
    def job_is_deleted(self, random: Random) -> None:
        if (job := self._submitted(random)) is not None:
            self.world.cluster.remove(job)
            self._pods_go_with(job)

    @rule(quota=st.sampled_from([0, 1, 2, None]))
    def pods_of_jobs_are_limited(self, quota: int | None) -> None:
        self.world.jobs.quota = quota

    @rule(
        kind=st.sampled_from(["qpu", "qubit", "simulator", "lane"]),
        amount=st.integers(1, 3),
        vendor=st.sampled_from(["", "ibm", "aws"]),
        count=st.integers(1, 2),
        gangs=st.integers(1, 2),
    )
    def quantum_gangs(self, kind: str, amount: int, vendor: str, count: int, gangs: int) -> None:
        for _ in range(gangs):
            self._quantum_gang(kind, amount, vendor, count)

    def _quantum_gang(self, kind: str, amount: int, vendor: str, count: int) -> None:
        self.made += 1
        annotations = {GROUP_SIZE_ANNOTATION: str(count)}
        if vendor:
            annotations[f"{REQUIRE_PREFIX}vendor"] = vendor
        for number in range(count):
            self._member(
                f"q{self.made}-{number}",
                labels={GROUP_LABEL: f"q{self.made}"},
                annotations=annotations,
                requests=requests(500, 1),
                devices={kind: amount},
            )

    @rule(port=st.sampled_from([80, 81]), millicores=cores, nothing=rarely)
    def single(self, port: int, millicores: int, nothing: bool) -> None:
        self.made += 1
        asked = Resources({"pods": 1}) if nothing else requests(millicores, 0)
        self._member(f"s{self.made}", requests=asked, host_ports=(HostPort(port),))

    # Pods' ends.

    def _one(self, random: Random, ours: bool, bound: bool | None = None) -> Pod | None:
        pods = [
            pod
            for pod in self.world.cluster.pods()
            if pod.ours == ours and (bound is None or bool(pod.node) == bound) and not pod.finished
        ]
        return random.choice(pods) if pods else None

    @rule(random=choice, replaced=st.booleans())
    def pod_is_deleted(self, random: Random, replaced: bool) -> None:
        pod = self._one(random, ours=True)
        if pod is None:
            return
        self.world.cluster.delete(pod)
        if replaced and not any(one.key == pod.key for one in self.world.cluster.pods()):
            self._again(pod)

    def _again(self, pod: Pod) -> None:
        self._member(
            pod.name,
            labels=pod.labels,
            annotations={key: pod.annotations[key] for key in pod.annotations if "allocation" not in key},
            group=pod.group,
            owner=pod.owner,
            requests=pod.requests,
            devices=pod.devices,
            priority=pod.priority,
            tolerations=pod.tolerations,
            host_ports=pod.host_ports,
        )

    @rule(random=choice, phase=st.sampled_from(["Succeeded", "Failed"]))
    def pod_ends(self, random: Random, phase: str) -> None:
        pod = self._one(random, ours=True, bound=True)
        if pod is not None:
            self.world.change(pod, phase=phase)

    @rule(random=choice, ours=st.booleans(), millicores=cores, gib=gibs)
    def bound_pod_is_resized(self, random: Random, ours: bool, millicores: int, gib: int) -> None:
        pod = self._one(random, ours=ours, bound=True)
        if pod is not None:
            self.world.disturb(pod.node)
            self.world.change(pod, requests=requests(millicores, gib, pod.requests["nvidia.com/gpu"]))

    @rule(random=choice, millicores=cores, vendor=st.sampled_from(["", "ibm", "aws"]), zone=rarely)
    def waiting_pod_is_edited(self, random: Random, millicores: int, vendor: str, zone: bool) -> None:
        pod = self._one(random, ours=True, bound=False)
        if pod is not None and GATE in pod.gates:
            self.world.change(
                pod,
                requests=requests(millicores, 0),
                annotations={**pod.annotations, f"{REQUIRE_PREFIX}vendor": vendor},
                node_selector={"topology.kubernetes.io/zone": "a"} if zone else {},
            )

    @rule(random=choice, appears=st.booleans())
    def claim_is_missing_or_appears(self, random: Random, appears: bool) -> None:
        if appears:
            for name in sorted(self.world.scheduler.unclaimed):
                self.world.scheduler.claim_appears(name)
        elif (pod := self._one(random, ours=True, bound=False)) is not None:
            self.world.scheduler.unclaimed.add(pod.name)

    @rule(random=choice)
    def nomination_is_cleared(self, random: Random) -> None:
        pod = self._one(random, ours=True, bound=False)
        if pod is not None:
            self.world.change(pod, nominated="")

    def _replace_evicted(self) -> None:
        """What controllers do whose pods were evicted."""
        there = {pod.key for pod in self.world.cluster.pods()}
        evicted = {event.regarding.uid for event in self.world.cluster.events if event.reason == "Evicted"}
        for uid in sorted(evicted & self.owned.keys()):
            pod = self.owned.pop(uid)
            if pod.key not in there:
                self._again(pod)

    def _remove_other_gates(self) -> None:
        for pod in self.world.cluster.pods():
            if OTHER_GATE in pod.gates:
                self.world.change(pod, gates=tuple(gate for gate in pod.gates if gate != OTHER_GATE))

    @rule(random=choice, path=st.sampled_from(["/cluster/sv1", "/cluster/fez/qpu0", "/cluster/sv2"]))
    def stamp_is_forged(self, random: Random, path: str) -> None:
        pod = self._one(random, ours=True, bound=False)
        if pod is not None:
            stamp = json.dumps({"devices": [{"path": path, "type": "simulator", "amount": 3}]})
            annotations = {**pod.annotations, "fluence.flux-framework.org/allocation": stamp}
            self.world.change(pod, annotations=annotations)

    @rule(random=choice, name=names)
    def member_is_bound_by_another_hand(self, random: Random, name: str) -> None:
        """As by a process that has died since, or by an administrator."""
        pod = self._one(random, ours=True, bound=False)
        if pod is not None and self._node(name):
            self.world.disturb(name)
            self.world.scheduler.begun_elsewhere.add(pod.labels.get(GROUP_LABEL, ""))
            self.world.change(pod, node=name, nominated="", gates=())

    # Others.

    @rule(node=names, millicores=st.sampled_from([100, 150, 1000, 2500]), gib=gibs, port=st.booleans())
    def foreign_pod(self, node: str, millicores: int, gib: int, port: bool) -> None:
        self.made += 1
        self.world.foreign(
            node,
            f"f{self.made}",
            requests=requests(millicores, gib),
            host_ports=(HostPort(80),) if port else (),
        )

    @rule(random=choice)
    def foreign_pod_leaves(self, random: Random) -> None:
        pod = self._one(random, ours=False)
        if pod is not None:
            self.world.cluster.remove(pod)

    @rule(random=choice)
    def foreign_pod_takes_promised_room(self, random: Random) -> None:
        planned = [
            held.assignment.node
            for held in self.world.ledger.holdings.values()
            if not self.world.member(held.uid).bound
        ]
        if planned:
            self.made += 1
            self.world.foreign(random.choice(sorted(planned)), f"f{self.made}", requests=requests(1000, 1))

    # Nodes.

    def _node(self, name: str) -> Node | None:
        return next((node for node in self.world.cluster.nodes() if node.name == name), None)

    @rule(name=names, number=st.sampled_from([6, 4, 3, 1, 0]), gpus=st.integers(0, 2))
    def node_joins_or_is_resized(self, name: str, number: int, gpus: int) -> None:
        node = self._node(name) or Node(name)
        self.world.cluster.put(node)
        self.world.change(node, allocatable=allocatable(number, 8, gpus))

    @rule(name=names, which=st.integers(0, 3))
    def node_offers_absurd_amounts(self, name: str, which: int) -> None:
        node = self._node(name) or Node(name)
        self.world.cluster.put(node)
        self.world.change(node, allocatable=absurd(MOST_MEMORY[self.engine.name])[which])

    @rule(name=names)
    def node_leaves(self, name: str) -> None:
        if self._node(name):
            self.world.cluster.remove(Node(name))

    @rule(name=names, cordoned=rarely, tainted=rarely, lost=rarely, moved=rarely)
    def node_changes(self, name: str, cordoned: bool, tainted: bool, lost: bool, moved: bool) -> None:
        if node := self._node(name):
            self.world.change(
                node,
                unschedulable=cordoned,
                taints=(TAINT,) if tainted else (),
                ready=not lost,
                labels={"topology.kubernetes.io/zone": "a"} if moved else {},
            )

    @rule(text=st.sampled_from([QUANTUM, OTHER_QUANTUM, SMALLER_QUANTUM, BROKEN, None]))
    def resources_are_edited(self, text: str | None) -> None:
        self.text = text
        self.world.cluster.put(ResourcesFile("test", text))

    # The world's troubles.

    @rule(seconds=st.sampled_from([0.0, 0.0, 0.1, 1.0, 5.0]))
    def rebuilding_takes_long(self, seconds: float) -> None:
        self.world.beside_takes = seconds

    @rule(
        verb=st.sampled_from(["nominate", "ungate", "bind", "evict", "dry_run", "resume", "hold_job"]),
        times=st.integers(0, 5),
        delay=st.sampled_from([0.0, 0.02, 0.7]),
    )
    def api_server_fails_and_is_slow(self, verb: str, times: int, delay: float) -> None:
        self.world.cluster.fail(verb, times=times)
        for one in ("nominate", "ungate", "bind", "dry_run", "resume"):
            self.world.cluster.delays[one] = delay

    @rule()
    def kube_scheduler_restarts(self) -> None:
        self.world.scheduler.end()

    @rule(random=choice, attempts=st.integers(1, 8))
    def filters_refuse(self, random: Random, attempts: int) -> None:
        for node in self.world.cluster.nodes():
            if random.random() < 0.5:
                self.world.scheduler.refusing[node.name] = attempts

    @rule(kind=st.sampled_from([Node, Pod, Job, PodGroup]))
    def watch_is_lost_and_lists_again(self, kind: Kind) -> None:
        self.world.cluster.relist(kind)

    @rule()
    def extender_restarts(self) -> None:
        if self.text == BROKEN:
            # With a broken file it would refuse to start until somebody mends that.
            self.resources_are_edited(None)
        self.world.restart()

    @rule(seconds=st.sampled_from([0.02, 0.3, 1.0, 4.0, 9.0]), quiet=rarely)
    def time_passes(self, seconds: float, quiet: bool) -> None:
        self.world.cluster.reap()
        self._remove_other_gates()
        self._replace_evicted()
        if quiet:
            self.quiet()
        else:
            self.world.advance(seconds)

    def quiet(self) -> None:
        """Troubles end, and all that was begun comes to its end."""
        self.world.advance(4)
        self.world.scheduler.refusing.clear()
        self.world.advance(22)
        for name in sorted(self.world.scheduler.unclaimed):
            self.world.scheduler.claim_appears(name)
        self.world.jobs.quota = None
        self.world.cluster.delays.clear()
        self.world.cluster._failures.clear()
        nodes = {node.name for node in self.world.cluster.nodes()}
        for pod in self.world.cluster.pods():
            if pod.node and pod.node not in nodes:
                self.world.cluster.remove(pod)
        for _ in range(4):
            self.world.advance(15)
            self.world.cluster.reap()
            self._replace_evicted()
        self.world.advance(15)
        check_at_rest(self.world)

    @invariant()
    def core_is_consistent(self) -> None:
        if hasattr(self, "world"):
            # What was seen must have been taken in: the driver decides a few milliseconds later.
            self.world.advance(DECIDED_WITHIN)
            if self.world.loop.time() - self.world.jobs.looked_at < DECIDED_WITHIN:
                self.world.advance(DECIDED_WITHIN)
            if not self.is_up_to_date():
                return
            check(self.world)
            assert not self.world.drifted, self.world.drifted
            members = self.world.controller.registry.members()
            directly = any(member.binding and not member.pod.expected for _, member in members)
            if not (self.world.scheduler.binding or directly):
                self.world.scheduler.disturbed.clear()

    def is_up_to_date(self) -> bool:
        """Return whether the core has seen all that has happened."""
        return True


def _machine(engine: CoreEngine, policy: str) -> type[Core]:
    machine = type("Core", (Core,), {"engine": engine, "policy": policy})
    if settings().derandomize:
        # Without a seed of its own each of them would try the same histories.
        return seed(crc32(f"{engine} {policy}".encode()))(machine)
    return machine


@pytest.mark.parametrize("policy", ["lonode", "hinode", "lonodex"])
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_core_stays_consistent_whatever_happens(engine: CoreEngine, policy: str) -> None:
    run_state_machine_as_test(
        _machine(engine, policy),
        settings=settings(
            max_examples=settings().max_examples // SHARE,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
