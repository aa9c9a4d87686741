"""The rows that pages are made of, from the JSON of ``/v1``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fluence_extender.apps.kubectl.why import explanation
from fluence_extender.dashboard.state import ClusterState, changes_between
from fluence_extender.dashboard.views import commands, links
from fluence_extender.dashboard.views.devices import devices_view
from fluence_extender.dashboard.views.filters import PAGE, Filters, cut
from fluence_extender.dashboard.views.gangs import gang_story, gangs_view
from fluence_extender.dashboard.views.nodes import MOST_TILES, STEPS, node_story, nodes_view, step_of
from fluence_extender.dashboard.views.overview import overview
from fluence_extender.dashboard.views.quantum import quantum_rows
from fluence_extender.dashboard.views.queue import queue_view, timeline
from fluence_extender.dashboard.views.search import search
from fluence_extender.dashboard.views.whatif import what_if
from tests.network.state_api import Document, device, entry, gang, node, queue, story

NOW = datetime(2026, 6, 30, 13, tzinfo=UTC)
ALL = Filters({})


def later(minutes: float) -> str:
    return (NOW + timedelta(minutes=minutes)).isoformat()


def test_filters_choose_by_value_and_by_text() -> None:
    state = ClusterState(1, NOW, gangs=[gang("a"), gang("b", "bound"), gang("c", namespace="other")])

    def names(**given: str) -> list[str]:
        return [row.name for row in gangs_view(state, Filters(given)).rows.rows]

    assert names() == ["a", "b", "c"]
    assert names(state="waiting") == ["a", "c"]
    assert names(namespace="other") == ["c"]
    assert names(text="SHORT of cpu", namespace="lab") == ["a"]
    assert names(text="b-1") == ["b"]


@pytest.mark.parametrize(
    ("page", "first", "number"), [("", 0, 1), ("2", PAGE, 2), ("9", 2 * PAGE, 3), ("-1", 0, 1), ("²", 0, 1)]
)
def test_long_tables_have_pages(page: str, first: int, number: int) -> None:
    found = cut(({"n": n} for n in range(2 * PAGE + 1)), lambda item: item["n"], Filters({"page": page}).page)
    assert (found.rows[0], found.number, found.pages, found.total) == (first, number, 3, 2 * PAGE + 1)


def test_address_has_only_filters_with_a_value() -> None:
    assert Filters({"a": "x y", "page": "2"}).address("/gangs", page="", b="&") == "/gangs?a=x+y&b=%26"


def test_names_lead_nowhere_else() -> None:
    assert links.gang("lab", "../../nodes?x#y", "group") == (
        "/gangs/lab/..%2F..%2Fnodes%3Fx%23y?convention=group"
    )
    assert commands.why("lab", "a; rm -rf ~") == "kubectl fluence why 'a; rm -rf ~' -n lab"


def test_overview_sums_nodes_and_devices() -> None:
    nodes = [node("n1", 4), node("n2", 1, others={"cpu": 1.5}), node("gone", 9, allocatable={})]
    found = overview(ClusterState(1, NOW, nodes=nodes, devices=[device("a", held=1, free=0), device("b")]))
    cpu, memory, qpu = found.resources
    assert (cpu.name, cpu.held, cpu.others, cpu.text) == ("cpu", 5 / 8, 1.5 / 8, "6.5 of 8")
    assert (memory.name, memory.text) == ("memory", "0 of 16Gi")
    assert (qpu.name, qpu.text, qpu.link) == ("qpu", "1 of 2", "/devices?type=qpu")


def test_changes_are_states_that_differ() -> None:
    before = [gang("a"), gang("b"), gang("c")]
    after = [gang("a", "bound"), gang("b", reason="other words"), gang("new")]
    assert {(one.name, one.before, one.after) for one in changes_between(before, after, NOW)} == {
        ("a", "waiting", "bound"),
        ("c", "waiting", ""),
        ("new", "", "waiting"),
    }


def test_gang_is_explained_as_on_the_command_line() -> None:
    waits = story(gang("a"), fitting=1, lacking=["cpu"])
    found = gang_story(waits, ClusterState(1, NOW, nodes=[node("n1", 1)]))
    assert "asks      2 members of 2 cpu" in found.facts
    assert "fits now  1 of 2 by these amounts: n1 (1)" in found.facts
    assert "would fit 2 with at most 1500m cpu each" in found.facts
    assert [member.pod for member in found.members] == ["a-0", "a-1"]
    assert [one.what for one in found.history] == ["seen"]


def test_line_keeps_its_order_and_its_places() -> None:
    line = [entry(gang("b"), position=1), entry(gang("a"), position=2, queue="chemistry")]
    state = ClusterState(1, NOW, line=line, queues=[queue("physics"), queue("chemistry")])
    assert [row.name for row in queue_view(state, ALL).rows.rows] == ["b", "a"]
    found = queue_view(state, Filters({"queue": "chemistry"}))
    assert [(row.position, row.name) for row in found.rows.rows] == [(2, "a")]
    assert [row.name for row in found.queues] == ["chemistry"]
    assert found.command == "kubectl fluence queue show chemistry -A"


def test_timeline_shows_what_runs_what_is_reserved_and_what_is_expected() -> None:
    runs = gang("runs", "bound", created=later(-60))
    waits, hopes = gang("waits"), gang("hopes", expected_start=later(30))
    reserved: Document = {
        "kind": "gang",
        "namespace": "lab",
        "name": "waits",
        "start": later(10),
        "end": later(20),
    }
    reserved |= {"count": 2, "nodes": ["n1", "n2"], "queues": [], "reason": ""}
    closed = {**reserved, "kind": "reservation", "namespace": "", "name": "firmware", "reason": "updates"}
    line = [entry(waits, expected_start=later(10)), entry(hopes)]
    found = timeline([runs], line, [reserved, closed], NOW)
    kinds = [(span.name, span.kind, span.open) for span in found.spans]
    assert kinds == [
        ("lab/runs", "running", True),
        ("lab/waits", "reserved", False),
        ("lab/hopes", "expected", True),
        ("Reservation firmware (updates)", "closed", False),
    ]
    running, kept, expected, _ = found.spans
    assert (running.left, running.right) == (0.0, found.now)
    assert found.now < kept.left < kept.right < expected.left < expected.right == 1.0


def test_timeline_tells_backfill_and_when_what_runs_ends() -> None:
    older, filler = gang("older", created=later(-30)), gang("filler", "bound", created=later(-20))
    filler |= {"started": later(-10), "expected_end": later(5)}
    before = gang("before", "bound", created=later(-40), started=later(-40))
    line = [entry(older, expected_start=later(10))]
    found = timeline([before, filler], line, [], NOW)
    first, second, third = found.spans
    assert [(one.name, one.kind) for one in found.spans] == [
        ("lab/before", "running"),
        ("lab/filler", "ahead"),
        ("lab/older", "expected"),
    ]
    assert first.right == found.now
    assert first.left < second.left < found.now < second.right < third.left
    assert [one.kind for one in timeline([filler], [entry(older)], [], NOW).spans] == ["running"]


def test_map_goes_by_zone_and_rack_and_tells_closed_from_full() -> None:
    nodes = [
        node("n10", 4),
        node("n2"),
        node("n3", 1, levels={"zone": "z1", "rack": "r2"}, schedulable=False, problems=["cordoned"]),
    ]
    found = nodes_view(ClusterState(1, NOW, nodes=nodes), ALL)
    assert [(place.name, [tile.name for tile in place.tiles]) for place in found.places] == [
        ("cluster", []),
        ("zone z1", []),
        ("rack r1", ["n2", "n10"]),
        ("rack r2", ["n3"]),
    ]
    steps = {tile.name: tile.step for place in found.places for tile in place.tiles}
    assert steps == {"n2": 0, "n10": STEPS, "n3": -1}
    inside = nodes_view(ClusterState(1, NOW, nodes=nodes), Filters({"in": "z1/r2"}))
    assert [row.name for row in inside.rows.rows] == ["n3"]
    assert inside.within == [("z1", "/nodes?in=z1"), ("r2", "/nodes?in=z1%2Fr2")]


def test_map_of_a_large_cluster_has_racks_instead_of_nodes() -> None:
    nodes = [node(f"n{n}", 1, levels={"zone": "z1", "rack": f"r{n % 40}"}) for n in range(MOST_TILES + 40)]
    found = nodes_view(ClusterState(1, NOW, nodes=nodes), ALL)
    assert sum(len(place.tiles) for place in found.places) == 40


def test_colors_tell_empty_and_full_from_the_rest() -> None:
    assert [step_of(used) for used in (0, 0.001, 0.5, 0.99, 1)] == [0, 1, 3, 4, STEPS]


def test_node_says_why_nothing_new_lands() -> None:
    pods = [
        {
            "namespace": "lab",
            "pod": "p",
            "uid": "u",
            "gang": "",
            "user": "",
            "claim": "other",
            "requests": {"cpu": 4},
        }
    ]
    full = {**node("n1", 4, problems=["cordoned"], schedulable=False), "pods": pods, "hidden": 0}
    kept = {"kind": "gang", "namespace": "lab", "name": "waits", "nodes": ["n1"]}
    found = node_story(full, [kept])
    assert found.why_closed == ["cordoned", "no cpu is free", "kept free for gang lab/waits"]
    assert [(one.pod, one.gang, one.requests) for one in found.pods] == [("p", "", "4 cpu")]


def test_devices_are_found_by_attribute_and_by_use() -> None:
    held = {"namespace": "lab", "pod": "p", "gang": "g", "path": "/cluster/a", "amount": 1, "claim": "bound"}
    devices = [device("a", held=1, free=0, holders=[held, held]), device("b", attributes={"vendor": "iqm"})]
    state = ClusterState(1, NOW, devices=devices)

    def names(**given: str) -> list[str]:
        return [row.name for row in devices_view(state, Filters(given)).rows.rows]

    assert names(text="vendor=iqm") == ["b"]
    assert names(show="held") == ["a"]
    (row,) = devices_view(state, Filters({"show": "held"})).rows.rows
    assert [(holder.text, holder.link) for holder in row.holders] == [("lab/p", "/gangs/lab/g")]


def test_quantum_jobs_show_their_task_and_in_step_the_pods_that_wait_for_it() -> None:
    status = {"task": "t-7", "status": "queued, position 3"}
    makes = gang("vqe-producer", "bound", quantum={"role": "producer", "partner": "vqe", **status})
    makes["members"][0]["backend"] = "ibm_fez"
    waits = {"role": "consumer", "partner": "vqe-producer", "task": "", "status": "waits"}
    alone = {"role": "observed", "partner": "", **status}
    gangs = [makes, gang("vqe", quantum=waits), gang("watched", quantum=alone), gang("other")]
    state = ClusterState(1, NOW, gangs=gangs)
    first, second = quantum_rows(state, ALL)
    assert (first.name, first.backends, first.task, first.status) == (
        "lab/vqe-producer",
        "ibm_fez",
        "t-7",
        "queued, position 3",
    )
    assert (first.consumers, first.consumers_state) == ("lab/vqe (2 pods)", "waiting")
    assert (second.name, second.consumers) == ("lab/watched", "")
    assert [row.name for row in quantum_rows(state, Filters({"backend": "ibm_fez"}))] == [first.name]
    told = list(explanation(story(makes), [], [], False))
    assert "  task      t-7: queued, position 3; its consumers are gang vqe" in told


def test_search_finds_gangs_pods_nodes_devices_queues_and_users() -> None:
    runs = gang("runs-x", "bound")
    state = ClusterState(
        1,
        NOW,
        gangs=[runs, gang("other", members=[{"pod": "x-0", "uid": "", "node": "", "backend": ""}])],
        queues=[queue("xenon")],
        line=[entry(gang("other"), user="alex")],
        nodes=[node("x1"), node("n2")],
        devices=[device("ibm_x")],
    )
    assert {(hit.kind, hit.name) for hit in search(state, " X ")} == {
        ("gang", "lab/runs-x"),
        ("pod", "lab/x-0"),
        ("queue", "xenon"),
        ("user", "alex"),
        ("node", "x1"),
        ("device", "/cluster/ibm_x"),
    }
    assert search(state, "  ") == []


def test_answer_to_a_question_is_told_gang_by_gang() -> None:
    fits = {
        "gang": "lab/a",
        "members": 2,
        "fits": True,
        "reason": "",
        "placement": [{"node": "n1", "backend": ""}],
    }
    fits |= {"earliestStart": None, "preemption": None, "reductions": []}
    busy = {**fits, "gang": "lab/b", "fits": False, "reason": "busy: short of cpu", "placement": []}
    found = what_if({"fits": False, "gangs": [fits, busy], "ignored": ["Service lab/x"], "notes": []})
    assert [(gang.title, gang.fits, list(gang.lines)) for gang in found.gangs] == [
        ("lab/a (2 pods): fits now", True, ["on n1"]),
        ("lab/b (2 pods): doesn't fit now", False, ["busy: short of cpu"]),
    ]
    assert found.notes == ["Service lab/x was left out: nothing is known of pods that it makes"]
