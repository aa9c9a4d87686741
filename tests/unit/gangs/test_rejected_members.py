"""A member that its kubelet rejects is one that failed: its gang runs on, and says why it has too few members."""

from __future__ import annotations

from fluence_extender.api.values import moment
from fluence_extender.http.state.gangs import gang_shape
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.notation import format_time
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.values import PodFields, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, give_up

SIZE = 3
WHY = "OutOfcpu: Node didn't have enough resource: cpu"
REJECTED = f"kubelet rejected g-2 on n0 ({WHY})"


def create(w: World, *numbers: int) -> list[Pod]:
    """Members of these numbers of a gang of three."""
    said: PodFields = {
        "labels": {GROUP_LABEL: "g"},
        "annotations": {GROUP_SIZE_ANNOTATION: str(SIZE)},
        "gates": (GATE,),
        "requests": asks(1000, 1),
    }
    return [w.pod(f"g-{number}", **said) for number in numbers]


def running(w: World) -> list[Pod]:
    """A gang that is bound, and whose pods but for the last one have started."""
    pods = create(w, *range(SIZE))
    w.advance(3)
    for one in pods[:-1]:
        w.change(one, phase="Running", started=one.created + 2)
    return pods


def begun(world: MakeWorld) -> tuple[World, list[Pod]]:
    """Return a gang whose members are all bound except the last one."""
    w = world(node("n0"), scheduling=False)
    pods = create(w, *range(SIZE))
    w.advance(1)
    for one in pods[:-1]:
        w.change(one, node="n0", gates=())
    w.advance(1)
    assert w.gang("g").state is GangState.COMMITTED
    return w, pods


def reject(w: World, one: Pod) -> None:
    w.change(one, phase="Failed", rejection=WHY)


def evicted(w: World) -> set[str]:
    return {str(call[1]) for call in w.cluster.calls if call[0] == "evict"}


