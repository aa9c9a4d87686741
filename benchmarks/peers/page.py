"""Write the figures of all contenders as a Markdown page. What wasn't measured isn't on it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.peers.contests import HALVES, MIXED, PATIENCE, TOO_LARGE, Contest
from benchmarks.peers.figures import PeerFigures
from benchmarks.peers.native import GATES, VERSION
from benchmarks.peers.notices import Notice
from benchmarks.peers.programs import COSCHEDULING, KUEUE, VOLCANO
from benchmarks.report import processor
from benchmarks.throughput.contenders import PLANE
from benchmarks.throughput.figures import Figure
from benchmarks.throughput.workloads import WORKLOADS, Workload
from tests.localcluster.recipe import release

OURS, STOCK = "fluence", "stock"
TEXT_LENGTH = 240
ADDRESS = re.compile(r"https?://\S+[^\s:]")
NOTICES = 6
"""How many notices of a contender the page shows."""

HEAD = """\
# Compared with other gang schedulers

A real etcd, API server and controller manager, with kubelets that are played, run on one machine; the harness is that
of [throughput.md](throughput.md), and so is the meaning of its figures. In each round all contenders do the same work
in turn, in random order, on the same control plane, and everything runs before the first pod is created. Our admission
policies are installed while ours is measured, and only then. Made by
`python -m benchmarks.peers --write`, which builds the peers from their Go modules. Figures that a run doesn't measure
stay, and rows that were never measured aren't here.

