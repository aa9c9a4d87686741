"""A member that its kubelet rejects has never run: its gang isn't whole by it, and is completed or undone."""

from __future__ import annotations

from fluence_extender.model.gang import GangState
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from tests.core.values import PodFields, asks, node
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld, give_up

SIZE = 3


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


def reject(w: World, one: Pod) -> None:
    w.change(one, phase="Failed", rejected=True)


def evicted(w: World) -> set[str]:
    return {str(call[1]) for call in w.cluster.calls if call[0] == "evict"}


def test_gang_of_which_one_is_rejected_at_once_is_undone_in_time(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    assert w.gang("g").whole
    reject(w, pods[-1])
    w.advance(1)
    assert w.gang("g").state is GangState.COMMITTED
    assert not evicted(w)
    give_up(w)
    assert evicted(w) == {"default/g-0", "default/g-1"}


def test_start_after_a_rejection_takes_the_gang_for_whole_no_more(world: MakeWorld) -> None:
    w = world(node("n0"))
    pods = running(w)
    w.kill()
    reject(w, pods[-1])
    w.restart()
    give_up(w)
    assert evicted(w) == {"default/g-0", "default/g-1"}


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
    assert w.gang("g").whole
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
