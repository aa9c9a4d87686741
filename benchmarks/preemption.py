"""Measure a decision to preempt on a large cluster, and how long it blocks the event loop at most.

The cluster is full of gangs of low priority, of one to 32 pods, and one or several gangs of high priority arrive. Each
step of the controller is timed from their arrival to the decision; every other answer waits for the longest step. For
the last case the time until the gang has its places is measured too. The figures are CPU times of the thread.

    python -m benchmarks.preemption [--nodes 5000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from fluence_extender.apps.extender.app import GARBAGE
from fluence_extender.apps.extender.engines import choose_engine, matcher_setup
from fluence_extender.cluster.port import Changed, Deleted, Kind
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.actions import AskBudgets, Evict
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import (
    GATE,
    GROUP_LABEL,
    GROUP_SIZE_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
)
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import Resources

Result = TypeVar("Result")
GIB = 2**30
RACK = "topology.example.com/rack"
NODES_PER_RACK = 40
PODS_PER_NODE = 4
SIZES = (1, 1, 1, 2, 4, 8, 16, 32)
TICK = 0.25
AT_ONCE = 500
"""How many pods are seen terminating, and then gone, between two steps."""

LONGEST = 4.0
"""How long a case takes at most, in seconds of the controller's clock."""


@dataclass(frozen=True, slots=True)
class Case:
    """Gangs that arrive at once, with ``members`` of ``cores`` each; if ``mixed``, some members ask for more cores."""

    name: str
    gangs: int
    members: int
    cores: int
    mixed: bool = False
    rack: bool = False


CASES = (
    Case("one pod", 1, 1, 4),
    Case("16 pods", 1, 16, 16),
    Case("64 pods, a node each", 1, 64, 32),
    Case("64 mixed pods", 1, 64, 6, mixed=True),
    Case("16 pods in one rack", 1, 16, 16, rack=True),
    Case("10 gangs of 8 at once", 10, 8, 16),
    Case("8 pods, a whole node each", 1, 8, 36),
    Case("1,000 pods, a whole node each", 1, 1000, 36),
)


@dataclass(slots=True)
class Clock:
    """The controller's clock, in seconds."""

    now: float = 0.0


def requests(cores: int) -> Resources:
    """Return the requests of a pod with that many cores."""
    return Resources({"cpu": cores * 1000, "memory": cores * 2 * GIB, "pods": 1})


def cluster(nodes: int, clock: Callable[[], float]) -> Controller:
    """Return a controller of a full cluster: pods of low priority on all nodes, a foreign pod on every second node."""
    dice = random.Random(nodes)
    ledger = Ledger(matcher_setup(choose_engine("embedded"), "lonode", {"rack": RACK}))
    controller = Controller(ledger, clock=clock, calendar=clock)
    allocatable = Resources({"cpu": 36_000, "memory": 128 * GIB, "pods": 110})
    for number in range(nodes):
        labels = {RACK: f"r{number // NODES_PER_RACK}"}
        controller.observe(Changed(Kind.NODE, Node(f"n{number}", labels=labels, allocatable=allocatable)))
    places = [f"n{number}" for number in range(nodes) for _ in range(PODS_PER_NODE)]
    dice.shuffle(places)
    made = 0
    while made < len(places):
        size = min(dice.choice(SIZES), len(places) - made)
        for member in range(size):
            low = pod(f"low{made}-{member}", f"low{made}", size, 8, dice.randint(0, 3), float(made))
            bound = _bound(low, places[made + member])
            controller.observe(Changed(Kind.POD, bound))
        made += size
    for number in range(0, nodes, 2):
        other = Pod("kube-system", f"ds{number}", f"ds{number}", requests=requests(2), node=f"n{number}")
        controller.observe(Changed(Kind.POD, _of_others(other)))
    controller.start()
    settle(controller)
    # The service does the same once it has started.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)
    return controller


def _of_others(one: Pod) -> Pod:
    return Pod(
        one.namespace, one.name, one.uid, requests=one.requests, node=one.node, scheduler="default-scheduler"
    )


def _bound(one: Pod, node: str) -> Pod:
    return Pod(
        one.namespace,
        one.name,
        one.uid,
        labels=one.labels,
        annotations=one.annotations,
        requests=one.requests,
        priority=one.priority,
        created=one.created,
        node=node,
        phase="Running",
    )


def pod(
    name: str, gang: str, size: int, cores: int, priority: int, created: float, rack: bool = False
) -> Pod:
    """Return a gated member of a gang."""
    notes = {GROUP_SIZE_ANNOTATION: str(size)}
    if rack:
        notes[TOPOLOGY_REQUIRED_ANNOTATION] = "rack"
    return Pod(
        "default",
        name,
        name,
        labels={GROUP_LABEL: gang},
        annotations=notes,
        requests=requests(cores),
        gates=(GATE,),
        priority=priority,
        created=created,
    )


