"""Workloads are read and made as their formats and their models say."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.queue.plot import curves
from benchmarks.queue.quality import judge
from benchmarks.queue.swf import parse
from tests.queueing.jobs import TraceJob, generated

LOG = """
; Version: 2.2
; MaxProcs: 64
1 10 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1
2 20 5 300 4 -1 -1 -1 200 -1 1 1 1 1 1 1 -1 -1
3 15 5 50 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1
4 30 -1 -1 -1 -1 -1 2 60 -1 0 1 1 1 1 1 -1 -1
"""


def test_jobs_are_read_from_the_standard_workload_format() -> None:
    jobs, machine = parse(LOG.splitlines(), 10)
    assert machine == 64
    assert jobs == [TraceJob(10, 100, 200, 8), TraceJob(15, 50, 50, 2), TraceJob(20, 200, 200, 4)]


def test_no_more_jobs_are_read_than_asked_for() -> None:
    jobs, _ = parse(LOG.splitlines(), 1)
    assert jobs == [TraceJob(10, 100, 200, 8)]


def test_generated_jobs_fit_the_machine_and_would_use_about_the_asked_share_of_it() -> None:
    jobs = generated(2000, 64, 0.8, seed=3)
    assert jobs == sorted(jobs, key=lambda job: job.submit)
    assert all(1 <= job.size <= 64 and 1 <= job.run <= job.estimate for job in jobs)
    load = sum(job.run * job.size for job in jobs) / (64 * (jobs[-1].submit - jobs[0].submit))
    assert 0.75 < load < 0.85


def test_a_job_that_waits_as_long_as_it_runs_is_slowed_down_by_two() -> None:
    jobs = [TraceJob(0, 100, 100, 4), TraceJob(0, 100, 100, 4)]
    found = judge("in turn", jobs, [0, 100], 4)
    assert (found.slowdown, found.utilization) == (1.5, 1.0)
    assert 90 < found.wait <= 100


def test_waits_are_drawn_as_one_curve_for_each_scheduler() -> None:
    drawn = ElementTree.fromstring(curves("two jobs", {"easy": [0.0, 20.0], "reference EASY": [5.0, 3600.0]}))
    lines = drawn.findall("{*}polyline")
    shares = [[float(point.split(",")[1]) for point in line.attrib["points"].split()] for line in lines]
    assert len(lines) == 2
    # Half of the jobs wait for longer than 10 seconds, and none for longer than the longest wait.
    assert [heights == sorted(heights) and heights[0] < heights[-1] for heights in shares] == [True, True]
    assert [one.text for one in drawn.findall("{*}text")][-2:] == ["easy", "reference EASY"]