def test_gang_of_which_one_is_rejected_at_once_runs_on(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    assert w.gang("g").was_complete
    reject(w, pods[-1])
    w.advance(1)
    assert w.gang("g").state is GangState.COMMITTED
    give_up(w)
    w.restart()
    give_up(w)
    assert not evicted(w)


def test_gang_is_whole_once_the_rejected_member_is_replaced(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    reject(w, pods[-1])
    w.advance(10)
    create(w, 3)
    w.advance(3)
    assert w.gang("g").state is GangState.BOUND
    w.cluster.remove(w.now(pods[0]))
    give_up(w)
    assert w.gang("g").was_complete
    assert not evicted(w)


def test_rejected_replacement_does_not_endanger_a_whole_gang(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    w.change(pods[-1], phase="Running", started=pods[-1].created + 2)
    w.advance(60)
    w.cluster.remove(w.now(pods[-1]))
    (late,) = create(w, 3)
    w.advance(3)
    reject(w, late)
    give_up(w)
    w.restart()
    give_up(w)
    assert not evicted(w)


def test_rejection_of_an_earlier_life_is_forgotten(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    reject(w, pods[-1])
    for one in pods[:-1]:
        w.cluster.remove(w.now(one))
    w.advance(10)
    again = create(w, 3, 4, 5)
    w.advance(3)
    for one in again:
        w.change(one, phase="Running", started=one.created + 2)
    w.cluster.remove(w.now(again[0]))
    give_up(w)
    w.restart()
    give_up(w)
    assert not evicted(w)


def events(w: World, code: str) -> list[str]:
    """On whom Events of that reason are, each with its message."""
    return [f"{one.regarding.name}: {one.message}" for one in w.cluster.events if one.reason == code]


def test_reason_names_the_rejected_pod_at_once(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    reject(w, pods[-1])
    w.advance(0.1)
    reason, shown = w.gang("g").reason, gang_shape(w.gang("g"), EVERYTHING)
    assert reason == Reason(ReasonCode.REJECTED, f"{REJECTED}; another pod has to take its place")
    assert (shown.state, shown.why, shown.reason) == ("committed", "Rejected", str(reason))
    w.advance(5)
    assert w.gang("g").reason == reason
    assert events(w, "Rejected") == [f"g-2: gang default/g: {reason}"]


def test_evicted_members_are_told_of_the_rejection_and_not_of_the_time_that_was_left(
    world: MakeWorld,
) -> None:
    w, pods = begun(world)
    reject(w, pods[1])
    w.advance(1)
    reason, shown = w.gang("g").reason, gang_shape(w.gang("g"), EVERYTHING)
    rejected = f"kubelet rejected g-1 on n0 ({WHY}); another pod has to take its place"
    risk = "1 of 3 member is bound and evicted unless the gang is completed within 25 s"
    assert reason == Reason(ReasonCode.REJECTED, f"{rejected}; {risk}")
    since = w.gang("g").incomplete_since
    assert since is not None
    assert shown.reason == f"{reason}; the time to complete it ends at {format_time(moment(since + 25))}"
    give_up(w)
    what = f"gang default/g could not be completed within 25 s: {rejected}"
    assert {told.split(": ", 1)[1] for told in events(w, "Evicted")} == {what}


def test_reason_goes_once_another_pod_takes_the_place(world: MakeWorld) -> None:
    w = world(node("n0"))
    reject(w, running(w)[-1])
    w.advance(1)
    create(w, 3)
    w.advance(3)
    shown = gang_shape(w.gang("g"), EVERYTHING)
    assert (shown.state, shown.reason, w.gang("g").undone_about) == ("bound", "", None)


def test_several_rejected_pods_are_counted(world: MakeWorld) -> None:
    w = world(node("n0"))
    for one in reversed(running(w)[1:]):
        reject(w, one)
        w.advance(0.1)
    reason = w.gang("g").reason
    assert reason is not None
    assert reason.text.startswith(f"kubelet rejected g-1 on n0 ({WHY}), and 1 more; another pod")


def test_restart_says_the_same_of_a_rejected_pod(world: MakeWorld) -> None:
    w = world(node("n0"))
    reject(w, running(w)[-1])
    w.advance(3)
    reason = w.gang("g").reason
    w.restart()
    w.advance(1)
    assert w.gang("g").reason == reason


def test_gang_that_loses_a_pod_before_it_is_whole_says_so(world: MakeWorld) -> None:
    w, pods = begun(world)
    w.cluster.remove(w.now(pods[-1]))
    w.advance(3)
    text = "waiting for members (2 of 3 exist); 2 of 3 members are bound and evicted unless the gang is completed"
    reason = w.gang("g").reason
    assert reason == Reason(ReasonCode.WAITING_FOR_MEMBERS, f"{text} within 25 s")
    assert [told.partition(":")[0] for told in events(w, "WaitingForMembers")] == ["g-0", "g-1"]


def test_gang_of_which_all_are_rejected_says_why(world: MakeWorld) -> None:
    w = world(node("n0"))
    for one in reversed(running(w)):
        reject(w, one)
    w.advance(3)
    shown = gang_shape(w.gang("g"), EVERYTHING)
    assert shown.state == "finished"
    assert shown.reason == f"kubelet rejected g-0 on n0 ({WHY}), and 2 more"


def test_gang_that_waits_for_members_again_names_the_rejected_one(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    for one in pods:
        reject(w, one)
    create(w, 3)
    w.advance(3)
    shown = gang_shape(w.gang("g"), EVERYTHING)
    assert (
        shown.reason == f"waiting for members (1 of 3 exist); kubelet rejected g-0 on n0 ({WHY}), and 2 more"
    )


def test_pod_group_is_not_scheduled_while_the_rejected_pod_is_missing(world: MakeWorld) -> None:
    w = world(node("n0"), PodGroup("default", "g", "g", 2))
    said: PodFields = {"group": "g", "gates": (GATE,), "requests": asks(1000, 1)}
    first, second = (w.pod(f"g-{number}", **said) for number in range(2))
    w.advance(3)
    assert w.cluster.reports["default", "g"][:2] == (True, "Scheduled")
    w.change(first, phase="Running", started=first.created + 2)
    reject(w, second)
    w.advance(3)
    scheduled, code, message = w.cluster.reports["default", "g"]
    assert (scheduled, code) == (False, "Rejected")
    assert message.startswith(f"kubelet rejected g-1 on n0 ({WHY})")
    w.pod("g-2", **said)
    w.advance(3)
    assert w.cluster.reports["default", "g"][:2] == (True, "Scheduled")
