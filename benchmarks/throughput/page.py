"""Write the figures as a Markdown page: goals, tables by cluster size and mode of submission, and the cost by size."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.report import processor
from benchmarks.throughput.figures import Figure, Figures
from benchmarks.throughput.plot import stacked_bars
from benchmarks.throughput.workloads import WORKLOADS

GOAL_SIZE = 5_000
STOCK, OURS = "stock", "fluence"
MODES = {
    "burst": "everything up before the first pod is created",
    "backlog": "all pods created before the scheduler starts",
    "stream": "everything up, a steady stream of pods",
}
HEAD = """\
# Throughput, beside the stock kube-scheduler

A real etcd, API server, controller manager and kube-scheduler (Kubernetes 1.36) and kwok's nodes and kubelets, all on
one machine. In each run the *stock* kube-scheduler and *fluence* (the extender on its embedded engine and a
kube-scheduler of its own, configured as in `deploy/`, with `GOGC=400`) bind the same pods in turn on the same control
plane. Placing, steering and ungating are always inside the figures. With pods created before, the extender and its
kube-scheduler start together: their time and CPU count from the extender's readiness, stock's from its own or from its
first binding, so that some of what stock's kube-scheduler takes to start is in its figures there; with everything up
before, nobody's start is in any.

CPU is that of each process (`/proc/PID/stat`) from the start until all pods run, less what the idle cluster takes in as
long; writes are what the API server counts, leases and nodes left out. Made by
`python -m benchmarks.throughput --write`; without `--nodes` and `--workloads` it takes all, and figures that a run
doesn't measure stay. Both contenders take turns, three times, and that round is shown in which all of ours together
took the middle share of stock's CPU: a virtual machine's cores are up to half as fast again at one minute as at the
next, so that only figures taken within a minute can be compared. Each line says how loaded the machine was (load
average of one minute).
"""
DECISIONS = """\
## Which writes a pod costs

