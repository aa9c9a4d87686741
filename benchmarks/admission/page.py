"""The page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.admission.measure import Outcome
from benchmarks.admission.shape import BORROWING, CLASSES, COHORTS, NOMINAL, QUEUES, Class, of_queue
from benchmarks.peers.kueue import BURST, QPS
from benchmarks.peers.programs import KUEUE
from benchmarks.report import machine

SHOWN = {"fluence": "this project", "kueue": "Kueue"}
GOAL = 2.0

HEAD = """# Admission beside Kueue

How many Jobs with quotas are admitted a second, and what that costs, here and in [Kueue](https://kueue.sigs.k8s.io).
Both work in turn, in random order, on the same real etcd and API server on one machine. Made by
`python -m benchmarks.admission --write`, which builds Kueue from its Go module.
"""

NOTES = """
* Admitted a second: all Jobs, over the time from the first one's creation to the last one's admission. A Job is
  admitted when a watch shows it without `suspend`.
* CPU is that of etcd, the API server and what admits (*own*: our extender, or Kueue's manager), without what they take
  when nothing happens.
* Writes are those of what admits. Here they are the patch that resumes the Job, a dry run that asks what its pod will
  be, and the status of Queues; in Kueue the Job's, the Workload and its status, Events, and the status of queues.
* Wait: from the moment at which the Job was due to its admission, on average.
* Load: the machine's load average at the end. Where it is above the number of CPUs, other work ran at the same time,
  and everything takes longer. Compare figures within a round, and ratios rather than seconds.

## The work

It has the shape of Kueue's own performance test of its scheduler (`test/performance/scheduler` in its module, the
configuration *baseline*): {cohorts} cohorts of {queues} ClusterQueues with {nominal} cores each, which may borrow
{borrowing} more. Of the 500 workloads that the test makes for each queue, each queue gets here:

| class | Jobs | cores | runs for s | one every s | priority |
|---|---:|---:|---:|---:|---:|
{classes}

Kueue's generator makes Workloads, which only Kueue knows, and its test runs a manager with little more than the
scheduler. Here each workload is a Job of one pod, and Kueue's whole manager runs. As in Kueue's test no pods exist: the
Job controller is stopped, and a Job is complete some time after it was admitted. Our Queues are what
the [table](../migrating.md#kueue) makes of the ClusterQueues.

| | version and settings |
|---|---|
| Kueue | `{kueue}`, configured as in its manifests, but: of its integrations only Jobs; {qps:,} requests a second \
with bursts of {burst:,} (300 and 500 in the manifests); no webhook registered, which saves it calls; no \
visibility server |
| this project | its default engine, with the policies and rights of `deploy/`; it also finds a place for each pod on \
{nodes} nodes of {cores} cores, which Kueue leaves to a scheduler |
"""


def page(found: Sequence[Outcome], nodes: int, cores: int, part: float) -> str:
    """Return the figures as a page."""
    notes = NOTES.format(
        cohorts=COHORTS,
        queues=QUEUES,
        nominal=NOMINAL,
        borrowing=BORROWING,
        classes="\n".join(_class(one, part) for one in CLASSES),
        kueue=KUEUE,
        qps=QPS,
        burst=BURST,
        nodes=nodes,
        cores=cores,
    )
    return "\n".join([HEAD, f"Machine: {machine()}.", "", *_table(found), "", *_ratios(found), notes])


def _class(one: Class, part: float) -> str:
    cells = (one.name, of_queue(one, part), one.cores, f"{one.runs:g}", f"{one.interval:g}", one.priority)
    return "| " + " | ".join(map(str, cells)) + " |"


def _table(found: Sequence[Outcome]) -> Iterator[str]:
    waits = " | ".join(f"wait, {one.name} s" for one in CLASSES)
    yield f"| round | | admitted a second | CPU ms a Job | own | API server | etcd | writes a Job | {waits} | load |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|" + "---:|" * (len(CLASSES) + 1)
    for one in found:
        cells = [
            f"{one.round}",
            SHOWN[one.contender],
            f"{one.rate:.1f}",
            *(f"{one.cpu(name):.1f}" for name in ("", one.own, "kube-apiserver", "etcd")),
            f"{one.writes:.1f}",
            *(f"{one.waits[kind.name]:.1f}" for kind in CLASSES),
            f"{one.load:.1f}",
        ]
        yield "| " + " | ".join(cells) + " |"


def _ratios(found: Sequence[Outcome]) -> Iterator[str]:
    """Yield a sentence on the worst round of each figure."""
    by_key = {(one.contender, one.round): one for one in found}
    rounds = [
        (by_key["fluence", number], by_key["kueue", number]) for name, number in by_key if name == "kueue"
    ]
    faster = min(ours.rate / kueues.rate for ours, kueues in rounds)
    cheaper = min(kueues.cpu() / ours.cpu() for ours, kueues in rounds)
    own = min(kueues.cpu(kueues.own) / ours.cpu(ours.own) for ours, kueues in rounds)
    yield f"In the round that is worst for us, {faster:.1f} times as many Jobs are admitted a second as by Kueue (goal:"
    yield f"{GOAL:.0f} times). Kueue takes at least {cheaper:.1f} times the CPU a Job, and its manager alone takes"
    yield f"{own:.1f} times that of our extender. Each measurement has {found[0].jobs:,} Jobs."
