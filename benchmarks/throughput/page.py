"""Write the figures as a Markdown page: goals, tables by cluster size and mode of submission, and the cost by size."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.report import processor
from benchmarks.throughput.figures import Figure, Figures
from benchmarks.throughput.plot import stacked_bars
from benchmarks.throughput.workloads import WORKLOADS

GOAL_SIZE = 1_000
STOCK, OURS = "stock", "fluence"
MODES = {
    "burst": "everything up before the first pod is created",
    "backlog": "all pods created before the scheduler starts",
    "stream": "everything up, a steady stream of pods",
}
HEAD = """\
# Throughput, compared with the stock kube-scheduler

A real etcd, API server, controller manager and kube-scheduler (Kubernetes 1.36), with kubelets that are played, run on
one machine. In each run the *stock* kube-scheduler and *fluence* (the extender on its embedded engine and a
kube-scheduler of its own, configured as in `deploy/`, with `GOGC=400`) bind the same pods in turn on the same control
plane. Our admission policies are installed while ours is measured, and only then. The figures always include placing,
steering and ungating. If the pods are created before, the extender and its kube-scheduler start together: their time
and CPU count from the extender's readiness, stock's from its own readiness or its first binding, so stock's figures
include a part of its start. If everything runs before, no figure includes a start. Where Jobs are submitted, the Job
controller creates their pods, ours after the extender has resumed the Job with the pods' nodes, and p50 and p99 count
from the Job's creation.

CPU is the time of each process (`/proc/PID/stat`) from the start until all pods run, minus what the idle cluster takes
in the same time. Writes are those that the API server counts, without leases and nodes. Made by `python -m
benchmarks.throughput --write`; without `--nodes` and `--workloads` it measures everything, and figures that a run
doesn't measure stay. Both contenders take turns, three times at 1,000 nodes and once at 5,000. The page shows the round
with the median ratio of our CPU to stock's. The cores of a virtual machine can be half as fast again in one minute as
in the next, so only figures measured within a minute can be compared, and even then the ratios of two rounds differ by
a fifth or more: of 18 rounds at 1,000 nodes, the lowest and the highest were 1.04 and 1.50 for single pods, 1.20 and
1.46 for loose ones, 0.88 and 1.11 for gangs of 50, 0.92 and 1.34 for the gang of 512, 0.87 and 1.21 for Jobs of 50,
and 0.76 and 0.94 for the Job of 512. Each line shows how loaded the machine was (load average of one minute).
"""
DECISIONS = """\
## Writes for each pod

