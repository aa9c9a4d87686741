"""The chaos benchmark's script is a function of its seed, and its checks see what they are for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.chaos.accidents import parts
from benchmarks.chaos.agenda import Agenda
from benchmarks.chaos.deeds import (
    BRIEF,
    GROUPED,
    Accident,
    Create,
    Cut,
    Delete,
    Form,
    Hit,
    How,
    Moment,
    NodeChange,
    Process,
    Ungroup,
    Wipe,
    kind_of,
)
from benchmarks.chaos.quiet import made_smaller
from benchmarks.chaos.renewal import KEPT, NotYet, Renewal
from benchmarks.chaos.script import NODES, POOLS, pool_of, script
from benchmarks.chaos.story import Story
from benchmarks.chaos.truth import (
    devices_held_twice,
    half_placed,
    outside_their_pool,
    overfull,
    refused_and_left,
    waiting_although_it_fits,
)
from benchmarks.chaos.witness import Witness
from benchmarks.chaos.workloads import POOL, WORKLOAD, manifests
from fluence_extender.localcluster import ApiError
from fluence_extender.model.names import ALLOCATION_ANNOTATION

GANG = Create("w1", Form.LABELLED, 2, 1000)


def member(
    number: int, node: str = "", phase: str = "Running", gang: Create = GANG, **status: str
) -> dict[str, Any]:
    one = [pod for pod in manifests(gang) if pod["kind"] == "Pod"][number]
    one["metadata"]["uid"] = f"u{number}"
    one["spec"]["nodeName"] = node
    one["status"] = {"phase": phase if node else "Pending", **status}
    return one


def node(name: str, cpu: int = 4, pool: str = "") -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {POOL: pool}},
        "spec": {},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}, "conditions": ready},
    }


@pytest.mark.parametrize("replicas", [1, 2])
def test_same_seed_gives_the_same_script(replicas: int) -> None:
    assert script(7, 50, replicas) == script(7, 50, replicas)
    assert script(7, 50, replicas) != script(8, 50, replicas)


def test_script_has_as_many_disturbances_as_asked_and_deletes_only_what_was_created() -> None:
    deeds = [step.deed for played in script(3, 200, 2) for step in played.steps]
    assert sum(isinstance(deed, Accident) for deed in deeds) == 200
    assert {deed.replica for deed in deeds if isinstance(deed, Hit)} == {0, 1}
    created: set[str] = set()
    for deed in deeds:
        if isinstance(deed, Create):
            created.add(deed.name)
        elif isinstance(deed, Delete):
            assert deed.name in created
    assert {
        form for form in Form if any(isinstance(deed, Create) and deed.form is form for deed in deeds)
    } == set(Form)


def test_who_is_deleted_with_the_namespace_or_loses_its_pod_group_is_alive_until_then() -> None:
    deeds = [step.deed for played in script(4, 400, 2) for step in played.steps]
    alive: dict[str, Create] = {}
    for deed in deeds:
        match deed:
            case Create():
                alive[deed.name] = deed
            case Delete():
                assert deed.name in alive
                if not deed.one:
                    del alive[deed.name]
            case Wipe():
                alive = {name: one for name, one in alive.items() if one.namespace != BRIEF}
            case Ungroup():
                assert alive[deed.name].form in GROUPED
    for kind in (Wipe, Ungroup):
        assert any(isinstance(deed, kind) for deed in deeds)


def test_replica_that_is_hit_loses_both_its_processes() -> None:
    both = (Process.EXTENDER, Process.SCHEDULER)
    hit = Hit(Process.REPLICA, How.KILL, 3.0, 1, Moment.PART)
    assert parts(hit) == tuple(Hit(one, How.KILL, 3.0, 1, Moment.PART) for one in both)
    assert parts(Cut(Process.REPLICA, 4.0)) == tuple(Cut(one, 4.0) for one in both)
    assert parts(Wipe()) == (Wipe(),)
    assert kind_of(hit) == "replica: SIGKILL once a gang is bound in part"
    assert kind_of(Hit(Process.ETCD, How.STOP, 1.0)) == "etcd: SIGTERM"


def test_nodes_are_in_pools_of_one_size() -> None:
    pools = [pool_of(name) for name in NODES]
    assert {pools.count(pool) for pool in POOLS} == {len(NODES) // len(POOLS)}


def test_what_ended_by_itself_is_revived_where_nothing_else_is_left_to_do() -> None:
    revived: list[bool] = []
    agenda = Agenda(Story(aloud=False), lambda: revived.append(True))
    due: list[str] = []

    def launch() -> None:
        assert not revived
        due.append("launched")

    def ask() -> None:
        if not revived:
            raise ApiError("GET", "/", 0, "", "no answer")
        due.append("asked")

    agenda.later(0.0, "a", "a", ask)
    agenda.later(0.1, "b", "b", launch)
    agenda.mend()
    assert due == ["launched", "asked"]


class Shelf:
    """An API server that has one object, which takes a while to go."""

    def __init__(self) -> None:
        self.object: dict[str, Any] | None = {"uid": "a"}

    def get(self, path: str) -> dict[str, Any]:
        if self.object is None:
            raise ApiError("GET", path, 404, "NotFound", "")
        return {"metadata": self.object}

    def delete(self, path: str) -> None:
        assert self.object is not None
        self.object["deletionTimestamp"] = "now"

    def request(self, verb: str, path: str, body: object) -> None:
        assert (verb, self.object) == ("POST", None)
        self.object = {"uid": "b"}


@pytest.mark.parametrize("wanted", [True, False])
def test_what_is_renewed_is_made_anew_once_the_former_is_gone(wanted: bool) -> None:
    shelf = Shelf()
    renewal = Renewal(shelf, "/things", {"metadata": {"name": "x"}}, lambda: wanted)  # type: ignore[arg-type]
    renewal.begin()
    if not wanted:
        renewal.go_on()
        assert shelf.object == {"uid": "a"}
        return
    for _ in range(2):
        with pytest.raises(NotYet, match="/things/x"):
            renewal.go_on()
        assert shelf.object == {"uid": "a", "deletionTimestamp": "now"}
    shelf.object = None
    for _ in range(2):
        renewal.go_on()
        assert shelf.object == {"uid": "b"}


def test_what_a_finalizer_keeps_is_not_waited_for_for_ever() -> None:
    shelf, now = Shelf(), [0.0]
    renewal = Renewal(shelf, "/things", {"metadata": {"name": "x"}}, lambda: True, clock=lambda: now[0])  # type: ignore[arg-type]
    renewal.begin()
    shelf.object = {"uid": "a", "deletionTimestamp": "now", "finalizers": ["example.com/kept"]}
    for now[0] in (5.0, KEPT + 4.0):
        with pytest.raises(NotYet):
            renewal.go_on()
    now[0] = KEPT + 5.0
    renewal.go_on()
    assert shelf.object["uid"] == "a"


@pytest.mark.parametrize("form", list(Form))
def test_every_pod_of_a_workload_carries_its_name(form: Form) -> None:
    for one in manifests(Create("w1", form, 3, 500, 2)):
        if one["kind"] != "PodGroup":
            template = one["spec"]["template"] if one["kind"] == "Job" else one
            assert template["metadata"]["labels"][WORKLOAD] == "w1"


def test_half_placed_gang_is_found_unless_it_was_whole() -> None:
    wanted = {"w1": GANG}
    assert half_placed(wanted, [member(0, "n0"), member(1)], set())
    assert half_placed(wanted, [member(0, "n0")], set())
    assert not half_placed(wanted, [member(0, "n0"), member(1)], {"w1"})
    assert not half_placed(wanted, [member(0), member(1)], set())
    assert not half_placed(wanted, [member(0, "n0"), member(1, "n0", "Succeeded")], set())


def test_gang_that_runs_on_without_a_refused_member_is_found() -> None:
    refused = member(1, "n0", "Failed", reason="OutOfcpu")
    assert refused_and_left({"w1": GANG}, [member(0, "n0"), refused])
    assert not refused_and_left({"w1": GANG}, [member(0), refused])


def test_room_that_is_given_twice_is_found() -> None:
    pods = [member(0, "n0"), member(1, "n0")]
    assert not overfull({"n0": node("n0", 2)}, pods, ())
    assert overfull({"n0": node("n0", 1)}, pods, ())
    assert not overfull({"n0": node("n0", 1)}, pods, {"n0"})
    for pod in pods:
        pod["metadata"]["annotations"][ALLOCATION_ANNOTATION] = (
            '{"devices": [{"path": "/cluster/a", "type": "qpu", "amount": 1}]}'
        )
    assert devices_held_twice(pods) == ["device /cluster/a is held by ['w1-0', 'w1-1']"]


def test_node_that_grew_for_a_while_was_made_smaller() -> None:
    done = {"n0": [NodeChange.GROW], "n1": [NodeChange.TAINT], "n2": [NodeChange.CORDON, NodeChange.SHRINK]}
    assert made_smaller(done) == {"n0", "n2"}


def test_gang_that_waits_although_it_fits_is_found() -> None:
    waiting = [member(0), member(1)]
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, waiting)
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 1)}, waiting)
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, waiting[:1])


def test_gang_of_one_pool_waits_for_room_there() -> None:
    nodes = {"n0": node("n0", 1, "red"), "n1": node("n1", 2, "blue")}
    for gang, waits in (
        (replace(GANG, form=Form.POOL, pool="red"), True),
        (replace(GANG, form=Form.POOL, pool="blue"), False),
        (replace(GANG, form=Form.PACKED, members=3), True),
        (replace(GANG, form=Form.PACKED), False),
        (replace(GANG, members=3), False),
    ):
        waiting = [member(number, gang=gang) for number in range(gang.members)]
        assert bool(waiting_although_it_fits({"w1": gang}, nodes, waiting)) is not waits


def test_pod_outside_its_pool_is_found() -> None:
    nodes = {"n0": node("n0", 4, "red"), "n1": node("n1", 4, "blue")}
    red, packed = replace(GANG, form=Form.POOL, pool="red"), replace(GANG, form=Form.PACKED)
    for gang, places, found in (
        (red, ("n0", "n0"), []),
        (red, ("n0", "n1"), ["u1"]),
        (packed, ("n1", "n1"), []),
        (packed, ("n0", "n1"), ["u1"]),
        (packed, ("n1", ""), []),
        (GANG, ("n0", "n1"), []),
    ):
        pods = [member(number, place, gang=gang) for number, place in enumerate(places)]
        assert list(outside_their_pool({"w1": gang}, nodes, pods)) == found


def test_moments_of_a_gang_under_way_are_seen() -> None:
    witness = Witness(api=None, sizes={"w1": 2})  # type: ignore[arg-type]
    gated, passed = member(0), member(1)
    gated["spec"]["schedulingGates"] = [{"name": "x"}]
    seen = []
    for pod in (gated, passed, member(1, "n0"), member(0, "n0")):
        witness.take("MODIFIED", pod)
        seen.append((witness.now_is(Moment.PASSED), witness.now_is(Moment.PART)))
    assert seen == [(False, False), (True, False), (False, True), (False, False)]
    assert witness.now_is(Moment.ANY)


def test_gang_that_fits_only_in_parts_of_cores_waits_for_an_engine_that_counts_whole_ones() -> None:
    small = [member(0), member(1)]
    for pod in small:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 1)}, small)
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 1)}, small, 1000)
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, small, 1000)
    bound = member(0, "n0")
    bound["metadata"]["labels"][WORKLOAD] = "w2"
    bound["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, [*small, bound], 1000)
    bound["spec"]["schedulerName"] = "default-scheduler"
    assert not waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 2)}, [*small, bound], 1000)
    assert waiting_although_it_fits({"w1": GANG}, {"n0": node("n0", 3)}, [*small, bound], 1000)


def test_gang_was_whole_once_all_were_bound_until_none_is() -> None:
    witness = Witness(api=None, sizes={"w1": 2})  # type: ignore[arg-type]
    witness.take("ADDED", member(0, "n0"))
    assert not witness.whole
    witness.take("MODIFIED", member(1, "n0"))
    witness.take("DELETED", member(1, "n0"))
    assert witness.whole == {"w1"}
    witness.take("DELETED", member(0, "n0"))
    assert not witness.whole
