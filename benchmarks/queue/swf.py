"""Workloads in the Standard Workload Format (https://www.cs.huji.ac.il/labs/parallel/workload/swf.html).

A line is a job: 18 numbers, -1 for what isn't known; lines with a semicolon are comments. The jobs of the Parallel
Workloads Archive are in this format.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

from tests.queueing.jobs import TraceJob

SUBMIT, RUN, ALLOCATED, REQUESTED, ESTIMATE = 1, 3, 4, 7, 8


def read(path: Path, most: int) -> tuple[list[TraceJob], int]:
    """Return the first jobs of a file, at most ``most``, and the size of the machine."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return parse(text.decode("utf-8", "replace").splitlines(), most)


def parse(lines: Iterable[str], most: int) -> tuple[list[TraceJob], int]:
    """Return the jobs of lines, and the size of the machine: as a comment says, or else of the largest job.

    Jobs that never ran are left out. A job that ran longer than it asked for is cut off there.
    """
    jobs: list[TraceJob] = []
    machine = 0
    for line in lines:
        if line.startswith(";"):
            name, _, value = line.strip("; \t").partition(":")
            if name.strip() == "MaxProcs" and value.strip().isdecimal():
                machine = int(value)
            continue
        fields = [int(float(one)) for one in line.split()]
        if len(fields) <= ESTIMATE or len(jobs) == most:
            continue
        size = fields[REQUESTED] if fields[REQUESTED] > 0 else fields[ALLOCATED]
        if size > 0 and fields[RUN] > 0:
            estimate = fields[ESTIMATE] if fields[ESTIMATE] > 0 else fields[RUN]
            jobs.append(TraceJob(max(fields[SUBMIT], 0), min(fields[RUN], estimate), estimate, size))
    largest = max((job.size for job in jobs), default=0)
    return sorted(jobs, key=lambda job: job.submit), max(machine, largest)