A pod of stock takes three writes: the Binding, kube-scheduler's Event about it, and the status from the kubelet (here
played). A [direct pod](../concepts.md#two-ways-to-bind-a-pod) of ours takes two: its Binding, which the extender
writes with an account of its own work only, and the status. A gang has one Event, and some writes to the status of
its PodGroup. A filtered pod takes five: the nomination, the patch that removes the gate, the Binding,
kube-scheduler's Event and the status. Patches name the gate, carry the pod's uid, and return only metadata, so that
the API server needn't write out the whole pod.

Pods of Jobs that are
[created with their node](../concepts.md#jobs-placed-before-their-pods-exist) take the fewest: their
creation and the status from the kubelet. There is no Binding, no Event about it, and nothing for kube-scheduler or the
filter verb to do, which is worth more than the policy that gives them their node costs.

What a policy patches, and how, weighs as much as a write. A patch by any policy costs the API server about 1.4 ms by
itself: it decodes the pod again and admits it a second time. So one policy makes all changes to a new pod, in one
JSONPatch (an ApplyConfiguration costs more than the creation), and it patches nothing that is right already. All
policies of `deploy/` are active here. `python -m benchmarks.policies` measures what they add to each write, by dry
runs, which pass all of admission and are stored nowhere. The API server converts a pod into the form that expressions
read, before and after the write, once for a policy's conditions and three times more if it evaluates the policy's
validations. So of what the service writes all day only a condition is evaluated. Of dry runs on a machine where a new
pod takes 3.2 ms without policies, the shortest policy that patches anything brings it to 4.6, all that this project's
policy does to 5.3, and all policies of `deploy/` to 5.9. What the patch costs by itself is most of what our pods cost
the API server more than those of stock. Only a pod that needs no patch would do without it, and a pod that a user
creates needs one, because it names its creator. When a policy first patches an object of an API group, the API server
reads that group's schema, which takes it up to a second of CPU, once until the schema changes. The benchmark has it do
so before it measures.

Each write that is under way has a connection of its own, whose TLS handshake takes about 1 ms of CPU on both sides. So
no more than 32 Bindings are under way at the same time.
"""


EVERY = "all"
"""In place of a process: all of them."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for our figure over stock's, by the kind of workload; an upper bound if ``most``, else a lower one."""

    name: str
    process: str = ""
    bounds: Mapping[str, float] = field(default_factory=dict)
    most: bool = True


GOALS = (
    Goal("CPU of all processes a pod", EVERY, {"loose": 1.0, "gangs": 0.95, "Jobs": 0.75}),
    Goal("API server's CPU a pod", "kube-apiserver"),
    Goal("kube-scheduler's CPU a pod", "kube-scheduler"),
    Goal("pods/s", "", {"loose": 1.0, "gangs": 1.0, "Jobs": 1.0}, most=False),
)

ALONE = ("kube-scheduler", "extender")
"""Processes that do nothing for pods of other schedulers."""

SHOWN = ("kube-scheduler", "kube-apiserver", "etcd", "kube-controller-manager", "extender")
"""The processes whose CPU the tables show."""

SCALE_GOAL = 1.2


def page(figures: Figures) -> str:
    """Return the page; the plots are expected beside it."""
    lines = [
        HEAD,
        f"Machine: {os.cpu_count()} CPUs ({processor()}), Python {platform.python_version()}.",
        "",
    ]
    lines.extend(_goals(figures))
    lines.extend(_by_size(figures))
    for nodes in sorted({one.nodes for one in figures.measured.values()}):
        for mode, shown in MODES.items():
            lines.extend(_table(figures, nodes, mode, shown))
    lines.append(DECISIONS)
    return "\n".join(lines)


def plots(figures: Figures) -> Iterator[tuple[str, str]]:
    """Return names and contents of the plots: CPU for each pod, for each cluster size."""
    for nodes in sorted({one.nodes for one in figures.measured.values()}):
        bars: list[tuple[str, dict[str, float]]] = []
        for mode in ("burst", "backlog"):
            for stock, ours in _pairs(figures, nodes, mode):
                bars.append((f"{stock.workload}, {mode}: stock", stock.cpu))
                bars.append(("fluence", ours.cpu))
                bars.append(("", {}))
        if bars:
            title = f"CPU a pod at {nodes:,} nodes, milliseconds"
            yield f"throughput-{nodes}.svg", stacked_bars(title, "ms", bars)


def _pairs(figures: Figures, nodes: int, mode: str) -> Iterator[tuple[Figure, Figure]]:
    for workload in (*WORKLOADS, None):
        name = workload.name if workload is not None else "stream"
        stock = figures.find(nodes, mode, name, STOCK)
        ours = figures.find(nodes, mode, name, OURS)
        if stock is not None and ours is not None:
            yield stock, ours


def _ratio(goal: Goal, stock: Figure, ours: Figure) -> float:
    if not goal.process:
        return ours.rate / stock.rate
    if goal.process == EVERY:
        return sum(ours.cpu.values()) / sum(stock.cpu.values())
    took = ours.cpu.get(goal.process, 0.0)
    if goal.process in ALONE:
        took /= _share(ours)
    return took / max(stock.cpu[goal.process], 1e-9)


def _share(ours: Figure) -> float:
    """Return the share of the pods that this project places."""
    every = next((one.foreign_every for one in WORKLOADS if one.name == ours.workload), 0)
    return 1 - 1 / every if every else 1.0


def _goals(figures: Figures) -> Iterator[str]:
    pairs = [
        (mode, stock, ours)
        for mode in ("burst", "backlog")
        for stock, ours in _pairs(figures, GOAL_SIZE, mode)
    ]
    if not pairs:
        return
    yield f"At {GOAL_SIZE:,} nodes, ours over stock's in the same run:\n"
    if any(stock.workload == "mixed" for _, stock, _ in pairs):
        yield (
            "In the mixed workload every fifth pod is a foreign pod. The CPU of our kube-scheduler and the extender is "
            "divided among\n"
            "the other pods; the CPU of the second kube-scheduler, which binds every fifth pod, is only in the plot.\n"
        )
    yield "| | goal | " + " | ".join(f"{stock.workload}, {mode}" for mode, stock, _ in pairs) + " |"
    yield "|---|---|" + "---:|" * len(pairs)
    for goal in GOALS:
        cells = [_cell(goal, stock, ours) for _, stock, ours in pairs]
        sign = "≤" if goal.most else "≥"
        bounds = ", ".join(f"{kind} {sign} {bound:g}" for kind, bound in goal.bounds.items())
        yield f"| {goal.name} | {bounds} | " + " | ".join(cells) + " |"
    runs = [f"{ours.to_running / stock.to_running:.2f}" for _, stock, ours in pairs]
    yield "| time until all pods run | | " + " | ".join(runs) + " |"
    yield ""
    for mode in ("burst", "backlog"):
        loose = figures.find(GOAL_SIZE, mode, "gang512", STOCK)
        gang = figures.find(GOAL_SIZE, mode, "gang512", OURS)
        if loose is not None and gang is not None:
            verdict = "met" if gang.to_last <= loose.to_last else "missed"
            yield (
                f"A gang of 512, {MODES[mode]}: last binding after {gang.to_last:.1f} s, stock places 512 loose pods in"
                f" {loose.to_last:.1f} s ({verdict}).\n"
            )
    for nodes in sorted({one.nodes for one in figures.measured.values()}):
        yield f"![CPU a pod at {nodes:,} nodes](throughput-{nodes}.svg)\n"


def _cell(goal: Goal, stock: Figure, ours: Figure) -> str:
    ratio = _ratio(goal, stock, ours)
    bound = goal.bounds.get(_kind(ours.workload))
    if bound is None:
        return f"{ratio:.2f}"
    met = ratio <= bound if goal.most else ratio >= bound
    return f"{ratio:.2f} {'✓' if met else '✗'}"


def _kind(workload: str) -> str:
    """Return the kind of a workload, by which its goals differ."""
    found = next((one for one in WORKLOADS if one.name == workload), None)
    if found is None or found.size == 1:
        return "loose"
    return "Jobs" if found.jobs else "gangs"


def _by_size(figures: Figures) -> Iterator[str]:
    if not figures.scale:
        return
    sizes = sorted(next(iter(figures.scale.values())))
    yield "## Our own cost by cluster size\n"
    yield "The controller and the executor on an embedded cluster, without a network: CPU in ms for each pod.\n"
    yield "| | " + " | ".join(f"{size:,} nodes" for size in sizes) + " | last over first | goal |"
    yield "|---|" + "---:|" * len(sizes) + "---:|---|"
    for name, costs in figures.scale.items():
        ratio = costs[sizes[-1]] / costs[sizes[0]]
        cells = " | ".join(f"{costs[size]:.2f}" for size in sizes)
        met = "met" if ratio <= SCALE_GOAL else "missed"
        yield f"| {name} | {cells} | {ratio:.2f} | ≤ {SCALE_GOAL:g}, {met} |"
    yield ""


def _table(figures: Figures, nodes: int, mode: str, shown: str) -> Iterator[str]:
    pairs = list(_pairs(figures, nodes, mode))
    if not pairs:
        return
    yield f"## {nodes:,} nodes, {shown}\n"
    yield (
        "| workload | pods | | pods/s | all bound s | all run s | p50 s | p99 s | kube-scheduler | API server | etcd "
        "| controllers | extender | writes a pod | load |"
    )
    yield "|---|---:|---|" + "---:|" * 12
    for pair in pairs:
        for one in pair:
            cpu = [f"{one.cpu[name]:.2f}" if name in one.cpu else "-" for name in SHOWN]
            yield (
                f"| {one.workload} | {one.pods:,} | {one.contender} | {one.rate:.0f} | {one.to_last:.1f} "
                f"| {one.to_running:.1f} | {one.p50:.2f} | {one.p99:.2f} | "
                + " | ".join(cpu)
                + f" | {sum(one.writes.values()):.2f} | {one.load:.1f} |"
            )
    yield (
        "\nCPU in milliseconds for each pod; *all bound* and *all run* count from the moment when everything was "
        "there; p50 and p99 from "
        "creation to binding.\n"
    )