Stock's pod costs three: the Binding, kube-scheduler's Event about it, and kubelet's (here kwok's) status. With us the
patch that removes the gate comes on top, and for some a nomination before it; a gang's own Events and status are a few
for all its members. The pods measured have a controller (a Job that nobody runs), as nearly all pods have, so that they
are pinned to their nodes by the patch that ungates them; [concepts](../concepts.md#how-a-member-is-told-its-node) says
who is and what becomes of a pin that can't be kept. Loose pods cost one write more. Patches name the gate and answer
with metadata only, which spares the API server writing out the pod; whether anything was there before is told by the
uid in the patch.

Pods that need neither a stamp nor the barrier are bound by kube-scheduler itself; these are such pods, in gangs too;
[concepts](../concepts.md#all-or-nothing) says which aren't. For the others kube-scheduler calls our bind verb and we
write the Binding, which takes each of the three processes something more.

The policy that gates a pod with a controller takes its `metadata.managedFields` away. In four runs in turn of 1,000
single pods at 5,000 nodes, where the pin did so, that took the API server from 8.6 to 6.3 ms a pod and from 11.5 to 8.8
(etcd from 1.2 to 1.0 and from 1.9 to 1.3), and moved the rate from 105 to 133 pods/s and from 81 to 99.

What a policy patches, and how, weighs as much as a write. To create a pod took the API server 3.2 ms of CPU where no
policy is for it; 7.0 where one policy added the gate and another looked for the mark, both by an ApplyConfiguration
(and the second again, as the API server admits once more what was patched); 4.0 where the gate is a JSONPatch and only
who is marked is patched for it (2 runs of 800 pods each, in turn). Since then one policy does both, in one patch. The
policies of `deploy/` are all in force here.

What kube-scheduler takes of the CPU for a pod of ours isn't its search for a node, which it is spared. At 5,000 nodes,
of stock's 3.4 ms a pod about 1.4 have nothing to do with nodes: watch events to be decoded and handled, the Binding,
the Event about it, its queue and its caches (profile of 1,500 single pods). Ours pay those too, with one watch event
more (0.1 ms), and the filter call (0.2), in which a place may still be refused between ungating and Binding.

On two cores that all processes share, pods/s is what all of them together take of the CPU before the last Binding: the
API server has one write a pod more to do than with stock alone. Besides, stock's kube-scheduler keeps both cores busy
until all are bound, and kwok's status writes and the Events lie behind; with us they run beside the Bindings of the
later pods, unless many writes are under way. Of 2,000 single pods that were there before, in two runs in turn, 110 and
130 a second were bound with 12 writes under way, 168 and 139 with 48, 178 and 144 with 128, which is what we have;
stock bound 179 in the same run. The connections for so many cost a gang of 512 that comes first about a quarter of a
millisecond a pod of our CPU (1 ms for each TLS handshake). When all pods run tells both apart better than when all are
bound.
"""


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for our figure over stock's, for each workload; an upper bound if ``most``, otherwise a lower one."""

    name: str
    process: str
    over: str
    bound: float
    most: bool = True


GOALS = (
    Goal("kube-scheduler's CPU a pod", "kube-scheduler", "kube-scheduler", 0.45),
    Goal("API server's CPU a pod", "kube-apiserver", "kube-apiserver", 1.5),
    Goal("our CPU a pod, over stock kube-scheduler's", "extender", "kube-scheduler", 0.6),
    Goal("pods/s", "", "", 1.0, most=False),
)
ALONE = ("kube-scheduler", "extender")
"""Processes that do nothing for pods of other schedulers."""

SCALE_GOAL = 1.5


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
    took = ours.cpu.get(goal.process, 0.0)
    if goal.process in ALONE:
        took /= _share(ours)
    return took / max(stock.cpu[goal.over], 1e-9)


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
    yield (
        "Of mixed every fifth pod is another scheduler's: what our kube-scheduler and the extender take is shared out\n"
        "among the others, and the CPU of the second kube-scheduler, which binds the fifth, is in the plot only.\n"
    )
    yield "| | goal | " + " | ".join(f"{stock.workload}, {mode}" for mode, stock, _ in pairs) + " |"
    yield "|---|---|" + "---:|" * len(pairs)
    for goal in GOALS:
        cells = []
        for _, stock, ours in pairs:
            ratio = _ratio(goal, stock, ours)
            met = ratio <= goal.bound if goal.most else ratio >= goal.bound
            cells.append(f"{ratio:.2f} {'✓' if met else '✗'}")
        sign = "≤" if goal.most else "≥"
        yield f"| {goal.name} | {sign} {goal.bound:g} | " + " | ".join(cells) + " |"
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


def _by_size(figures: Figures) -> Iterator[str]:
    if not figures.scale:
        return
    sizes = sorted(next(iter(figures.scale.values())))
    yield "## Our own cost by cluster size\n"
    yield "The core and the driver over an API server in memory: milliseconds of CPU a pod, no network.\n"
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
        "| extender | writes a pod | load |"
    )
    yield "|---|---:|---|" + "---:|" * 11
    for pair in pairs:
        for one in pair:
            cpu = [
                one.cpu.get(name, 0.0) for name in ("kube-scheduler", "kube-apiserver", "etcd", "extender")
            ]
            yield (
                f"| {one.workload} | {one.pods:,} | {one.contender} | {one.rate:.0f} | {one.to_last:.1f} "
                f"| {one.to_running:.1f} | {one.p50:.2f} | {one.p99:.2f} | "
                + " | ".join(f"{amount:.2f}" for amount in cpu)
                + f" | {sum(one.writes.values()):.2f} | {one.load:.1f} |"
            )
    yield (
        "\nCPU in milliseconds a pod; all bound and all run from the moment everything was there; p50 and p99 from "
        "creation to binding.\n"
    )
