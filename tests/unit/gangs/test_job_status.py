"""A Job says itself that its pods can't be placed on this cluster, and no longer than that is so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest

from fluence_extender.cluster.bodies import job_condition
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.reporting import status
from fluence_extender.gangs.reporting.status import JobReports
from fluence_extender.kinds.job import Job
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GATE, GROUP_LABEL
from fluence_extender.model.pod import Owner, Pod
from tests.core.values import asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

TOO_LARGE = "unsatisfiable: no node has 8 cpu (the largest has 4 cpu)"


class OnlyLookedUp(dict[GangKey, Gang]):
    """Gangs that can be looked up and not walked through."""

    def __iter__(self) -> Iterator[GangKey]:
        raise AssertionError

    def keys(self) -> NoReturn:
        raise AssertionError


class Writes:
    """What is written into Jobs' conditions, in order."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[tuple[str, str]] = []
        write = world.cluster.report_job

        async def noted(job: Job, why: str) -> None:
            self.all.append((job.name, why))
            await write(job, why)

        monkeypatch.setattr(world.cluster, "report_job", noted)


def job(world: World, name: str, count: int, cpu: int, **labels: str) -> list[Pod]:
    """Create a Job with its pods, gated, each of ``cpu`` millicores."""
    world.cluster.put(Job("default", name, f"uid-{name}", count))
    owner = Owner("Job", name, f"uid-{name}", "batch/v1")
    return [
        world.pod(f"{name}-{number}", owner=owner, labels=labels, gates=(GATE,), requests=asks(cpu))
        for number in range(count)
    ]


def said(world: World, name: str) -> str:
    """What the Job's condition says now."""
    found = world.controller.registry.workloads.find(Job, "default", name)
    assert found is not None
    return found.unsatisfiable


def test_job_that_can_not_be_placed_says_so_once(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(node("n0"), scheduling=False)
    writes = Writes(w, monkeypatch)
    job(w, "large", 50, 8000)
    job(w, "small", 1, 1000)
    for number in range(5):
        w.foreign("n0", f"f{number}", requests=asks(10))
        w.advance(5)
    assert writes.all == [("large", TOO_LARGE)]


def test_condition_is_taken_back_once_a_larger_node_is_there(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0"))
    writes = Writes(w, monkeypatch)
    job(w, "large", 1, 8000, **{GROUP_LABEL: "large"})
    w.advance(5)
    assert said(w, "large") == TOO_LARGE
    w.cluster.put(node("n1", cpu=8000))
    w.advance(5)
    assert said(w, "large") == ""
    assert len(writes.all) == 2


def test_job_stays_unsatisfiable_while_one_of_its_gangs_is(world: MakeWorld) -> None:
    """Pods of a Job that are gangs of one: the second doesn't fit beside the first, on whatever node."""
    w = world(node("n0", cpu=8000))
    first, _ = job(w, "pair", 2, 8000)
    w.advance(5)
    assert w.cluster.pod(first).node
    assert said(w, "pair") == ""
    w.cluster.put(node("n0"))
    w.advance(5)
    assert said(w, "pair") == TOO_LARGE
    w.change(first, ready=True)
    w.advance(5)
    assert said(w, "pair") == TOO_LARGE


def test_each_unsatisfiable_gang_of_a_job_costs_no_look_at_the_others(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[str]()
    problem_of = status._Unsatisfiable._problem_of

    def counted(self: status._Unsatisfiable, key: GangKey) -> str:
        looks.append(key.name)
        return problem_of(self, key)

    monkeypatch.setattr(status._Unsatisfiable, "_problem_of", counted)
    w = world(node("n0"), scheduling=False)
    job(w, "large", 50, 8000)
    w.advance(5)
    assert 50 <= len(looks) <= 100


def test_pod_that_gets_its_place_does_not_cost_a_look_at_all_gangs(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0"), scheduling=False)
    pods = job(w, "many", 3, 100)
    w.advance(1)
    registry = w.controller.registry
    monkeypatch.setattr(registry, "gangs", OnlyLookedUp(registry.gangs))
    found = registry.member(pods[0].uid)
    assert found is not None
    assert JobReports(registry).due(found[0], None) == []
    monkeypatch.undo()


def test_restart_writes_nothing_that_the_job_says_already(
    world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world(node("n0"), scheduling=False)
    job(w, "large", 3, 8000)
    w.advance(5)
    writes = Writes(w, monkeypatch)
    w.restart()
    w.advance(5)
    assert writes.all == []


def test_condition_of_a_job_from_before_a_restart_is_taken_back(world: MakeWorld) -> None:
    w = world(node("n0"))
    job(w, "large", 1, 8000)
    w.advance(5)
    w.kill()
    w.cluster.put(node("n1", cpu=8000))
    w.start()
    w.advance(5)
    assert said(w, "large") == ""


def test_pods_of_another_job_of_that_name_say_nothing_about_it(world: MakeWorld) -> None:
    w = world(node("n0"), scheduling=False)
    job(w, "large", 1, 8000)
    w.cluster.put(Job("default", "large", "another", 1))
    w.advance(5)
    assert said(w, "large") == ""


@pytest.mark.parametrize(
    ("before", "now", "moved"), [("", "why", True), ("why", "other", False), ("why", "", True)]
)
def test_time_of_the_condition_changes_with_its_status(before: str, now: str, moved: bool) -> None:
    (condition,) = job_condition(Job("ns", "j", "u", 1, unsatisfiable=before), now)["status"]["conditions"]
    assert condition["status"] == ("True" if now else "False")
    assert ("lastTransitionTime" in condition) is moved