def settle(controller: Controller) -> None:
    """Run steps until nothing is left to do."""
    controller.step()
    while controller.lifecycle.restless:
        controller.step()


def arriving(case: Case) -> Iterator[Pod]:
    """Yield the pods of a case."""
    for number in range(case.gangs):
        for member in range(case.members):
            cores = case.cores + (member % 4) * 4 if case.mixed else case.cores
            gang = f"high{number}"
            yield pod(f"{gang}-{member}", gang, case.members, cores, 100, 1e6 + number, case.rack)


def decide(controller: Controller, case: Case, clock: Clock) -> tuple[list[float], int]:
    """Return the duration of each step until the gangs of the case are decided, in ms, and how many of them preempt."""
    pods = list(arriving(case))
    for one in pods:
        controller.observe(Changed(Kind.POD, one))
    taken: list[float] = []
    gangs = {found[0].key for one in pods if (found := controller.member(one.uid))}
    until = clock.now + LONGEST
    preempting = 0
    while clock.now < until and preempting < case.gangs:
        began = time.thread_time()
        controller.step()
        taken.append((time.thread_time() - began) * 1000)
        if not controller.lifecycle.restless:
            clock.now += TICK
        reasons = [controller.registry.gangs[key].reason for key in gangs]
        preempting = sum(reason is not None and reason.code is ReasonCode.PREEMPTING for reason in reasons)
    for one in pods:
        controller.observe(Deleted(Kind.POD, one))
    settle(controller)
    clock.now += LONGEST
    return taken, preempting


@dataclass(slots=True)
class Timed:
    """Measures CPU time in ms, by phase."""

    phases: dict[str, list[float]] = field(default_factory=dict)

    def run(self, phase: str, work: Callable[[], Result]) -> Result:
        """Do some work, and record how long it took."""
        began = time.thread_time()
        done = work()
        self.phases.setdefault(phase, []).append((time.thread_time() - began) * 1000)
        return done


def carry_out(controller: Controller, case: Case, clock: Clock) -> dict[str, list[float]]:
    """Return the duration of each step until the gang of the case has its places, in ms, by phase."""
    pods = list(arriving(case))
    for one in pods:
        controller.observe(Changed(Kind.POD, one))
    timed = Timed()
    preemption = controller.lifecycle.preemption
    evicted: list[Pod] = []
    while True:
        actions = timed.run("deciding", controller.step)
        asked = next((one for one in actions if isinstance(one, AskBudgets)), None)
        clock.now += 0.0 if controller.lifecycle.restless else TICK
        if asked is not None:
            break
    timed.run("the budgets allow it", partial(preemption.budgets_allow, asked.preemptor))
    while True:
        actions = timed.run("evicting", controller.step)
        evicted.extend(one.pod for one in actions if isinstance(one, Evict))
        if not controller.lifecycle.restless:
            break
    for start in range(0, len(evicted), AT_ONCE):
        for one in evicted[start : start + AT_ONCE]:
            controller.observe(Changed(Kind.POD, replace(one, deleting=True, resource_version="2")))
        timed.run("victims begin to terminate", controller.step)
        clock.now += TICK
    for start in range(0, len(evicted), AT_ONCE):
        for one in evicted[start : start + AT_ONCE]:
            controller.observe(Deleted(Kind.POD, one))
        last = start + AT_ONCE >= len(evicted)
        timed.run("the gang gets its places" if last else "victims are gone", controller.step)
        clock.now += TICK
    gang = controller.member(pods[0].uid)
    assert gang is not None
    assert gang[0].state is not GangState.WAITING
    for one in pods:
        controller.observe(Deleted(Kind.POD, one))
    for one in evicted:
        controller.observe(Changed(Kind.POD, replace(one, uid=f"{one.uid}+")))
    settle(controller)
    clock.now += LONGEST
    return timed.phases


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    clock = Clock()
    controller = cluster(given.nodes, lambda: clock.now)
    print(f"| {given.nodes:,} nodes: what arrives | preempt | longest step ms | decided after ms | steps |")
    print("|---|---:|---:|---:|---:|")
    for case in CASES:
        runs = [decide(controller, case, clock) for _ in range(given.rounds)]
        longest = min(max(taken) for taken, _ in runs)
        whole = min(sum(taken) for taken, _ in runs)
        print(
            f"| {case.name} | {runs[0][1]} of {case.gangs} | {longest:.1f} | {whole:.0f} | {len(runs[0][0])} |"
        )
    rounds = [carry_out(controller, CASES[-1], clock) for _ in range(given.rounds)]
    print(f"\n| {CASES[-1].name}: then | longest step ms | in all ms | steps |\n|---|---:|---:|---:|")
    for phase in rounds[0]:
        longest = min(max(one[phase]) for one in rounds)
        whole = min(sum(one[phase]) for one in rounds)
        print(f"| {phase} | {longest:.1f} | {whole:.0f} | {len(rounds[0][phase])} |")


if __name__ == "__main__":
    main()
