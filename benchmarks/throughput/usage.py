"""CPU time of processes and writes to the API server, as differences between two moments."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.localcluster import Api

TICKS = os.sysconf("SC_CLK_TCK")
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
REQUEST = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>[0-9.e+]+)$")
LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds by process and writes by resource, so far; ``when`` is the monotonic time in seconds."""

    when: float
    cpu: Mapping[str, float]
    writes: Mapping[str, int]


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def writes_so_far(api: Api) -> Counter[str]:
    """Return the writes that the API server has accepted, by resource, without the leases of nodes."""
    text = api.get("/metrics")["text"]
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        found = REQUEST.match(line)
        if found is None:
            continue
        labels = dict(LABEL.findall(found["labels"]))
        if (
            labels["verb"] not in WRITES
            or labels["resource"] in ("leases", "nodes")
            or labels["code"][0] != "2"
        ):
            continue
        what = f"{labels['verb']} {labels['resource']}"
        counts[f"{what}/{labels['subresource']}" if labels["subresource"] else what] += int(
            float(found["value"])
        )
    return counts


def read(api: Api, processes: Mapping[str, int]) -> Reading:
    """Read all counters."""
    cpu = {name: cpu_seconds(pid) for name, pid in processes.items()}
    return Reading(time.monotonic(), cpu, writes_so_far(api))


@dataclass(frozen=True, slots=True)
class Used:
    """The usage between two readings, without the usage of the idle cluster in the same time."""

    cpu: Mapping[str, float]
    writes: Mapping[str, int]


def between(before: Reading, after: Reading, idle: Mapping[str, float]) -> Used:
    """Return the difference; ``idle`` is the CPU of each process per second while nothing happens."""
    seconds = after.when - before.when
    cpu = {
        name: after.cpu[name] - spent - idle.get(name, 0.0) * seconds
        for name, spent in before.cpu.items()
        if name in after.cpu
    }
    writes = {name: count - before.writes.get(name, 0) for name, count in after.writes.items()}
    return Used(cpu, {name: count for name, count in writes.items() if count})