Each row shows the machine's load. Where it is well above the number of CPUs, other work ran at the same time:
everything takes several times as long as on a free machine, and the CPU figures are less certain, because what the idle
cluster takes in that time is subtracted. Ours gives the API server 8 s for a write and then repeats it, so it loses
most where the API server is that slow. Compare figures within one round, and ratios rather than milliseconds.
"""
SETTINGS = {
    STOCK: f"kube-scheduler {release().kubernetes} with its defaults; it knows no gangs",
    OURS: (
        "this project on its embedded engine, with a kube-scheduler of its own, configured as in `deploy/`; pods have "
        "the label of a group and an annotation with its size"
    ),
    "kube-scheduler gangs": (
        f"kube-scheduler {release().kubernetes} with the feature gates {' and '.join(GATES)}; PodGroups of "
        f"`scheduling.k8s.io/{VERSION}`"
    ),
    "coscheduling": (
        f"`{COSCHEDULING}`, its scheduler and its controller, with the plugin's defaults (members wait 60 s at Permit)"
    ),
    "Volcano": (
        f"`{VOLCANO}`, its scheduler with the chart's configuration and its controllers, without webhooks; its API "
        f"module is `{VOLCANO.part}`, the nearest that is published"
    ),
    "Kueue": (
        f"`{KUEUE}` admits Jobs in one queue whose quota suffices for all, and kube-scheduler with its defaults places "
        "their pods one by one. So it has rows for Jobs alone, and keeps no gang whole on the nodes. Its settings are "
        "those of a [page of its own](admission.md) about quotas"
    ),
}


def page(figures: PeerFigures) -> str:
    """Return the page."""
    lines = [HEAD, f"Machine: {os.cpu_count()} CPUs ({processor()}), Python {platform.python_version()}.", ""]
    lines.extend(_contenders(figures))
    for (nodes, workload), rounds in sorted(figures.rounds.items()):
        lines.extend(_speed(nodes, workload, rounds))
    for contest, table in ((HALVES, _halves), (MIXED, _mixed), (TOO_LARGE, _too_large)):
        for nodes in sorted({one.nodes for one in figures.contests.values()}):
            held = [one for one in figures.contests.values() if (one.nodes, one.contest) == (nodes, contest)]
            if held:
                lines.extend(table(nodes, sorted(held, key=lambda one: _rank(one.contender))))
    return "\n".join(lines)


def _rank(contender: str) -> int:
    return list(SETTINGS).index(contender)


def _contenders(figures: PeerFigures) -> Iterator[str]:
    shown = {name for rounds in figures.rounds.values() for one in rounds for name in one}
    shown |= {one.contender for one in figures.contests.values()}
    yield "| contender | version and settings |"
    yield "|---|---|"
    for name, settings in SETTINGS.items():
        if name in shown:
            yield f"| {name} | {settings} |"
    for name, why in figures.failures.items():
        yield f"| {name} | not measured: {_short(why)} |"
    yield "\nThe clients of all schedulers and controllers may send 1,000 requests a second or more.\n"


def _speed(nodes: int, workload: str, rounds: Sequence[Mapping[str, Figure]]) -> Iterator[str]:
    kind = next(one for one in WORKLOADS if one.name == workload)
    pods = next(one.pods for by in rounds for one in by.values())
    yield f"## {_titled(pods // kind.size, kind)} at {nodes:,} nodes\n"
    yield (
        "| round | | CPU ms a pod, all processes | of ours | API server | etcd | schedulers, controllers "
        "| last binding s | all run s | writes a pod | load |"
    )
    yield "|---:|---|" + "---:|" * 9
    for number, by in enumerate(rounds, 1):
        own = _total(by[OURS]) if OURS in by else None
        for name in SETTINGS:
            if name in by:
                yield f"| {number} | {name} {_row(by[name], own)}"
    yield "\n*Of ours* is the CPU of all processes over ours in the same round.\n"


def _row(one: Figure, own: float | None) -> str:
    ratio = f"{_total(one) / own:.2f}" if own else ""
    return (
        f"| {_total(one):.1f} | {ratio} | {one.cpu['kube-apiserver']:.1f} | {one.cpu['etcd']:.1f} "
        f"| {_schedulers(one):.1f} | {one.to_last:.1f} | {one.to_running:.1f} | {sum(one.writes.values()):.2f} "
        f"| {one.load:.1f} |"
    )


def _total(one: Figure) -> float:
    return sum(one.cpu.values())


def _titled(gangs: int, kind: Workload) -> str:
    if kind.size == 1:
        return f"{gangs:,} single pods"
    what = "Job" if kind.jobs else "gang"
    by = ", by the Job controller," if kind.jobs else ""
    return (f"{gangs} {what}s of {kind.size}" if gangs > 1 else f"One {what} of {kind.size}") + by


def _schedulers(one: Figure) -> float:
    """Return the CPU of what a contender adds to a control plane without a scheduler."""
    return sum(took for name, took in one.cpu.items() if name not in PLANE)


def outcome(bound: int, size: int) -> str:
    """Return in a word how much of a gang is bound."""
    if bound >= size:
        return "whole"
    return f"in part ({bound:,} of {size:,})" if bound else "none"


def _halves(nodes: int, held: Sequence[Contest]) -> Iterator[str]:
    size = held[0].size
    yield f"## Two gangs of 60 % of the cluster at once ({nodes:,} nodes)\n"
    yield (
        f"Each gang has {size:,} members that need a whole node each, and both gangs' pods are created in turn. Once "
        "one gang is whole and\nnothing moves, its members succeed. Seconds count from the first pod's creation; the "
        "last column counts from the first\ngang's end.\n"
    )
    yield "| | the gangs | first whole after s | the other whole after s more | load |"
    yield "|---|---|---:|---:|---:|"
    for one in held:
        both = ", ".join(outcome(bound, one.size) for bound in sorted(one.bound, reverse=True))
        times = sorted(when for when in one.whole if when is not None)
        first = f"{times[0]:.1f}" if times else "never"
        other = f"{times[1] - one.freed:.1f}" if len(times) > 1 and one.freed is not None else "never"
        yield f"| {one.contender} | {both} | {first} | {other} | {one.load:.1f} |"
    yield ""


def _mixed(nodes: int, held: Sequence[Contest]) -> Iterator[str]:
    size = held[0].size
    yield f"## A gang of members of two shapes ({nodes:,} nodes)\n"
    yield (
        f"The gang needs 80 % of the cluster: {size // 5:,} of its {size:,} members need a whole node each, and the "
        "others a quarter of a node.\nThe small members are created first. The gang fits if these share nodes. *Never* "
        f"means not within {PATIENCE:g} s after the last\npod's creation.\n"
    )
    yield "| | the gang | last binding s | load |"
    yield "|---|---|---:|---:|"
    for one in held:
        last = f"{one.whole[0]:.1f}" if one.whole[0] is not None else "never"
        yield f"| {one.contender} | {outcome(one.bound[0], one.size)} | {last} | {one.load:.1f} |"
    yield ""


def _too_large(nodes: int, held: Sequence[Contest]) -> Iterator[str]:
    size = held[0].size
    yield f"## A gang that can't fit ({nodes:,} nodes)\n"
    yield (
        f"Each of its {size:,} members needs a whole node, so one node is missing. The table shows what users can "
        "read, in the order in\nwhich it first appeared, with the number of objects that carry it. Sentences that "
        "differ only in numbers are one.\n"
    )
    yield "| | the gang | after s | where | objects | reason and text |"
    yield "|---|---|---:|---|---:|---|"
    for one in held:
        begun = f"| {one.contender} | {outcome(one.bound[0], one.size)} "
        if not one.told:
            yield f"{begun}| | nowhere | | |"
        for notice in one.told[:NOTICES]:
            yield f"{begun}{_cells(notice)}"
            begun = "| | "
        if len(one.told) > NOTICES:
            yield f"| | | | {len(one.told) - NOTICES} more | | |"
    yield ""


def _cells(notice: Notice) -> str:
    said = _short(f"{notice.reason}: {notice.text}")
    return f"| {notice.after:.1f} | {notice.place} | {notice.objects:,} | {said} |"


def _short(text: str) -> str:
    flat = ADDRESS.sub("…", " ".join(text.split())).replace("|", "\\|")
    return flat if len(flat) <= TEXT_LENGTH else f"{flat[:TEXT_LENGTH]} …"
