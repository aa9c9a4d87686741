"""A blocked gang gets a reservation, gangs behind it keep out of its way, and nothing is booked for it."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.gangs.planning.cluster_timeline import DeclaredEnds, cluster_timeline
from fluence_extender.gangs.planning.known_ends import LeavingPods
from fluence_extender.model.gang import HistoryKind
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import ReasonCode, behind_reservation
from fluence_extender.objects.queues import DEFAULT_QUEUE, NodeReservation, Queue, SchedulingOptions
from fluence_extender.queueing.entry import PolicyName
from fluence_extender.whatif.estimates import Estimates
from tests.core.planning import planner_for
from tests.core.values import node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, gang


def running(w: World, name: str, cpu: int, seconds: float | None, **fields: Any) -> Pod:
    """A gang of one pod that has a node, and has started; it declares to run for ``seconds``."""
    (pod,) = gang(w, name, cpu, duration=seconds, **fields)
    w.advance(1)
    assert w.now(pod).node
    w.change(pod, started=w.loop.time(), phase="Running")
    w.advance(0.5)
    return pod


def end(w: World, pod: Pod) -> None:
    """Let a pod end well."""
    w.change(pod, phase="Succeeded")
    w.advance(1)


def code(w: World, name: str) -> ReasonCode | None:
    """Why the gang of that name waits."""
    reason = w.gang(name).reason
    return None if reason is None else reason.code


def use(w: World, options: SchedulingOptions) -> None:
    """Let the default queue state how passes go through the entries."""
    w.controller.queue.settings.put(Queue(DEFAULT_QUEUE, scheduling=options))


def test_short_gang_overtakes_the_head_and_a_long_one_does_not(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    wide = gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    assert code(w, "wide") is ReasonCode.BUSY
    (kept,) = w.controller.queue.reservations()
    assert (kept.gang.name, kept.nodes) == ("wide", ("n0", "n1"))
    assert kept.start is not None
    assert 995 < kept.start < 1005
    (long,) = gang(w, "long", 3000, duration=5000)
    (endless,) = gang(w, "endless", 3000)
    (short,) = gang(w, "short", 3000, duration=500)
    w.advance(2)
    assert w.nodes_of(short) == ["n1"]
    end(w, short)
    w.advance(2)
    assert [code(w, name) for name in ("long", "endless")] == [ReasonCode.BEHIND_RESERVATION] * 2
    assert w.controller.queue.reservations() == [kept]
    assert w.nodes_of(long, endless, *wide) == ["", "", "", ""]


def test_suspended_job_overtakes_the_head_if_the_job_itself_says_that_it_is_short(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    wide = gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    long, short = w.jobs.submit("long", 2, 1500), w.jobs.submit("short", 2, 1500)
    w.change_job(long, duration=5000.0)
    w.advance(1)
    assert code(w, "long") is ReasonCode.BEHIND_RESERVATION
    w.change_job(short, duration=500.0)
    w.advance(2)
    assert not w.jobs.nodes(long)
    assert w.jobs.nodes(short) == ["n1"] * 2
    assert w.nodes_of(*wide) == ["", ""]
    for pod in w.jobs.pods(short):
        w.change(pod, phase="Succeeded")
    w.change_job(long, duration=400.0)
    w.advance(2)
    assert w.jobs.nodes(long) == ["n1"] * 2


def test_head_starts_when_its_room_is_there_and_others_follow(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    runs = running(w, "runs", 3000, 1000)
    wide = gang(w, "wide", 3000, 3000, duration=100)
    (long,) = gang(w, "long", 3000, duration=5000)
    w.advance(2)
    assert code(w, "long") is ReasonCode.BEHIND_RESERVATION
    end(w, runs)
    w.advance(2)
    assert sorted(w.nodes_of(*wide)) == ["n0", "n1"]
    assert [one.gang.name for one in w.controller.queue.reservations()] == ["long"]
    assert w.nodes_of(long) == [""]
    for pod in wide:
        w.change(pod, phase="Succeeded")
    w.advance(2)
    assert w.nodes_of(long) != [""]


def test_gang_that_leaves_its_reservation_lets_others_start(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    wide = gang(w, "wide", 3000, 3000, duration=100)
    (long,) = gang(w, "long", 3000, duration=5000)
    w.advance(2)
    assert w.nodes_of(long) == [""]
    for pod in wide:
        w.cluster.delete(pod)
    w.advance(2)
    assert w.nodes_of(long) == ["n1"]


def test_overrun_delays_the_head_and_its_history_says_so(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 20)
    gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    first = w.controller.queue.reservations()[0].start
    assert first is not None
    w.advance(30)
    later = w.controller.queue.reservations()[0].start
    assert later is not None
    assert first < w.loop.time() < later
    told = [one.detail for one in w.gang("wide").history.entries if one.kind is HistoryKind.DELAYED]
    assert told == ["it is expected to start later"]
    reserved_starts = w.gang("wide").memory.reserved_starts
    assert reserved_starts.first == int(first)
    assert reserved_starts.moves


def test_overrun_of_one_of_two_pods_moves_the_start_before_that_has_come(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "short", 3000, 20)
    running(w, "long", 3000, 60)
    gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    first = w.controller.queue.reservations()[0].start
    assert first is not None
    w.advance(30)
    later = w.controller.queue.reservations()[0].start
    assert later is not None
    assert w.loop.time() < first < later


def test_restart_decides_the_same(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    running(w, "runs", 3000, 1000)
    running(w, "runs-too", 3000, 700)
    gang(w, "wide", 3000, 3000, 3000, duration=100)
    (long,) = gang(w, "long", 3000, duration=5000)
    (short,) = gang(w, "short", 1000, duration=600)
    w.advance(2)
    before = w.controller.queue.reservations(), w.nodes_of(long, short)
    w.restart()
    w.advance(2)
    assert (w.controller.queue.reservations(), w.nodes_of(long, short)) == before


def test_reason_counts_what_fits_once_later_gangs_have_their_places(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    gang(w, "long", 3000)
    w.advance(2)
    gang(w, "wide", 3000, 3000, 3000)
    w.advance(2)
    assert "2 of 3 fit now" in str(w.gang("wide").reason)
    gang(w, "small", 3000)
    w.advance(8)
    assert "1 of 3 fit now" in str(w.gang("wide").reason)


def test_without_declared_ends_nothing_is_reserved_and_gangs_fill_the_gaps(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, None)
    gang(w, "wide", 3000, 3000, duration=100)
    (later,) = gang(w, "later", 3000)
    w.advance(2)
    assert w.nodes_of(later) == ["n1"]
    assert w.controller.queue.reservations() == []


def test_starving_gang_drains_the_cheapest_nodes(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"), node("n2"))
    use(w, SchedulingOptions(starvation_after=60))
    running(w, "runs", 3000, None)
    gang(w, "wide", 4000, 4000, 4000, created=0.0)
    w.advance(2)
    (first,) = gang(w, "early", 1000)
    w.advance(2)
    assert w.nodes_of(first) != [""]
    w.advance(60)
    (kept,) = w.controller.queue.reservations()
    assert kept.draining
    (late,) = gang(w, "late", 1000)
    w.advance(2)
    assert w.nodes_of(late) == [""]
    assert code(w, "late") is ReasonCode.BEHIND_RESERVATION


def test_fcfs_lets_nothing_pass_the_head(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    use(w, SchedulingOptions(policy=PolicyName.FCFS))
    runs = running(w, "runs", 3000, 1000)
    gang(w, "wide", 3000, 3000, duration=100)
    (short,) = gang(w, "short", 1000, duration=1)
    w.advance(2)
    assert code(w, "short") is ReasonCode.QUEUED
    end(w, runs)
    w.advance(2)
    assert w.nodes_of(short) != [""]


def test_nodes_that_an_operator_reserves_are_left_alone_in_time(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    w.advance(1)
    w.controller.queue.settings.put(
        NodeReservation("upgrade", start=500.0, duration=100.0, names=frozenset({"n0"}))
    )
    (short,) = gang(w, "short", 3000, duration=300)
    (endless,) = gang(w, "endless", 3000)
    w.advance(2)
    assert w.nodes_of(short, endless) == ["n0", "n1"]
    (late,) = gang(w, "late", 1000)
    (short_too,) = gang(w, "short-too", 500, duration=400)
    w.advance(2)
    assert w.nodes_of(late, short_too) == ["n1", "n0"]
    (another,) = gang(w, "another", 500)
    w.advance(2)
    assert w.gang("another").reason == behind_reservation(("upgrade",), behind_gangs=False)
    w.controller.queue.settings.drop(w.controller.queue.settings.reservations["upgrade"])
    w.advance(2)
    assert w.nodes_of(another) == ["n0"]


def test_wide_gang_starts_although_small_ones_keep_coming(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    small = [running(w, f"first-{number}", 3000, 30) for number in range(2)]
    wide = gang(w, "wide", 4000, 4000, duration=50)
    for number in range(12):
        gang(w, f"small-{number}", 3000, duration=30)
        w.advance(3)
        for pod in small:
            if not w.now(pod).finished and w.loop.time() >= w.now(pod).started + 30:
                w.change(pod, phase="Succeeded")
    w.advance(2)
    assert sorted(w.nodes_of(*wide)) == ["n0", "n1"]


def test_reserved_start_is_told_at_once_and_measured_when_the_gang_has_its_places(world: MakeWorld) -> None:
    missed: list[str] = []
    w = world(node("n0", cpu=4000))
    kept = Estimates(w.controller, lambda which, _: missed.append(which), w.loop.time)
    long = running(w, "long", 3000, 300.0)
    gang(w, "next", 2000, 2000)
    w.advance(1)
    assert w.gang("next").starts_about is not None
    kept.measure()
    end(w, long)
    assert w.gang("next").starts_about is None
    kept.measure()
    assert missed == ["first", "last"]


def test_devices_of_a_pod_that_moves_to_another_node_stay_held(world: MakeWorld) -> None:
    resources = ResourcesFile("test", "resources: [{type: qpu, name: fez}]")
    w = world(node("n0"), node("n1"), resources, scheduling=False)
    gang(w, "quantum", 500, devices={"qpu": 1})
    w.advance(1)
    seen = set()
    for _ in range(2):
        (name,) = {held.assignment.node for held in w.ledger.holdings.values()}
        seen.add(name)
        w.cluster.put(node(name, unschedulable=True))
        w.advance(1)
        room = w.ledger.snapshot()
        cluster = cluster_timeline(
            room,
            DeclaredEnds(LeavingPods(), room.whole),
            planner_for(w.ledger, w.controller.eligibility),
            0.0,
        )
        assert len(cluster.devices.used(cluster.timeline.free)) == 1
        w.cluster.put(node(name))
        w.advance(1)
    assert seen == {"n0", "n1"}


def test_running_pod_that_tells_another_end_moves_the_start_at_once(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    runs = running(w, "runs", 3000, 1000)
    gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    first = w.controller.queue.reservations()[0].start
    assert first is not None
    w.change(runs, duration=1500.0)
    w.advance(0.02)
    assert w.controller.queue.reservations()[0].start == first + 500


def test_waiting_pod_that_another_hand_binds_moves_the_start_at_once(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    gang(w, "wide", 3000, 3000, duration=100)
    (endless,) = gang(w, "endless", 3000)
    w.advance(1)
    assert w.controller.queue.reservations()
    w.disturb("n1")
    w.change(endless, node="n1")
    w.advance(0.02)
    assert not w.controller.queue.reservations()


def test_reserved_places_follow_the_nodes_that_the_gang_may_use(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    running(w, "runs", 3000, 1000)
    running(w, "longer", 3000, 2000)
    gang(w, "waits", 3000, duration=100)
    w.advance(1)
    assert w.controller.queue.reservations()[0].nodes == ("n0",)
    w.change(w.controller.eligibility.nodes["n0"], unschedulable=True)
    w.advance(1)
    assert w.controller.queue.reservations()[0].nodes == ("n1",)
    w.change(w.controller.eligibility.nodes["n0"], unschedulable=False)
    w.advance(1)
    assert w.controller.queue.reservations()[0].nodes == ("n0",)


def behind_wide(w: World, durations: dict[str, float | None]) -> Pod:
    """Let gangs with one demand wait behind a wide one for longer than a pass, and return the pod that it waits for."""
    runs = running(w, "runs", 3000, 1000)
    gang(w, "wide", 3000, 3000, duration=100)
    w.advance(1)
    for name, seconds in durations.items():
        gang(w, name, 3000, duration=seconds)
    w.advance(1)
    # Another pass looks at all of them again.
    w.ledger.changed()
    w.advance(1)
    assert {code(w, name) for name in durations} == {ReasonCode.BEHIND_RESERVATION}
    return runs


def waiting(w: World) -> set[str]:
    """The names of the gangs without a place."""
    return {key.name for key, one in w.controller.registry.gangs.items() if one.placeless()}


def test_waiting_gang_that_tells_a_shorter_duration_overtakes_the_head_and_those_alike_do_not(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), node("n1"))
    behind_wide(w, {"first": 2000.0, "second": 3000.0, "third": 4000.0})
    (second,) = (one.pod for one in w.gang("second").alive())
    w.change(second, duration=500.0)
    w.advance(1)
    assert w.nodes_of(second) == ["n1"]
    assert waiting(w) == {"wide", "first", "third"}


def test_waiting_gangs_overtake_the_head_once_their_queue_gives_a_shorter_duration(world: MakeWorld) -> None:
    w = world(node("n0"), node("n1"))
    usual = Queue(DEFAULT_QUEUE, uid="default", default_duration=2000.0)
    w.cluster.put(usual)
    w.advance(1)
    behind_wide(w, {"first": None, "second": 3000.0})
    w.cluster.put(structs.replace(usual, default_duration=500.0))
    w.advance(1)
    (first,) = (one.pod for one in w.gang("first").alive())
    assert w.nodes_of(first) == ["n1"]
    assert waiting(w) == {"wide", "second"}


def test_waiting_gangs_stay_behind_while_the_head_moves_and_overtake_it_once_it_starts_later(
    world: MakeWorld,
) -> None:
    w = world(node("n0"), node("n1"))
    runs = behind_wide(w, {"first": 1500.0, "second": 3000.0})
    w.change(runs, duration=2000.0)
    w.advance(1)
    (first,) = (one.pod for one in w.gang("first").alive())
    assert w.nodes_of(first) == ["n1"]
    assert waiting(w) == {"wide", "second"}
