"""Two replicas of which one leads: what each does, and what happens when the lead changes hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fluence_extender.cluster.port import Changed, Deleted, Listed
from fluence_extender.gangs.controller import Controller, Ports
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.http.scheduler.port import BindRefused, Undecided
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from tests.core.engine import EMBEDDED
from tests.core.pair import Pair, check_pair
from tests.core.replica import Replica
from tests.core.values import asks, node, pod
from tests.unit.gangs.conftest import gang

MakePair = Callable[..., Pair]


@pytest.fixture
def pair() -> Iterator[MakePair]:
    """Make pairs; at the end of the test each must be consistent."""
    made: list[Pair] = []

    def make(*objects: Any, **options: Any) -> Pair:
        made.append(Pair(*objects, **options))
        return made[-1]

    yield make
    for one in made:
        one.advance(0.1)
        check_pair(one)
        one.close()


def leader(w: Pair) -> Replica:
    found = w.leading
    assert found is not None
    return found


def standby(w: Pair) -> Replica:
    return next(one for one in w.replicas if one is not w.leading)


def until(w: Pair, done: Callable[[], bool], step: float = 0.1) -> None:
    """Let time pass until ``done()``; at every step no more than one replica leads."""
    for _ in range(600):
        if done():
            return
        w.advance(step)
        _ = w.leading
    raise AssertionError("it never came about")


def bound(w: Pair, pods: list[Pod]) -> int:
    return sum(bool(node) for node in w.nodes_of(*pods))


def writes_of(w: Pair, replica: Replica) -> list[str]:
    """The writes of ``replica`` from now on."""
    made: list[str] = []
    for verb in ("nominate", "ungate", "bind", "evict", "report_pod", "report_group", "event"):
        send = getattr(replica.link, verb)

        async def noted(*args: Any, verb: str = verb, send: Any = send, **kwargs: Any) -> None:
            made.append(verb)
            await send(*args, **kwargs)

        setattr(replica.link, verb, noted)
    return made


def test_only_the_leader_plans_and_writes(pair: MakePair) -> None:
    w = pair(node("n0"), node("n1"))
    written = writes_of(w, standby(w))
    pods = gang(w, "g", *[1000] * 6)
    w.advance(5)
    assert bound(w, pods) == 6
    assert written == []
    assert (leader(w).placements.leading, standby(w).placements.leading) == (True, False)


def test_standby_answers_that_it_does_not_lead(pair: MakePair) -> None:
    w = pair(node("n0"))
    (pod,) = gang(w, "g", 1000, size=1)
    placements = standby(w).placements
    w.advance(0.2)
    assert placements.not_ready_reason == ""
    answer = placements.locate(w.asked(pod))
    assert isinstance(answer, Undecided)
    assert w.board.lease is not None
    assert answer.reason == f"not the leader: the lease is held by {w.board.lease.holder}"
    with pytest.raises(BindRefused, match="not the leader"):
        w.run(placements.bind(w.asked(pod), "n0"))
    assert not placements.may_evict([pod.uid])


def test_standby_shows_what_the_leader_has_written(pair: MakePair) -> None:
    w = pair(node("n0"))
    leader(w).scheduler_ends()
    pods = gang(w, "g", 1000, 1000)
    w.advance(0.5)
    assert [w.now(pod).nominated for pod in pods] == ["n0", "n0"]
    (seen,) = [one for one in standby(w).controller.registry.gangs.values()]
    assert seen.state is GangState.COMMITTED
    assert {member.steered_to for member in seen.members.values()} == {"n0"}
    assert not standby(w).ledger.holdings
    gang(w, "h", 1000, size=3)
    gang(w, "i", 9000, size=1)
    w.advance(0.5)
    reasons = {key.name: str(one.reason) for key, one in standby(w).controller.registry.gangs.items()}
    assert reasons["h"] == "waiting for members (1 of 3 exist)"
    assert reasons["i"] == "waiting for the leader to place it; this replica stands by"


def test_committed_gang_is_completed_first_where_it_was_promised(pair: MakePair) -> None:
    w = pair(node("n0", cpu=2000), node("n1", cpu=2000))
    old = leader(w)
    old.scheduler_ends()
    rival = gang(w, "rival", *[1000] * 4, size=5)
    promised = gang(w, "promised", *[1000] * 4)
    w.advance(0.5)
    plan = [w.now(pod).nominated for pod in promised]
    assert all(plan)
    w.remove(old)
    # Whole now, and older: still it comes second.
    w.pod(
        "rival-4",
        labels={GROUP_LABEL: "rival"},
        annotations={GROUP_SIZE_ANNOTATION: "5"},
        requests=asks(10),
        gates=(GATE,),
    )
    w.advance(30)
    assert leader(w) is not old
    assert w.nodes_of(*promised) == plan
    assert bound(w, rival) == 0


def test_half_bound_gang_is_completed_by_the_next_leader(pair: MakePair) -> None:
    w = pair(node("n0", cpu=4000), node("n1", cpu=4000))
    w.cluster.delays["bind"] = 0.4
    pods = gang(w, "g", *[1000] * 8)
    old = leader(w)
    count = 0
    # Let some of the Bindings be slower than others, and kill between them.
    slow = w.cluster.bind

    async def bind(pod: Pod, where: str, annotations: Any) -> None:
        nonlocal count
        count += 1
        w.cluster.delays["bind"] = 0.1 * count
        await slow(pod, where, annotations)

    w.cluster.bind = bind  # type: ignore[method-assign, assignment]
    until(w, lambda: bound(w, pods) >= 3, 0.05)
    assert bound(w, pods) < 8
    old.link.break_off()
    w.remove(old)
    w.advance(40)
    assert bound(w, pods) == 8


def test_new_leader_waits_for_one_that_let_go_early_and_then_looks(pair: MakePair) -> None:
    w = pair(node("n0"))
    old, new = leader(w), standby(w)
    old.scheduler_stops()
    let_go = w.loop.time()
    until(w, lambda: new.leading)
    assert 3.5 <= w.loop.time() - let_go <= 5.0


def test_leader_that_learns_late_of_its_loss_writes_no_more_before_another_begins(pair: MakePair) -> None:
    w = pair(node("n0"))
    old, new = leader(w), standby(w)
    old.link.lag = 1.2
    w.advance(2.0)
    assert w.leading is old
    old.scheduler_ends(release=True)
    w.run(new.stand())
    let_go = w.loop.time()
    until(w, lambda: w.leading is not old)
    assert w.loop.time() - let_go <= 2.6
    until(w, lambda: new.leading)
    assert 3.5 <= w.loop.time() - let_go <= 5.0
    old.link.lag = 0.0


def test_partitioned_leader_stops_before_another_begins_and_writes_nothing_afterwards(pair: MakePair) -> None:
    w = pair(node("n0", cpu=2000), node("n1", cpu=2000))
    old = leader(w)
    gang(w, "before", 1000)
    w.advance(2)
    old.link.break_off()
    pods = gang(w, "g", *[1000] * 3)
    cut = w.loop.time()
    until(w, lambda: not old.leadership.leads)
    assert 1.9 <= w.loop.time() - cut <= 2.6
    until(w, lambda: not old.driver.leading)
    assert 7.0 <= w.loop.time() - cut <= 10.5
    assert w.leading is None
    until(w, lambda: w.leading is not None)
    assert 13.0 <= w.loop.time() - cut <= 21.0
    w.advance(10)
    assert bound(w, pods) == 3
    written = writes_of(w, old)
    old.link.heal()
    w.advance(20)
    assert written == []
    assert leader(w) is not old


def test_waits_at_the_barrier_fail_when_the_lead_is_lost(pair: MakePair) -> None:
    w = pair(node("n0"))
    old = leader(w)
    old.scheduler_ends()
    pods = gang(w, "g", 1000, 1000)
    w.advance(0.5)

    async def scene() -> str:
        waiting = asyncio.create_task(old.placements.bind(w.asked(pods[0]), "n0"))
        await asyncio.sleep(0.1)
        w.board.write("fluence-other_1")
        await asyncio.sleep(2.5)
        with pytest.raises(BindRefused) as told:
            await waiting
        return str(told.value)

    assert "not the leader: the lease is held by fluence-other_1" in w.run(scene())
    assert not old.ledger.holdings


def test_write_refused_in_a_moment_without_the_lead_is_made_after_another_look(pair: MakePair) -> None:
    w = pair(node("n0"))
    replica = leader(w)
    fence = replica.driver.fence
    renewed = fence._leadership

    class Lapsed:
        """Not leading when the first write is asked for, and again from then on."""

        why_not = "the lease hasn't been seen renewed lately"
        holds = False

        @property
        def leads(self) -> bool:
            fence._leadership = renewed
            return False

    fence._leadership = Lapsed()
    pods = gang(w, "g", 1000, 1000)
    until(w, lambda: not replica.leading, step=0.01)
    assert replica.leadership.leads
    until(w, lambda: bound(w, pods) == 2)
    assert replica.leading


def test_write_under_way_when_the_lead_is_lost_lands_where_the_next_leader_holds_it(pair: MakePair) -> None:
    w = pair(node("n0", cpu=1000), node("n1", cpu=1000))
    w.cluster.delays["bind"] = 12.0
    (pod,) = gang(w, "g", 1000, size=1)
    w.advance(1)
    old = leader(w)
    planned = w.now(pod).nominated
    assert planned
    # From its kube-scheduler nothing is heard any more, and so the nomination stays.
    old.scheduler.cluster = w.cluster
    w.board.write("fluence-other_1")
    w.advance(3)
    assert w.leading is None
    w.board.write("")
    others = gang(w, "h", 1000, size=1)
    w.advance(30)
    assert bound(w, [pod, *others]) == 2
    assert len(set(w.nodes_of(pod, *others))) == 2


def test_pods_deleted_and_bound_unseen_are_known_once_we_lead(pair: MakePair) -> None:
    w = pair(node("n0", cpu=3000))
    old, new = leader(w), standby(w)
    gone, kept = gang(w, "g", 1000, size=1)[0], gang(w, "k", 1000, size=1)[0]
    w.advance(3)
    # Its watch hangs: nothing is told, but it can ask.
    new.link._sinks.clear()
    w.cluster.remove(w.now(gone))
    (late,) = gang(w, "late", 2000, size=1)
    w.advance(3)
    assert bound(w, [late]) == 1
    assert gone.uid in new.ledger.holdings
    w.remove(old)
    w.advance(25)
    assert new.leading
    assert set(new.ledger.holdings) == {kept.uid, late.uid}


def test_observations_from_before_the_look_are_not_taken_for_news(pair: MakePair) -> None:
    w = pair(node("n0", cpu=3000))
    old, new = leader(w), standby(w)
    (sink,) = new.link._sinks[:1]
    queued: list[Any] = []
    new.link._sinks[0] = queued.append
    pods = gang(w, "g", 1000, 1000)
    w.advance(3)
    w.cluster.remove(w.now(pods[1]))
    w.remove(old)
    w.advance(25)
    assert set(new.ledger.holdings) == {pods[0].uid}
    for seen in queued:
        sink(seen)
        assert pods[1].uid not in new.controller.registry._gang_of
    w.advance(1)
    assert set(new.ledger.holdings) == {pods[0].uid}
    new.link._sinks[0] = sink


def test_gated_member_of_a_committed_gang_is_ungated_where_it_was_nominated(pair: MakePair) -> None:
    w = pair(node("n0", cpu=1000), node("n1", cpu=1000))
    old = leader(w)
    old.scheduler_ends()
    pods = gang(w, "g", 1000, 1000)
    w.advance(0.5)
    first, second = pods
    w.change(second, gates=(GATE,))
    w.remove(old)
    plan = [w.now(pod).nominated for pod in pods]
    w.advance(30)
    assert w.nodes_of(first, second) == plan


def test_rolling_update_leaves_every_gang_whole(pair: MakePair) -> None:
    w = pair(*[node(f"n{number}", cpu=4000) for number in range(4)])
    gangs: list[list[Pod]] = []
    for number in range(2):
        old = leader(w)
        gangs += [gang(w, f"a{number}-{one}", *[500] * 4) for one in range(3)]
        w.add()
        w.advance(0.02 + 0.05 * number)
        gangs.append(gang(w, f"b{number}", *[500] * 3))
        old.scheduler_ends(release=True)
        w.remove(old)
        w.advance(8)
        assert w.leading is not None
    w.advance(20)
    assert [bound(w, pods) for pods in gangs] == [len(pods) for pods in gangs]


def test_places_of_pods_that_a_job_lacks_are_held_once_by_the_next_leader(pair: MakePair) -> None:
    w = pair(node("n0"), node("n1"), direct=True)
    w.jobs.quota = 0
    job = w.jobs.submit("a", 3)
    w.advance(1)
    plan = w.cluster.job(job).nodes
    assert plan
    old = leader(w)
    old.scheduler_ends(release=True)
    w.remove(old)
    until(w, lambda: w.leading is not None)
    check_pair(w)
    assert sorted(held.assignment.node for held in w.ledger.holdings.values()) == sorted(plan)
    w.jobs.quota = None
    w.advance(3)
    assert tuple(w.jobs.nodes(job)) == plan


def test_nothing_is_decided_between_a_failed_take_over_and_the_next(
    pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = pair(node("n0"))
    old, new = leader(w), standby(w)
    old.scheduler_ends()
    pods = gang(w, "g", 1000, 1000)
    w.advance(0.5)
    preemption = new.controller.lifecycle.preemption
    take_over, tried = preemption.take_over, list[bool]()

    def fail_once() -> None:
        tried.append(True)
        if len(tried) == 1:
            raise RuntimeError("what nobody has thought of")
        take_over()

    monkeypatch.setattr(preemption, "take_over", fail_once)
    w.remove(old)
    with pytest.raises(RuntimeError):
        until(w, lambda: w.leading is new)
    w.crashes.clear()
    assert not new.driver.leading
    until(w, lambda: w.leading is new)
    assert len(tried) == 2
    until(w, lambda: bound(w, pods) == 2)


def test_unready_replica_does_not_lead(pair: MakePair) -> None:
    w = pair(node("n0"))
    new = standby(w)
    new.controller.started = False
    w.remove(leader(w))
    w.advance(25)
    assert w.leading is None
    new.controller.started = True
    w.advance(2)
    assert new.leading
    w.pod("p", requests=asks(1000, 1))
    w.advance(3)
    assert bound(w, [one for one in w.cluster.pods()]) == 1


def test_standby_keeps_nothing_of_gangs_that_have_gone() -> None:
    controller = Controller(
        EMBEDDED.ledger(), Limits(), clock=lambda: 0.0, calendar=lambda: 0.0, ports=Ports()
    )
    controller.leading = False
    controller.observe(Listed(Node, (node("n0"),)))
    controller.observe(Listed(Pod, ()))
    controller.start()
    for number in range(50):
        one = pod(f"p{number}")
        controller.observe(Changed(one))
        controller.step()
        controller.observe(Deleted(one))
        controller.step()
    assert not controller.registry.gangs
    assert not controller.registry.uncopied
