"""What-if: whether gangs fit, where, when at the earliest, and with how much less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.apps.kubectl.simulate import answer_lines
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.pod import HostPort
from fluence_extender.model.reason import ReasonCode
from fluence_extender.model.resources import MEMORY, Resources
from fluence_extender.whatif.result_json import results_as_json
from tests.core.values import GIB, node, pod
from tests.unit.whatif.conftest import NOW, RACK, Cluster, job

DEVICES = "resources: [{type: qpu, name: fez}, {type: qpu, name: ankaa}]"


def test_gang_that_fits_gets_its_places_in_the_order_of_ranks(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    (answer,) = there.ask(job("small", 4, "2"))
    assert answer.fits
    assert [(name, one.node) for name, one in answer.placed] == [
        ("small-0", "n0"),
        ("small-1", "n0"),
        ("small-2", "n1"),
        ("small-3", "n1"),
    ]


def test_gang_that_fits_leaves_less_capacity_to_the_next(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    first, second = there.ask(job("first", 3, "1"), job("second", 2, "1"))
    assert (first.fits, second.fits) == (True, False)
    assert second.reason is not None
    assert second.reason.text.startswith("busy: 1 of 2 fit now")


def test_gang_that_does_not_fit_starts_when_enough_pods_have_ended(cluster: type[Cluster]) -> None:
    there = cluster([node("n0"), node("n1")])
    there.run([pod("a", 4000)], until=600)
    there.run([pod("b", 2000)], until=60)
    there.run([pod("c", 1000)])
    (answer,) = there.ask(job("wide", 3, "2"))
    assert answer.earliest == NOW + 600
    (smaller,) = there.ask(job("two", 2, "2"))
    assert smaller.earliest == NOW + 60 or smaller.earliest == NOW + 600
    (never,) = there.ask(job("all", 4, "2"))
    assert never.earliest is None


def test_reductions_are_the_largest_that_fit_now(cluster: type[Cluster]) -> None:
    there = cluster([node("n0", 4000, 8), node("n1", 4000, 8)])
    there.run([pod("other", 1000, 1)])
    (answer,) = there.ask(job("wide", 4, "2", "2Gi"))
    assert {one.what: one.fitting for one in answer.reductions} == {"members": "3", "cpu": "1500m cpu"}
    texts = [one.text for one in answer.reductions]
    assert texts == ["3 of 4 members fit", "all 4 fit with 1500m cpu each, not 2 cpu"]


def test_reductions_are_exact_and_never_zero(cluster: type[Cluster]) -> None:
    there = cluster([node("n0", 1000, 8)])
    there.run([pod("other", 500, 1)])
    (answer,) = there.ask(job("wide", 6, "125m"))
    assert {one.what: one.fitting for one in answer.reductions} == {"members": "4", "cpu": "83m cpu"}
    there.run([pod("rest", 500, 1)])
    (answer,) = there.ask(job("wide", 6, "125m"))
    assert answer.reductions == ()


def test_reductions_can_be_written_into_a_manifest_as_they_are(cluster: type[Cluster]) -> None:
    there = cluster([node("n0", 4000, 8)])
    there.run([replace(pod("other"), requests=Resources({MEMORY: 8 * GIB - 5000 * 2**20}))])
    (answer,) = there.ask(job("big", 1, "1", "5001Mi"))
    (less,) = answer.reductions
    assert (less.wanted, less.fitting) == ("5001Mi memory", "5000Mi memory")
    assert less.text == "it fits with 5000Mi memory, not 5001Mi memory"
    assert there.ask(job("big", 1, "1", less.fitting.split()[0]))[0].fits


def test_huge_pages_are_reduced_by_whole_pages(cluster: type[Cluster]) -> None:
    pages = "hugepages-2Mi"
    large = replace(node("n0"), allocatable=node("n0").allocatable + Resources({pages: 10 * 2**20}))
    wanted = {pages: "6Mi"}
    (answer,) = cluster([large]).ask(job("big", 2, "1", requests=wanted, limits=wanted))
    assert [one.text for one in answer.reductions if one.what == pages] == [
        f"all 2 fit with 4Mi {pages} each, not 6Mi {pages}"
    ]


def test_mixed_members_that_do_not_fit_are_named(cluster: type[Cluster]) -> None:
    there = cluster([node("n0", 4000)])
    (answer,) = there.ask(*(member(number, cpu) for number, cpu in enumerate("31311")))
    assert answer.reductions[0].text == "3 of 5 members fit, without mixed-0, mixed-2"
    assert answer.reductions[0].fitting == "3"
    assert answer.reason is not None
    assert answer.reason.text.startswith("unsatisfiable: 3 of 5 members")
    assert answer.reductions[1].text == "all 5 fit with at most 800m cpu each, not 3 cpu"


def member(number: int, cpu: str) -> dict[str, Any]:
    """Return a pod of a gang of five."""
    requests = {"resources": {"requests": {"cpu": cpu}}}
    labels = {GROUP_LABEL: "mixed"}
    notes = {GROUP_SIZE_ANNOTATION: "5"}
    return {
        "kind": "Pod",
        "metadata": {"name": f"mixed-{number}", "labels": labels, "annotations": notes},
        "spec": {"schedulerName": "fluence", "containers": [{"name": "main", "image": "none", **requests}]},
    }


def test_unsatisfiable_gang_has_reductions_and_no_earliest_start(cluster: type[Cluster]) -> None:
    (answer,) = cluster([node("n0", 4000, 8)]).ask(job("big", 1, "16"))
    assert answer.reason is not None
    assert answer.reason.code is ReasonCode.UNSATISFIABLE
    assert answer.earliest is None
    assert [one.fitting for one in answer.reductions] == ["4 cpu"]


def test_gang_may_fit_without_its_topology(cluster: type[Cluster]) -> None:
    there = cluster([node(f"n{number}", labels={RACK: f"r{number}"}) for number in range(2)])
    near = job("near", 2, "4", annotations={TOPOLOGY_REQUIRED_ANNOTATION: "rack"})
    (answer,) = there.ask(near)
    assert answer.reason is not None
    assert answer.reason.text == (
        "unsatisfiable: no rack holds 2 x 4 cpu + 1Gi memory (the largest holds 1, short of cpu)"
    )
    assert "all 2 fit without their topology" in [one.text for one in answer.reductions]


def test_devices_come_free_when_their_pods_end(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")], DEVICES)
    there.run([pod("holder", 100, devices={"qpu": 1})], until=30)
    wanted = {"fluxion.flux-framework.org/qpu": "1"}
    (one,) = there.ask(job("one", 1, "100m", limits=wanted))
    assert one.fits
    assert len(one.placed[0][1].devices) == 1
    (two,) = there.ask(job("two", 2, "100m", limits=wanted))
    assert two.reason is not None
    assert two.reason.text == "busy: 1 of 2 fit now, short of qpu (backends that match: ankaa, fez)"
    assert two.earliest == NOW + 30


def test_host_ports_come_free_when_their_pod_ends(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run([pod("web", 100, host_ports=(HostPort(80),))], until=10)
    (answer,) = there.ask(job("next", 1, "1", ports=[{"hostPort": 80, "containerPort": 80}]))
    assert (answer.fits, answer.earliest) == (False, NOW + 10)


def test_incomplete_and_invalid_gangs_are_reported(cluster: type[Cluster]) -> None:
    lone = {
        "kind": "Pod",
        "metadata": {
            "name": "lone",
            "labels": {"fluence.flux-framework.org/group": "g"},
            "annotations": {"fluence.flux-framework.org/group-size": "2"},
        },
        "spec": {"schedulerName": "fluence", "containers": [{"name": "main", "image": "none"}]},
    }
    (answer,) = cluster([node("n0")]).ask(lone)
    assert answer.reason is not None
    assert answer.reason.text == "waiting for members (1 of 2 exist)"
    (hopeless,) = cluster([node("n0", pods=1)]).ask(lone)
    assert hopeless.reason is not None
    assert hopeless.reason.text.startswith("unsatisfiable: 1 of 2 members would fit")
    (broken,) = cluster([node("n0")]).ask(job("broken", 1, "many"))
    assert broken.reason is not None
    assert broken.reason.code is ReasonCode.INVALID_REQUEST


def test_without_time_the_result_is_the_same_with_fewer_details(cluster: type[Cluster]) -> None:
    there = cluster([node("n0")])
    there.run([pod("other", 4000, 1)], until=5)
    (answer,) = there.ask(job("late", 1, "4"), patience=-1.0)
    assert not answer.fits
    assert (answer.earliest, answer.reductions) == (None, ())


@pytest.mark.parametrize(("gangs", "with_advice", "told"), [(200, 16, True), (17, 16, True), (16, 16, False)])
def test_answer_says_that_only_the_first_gangs_that_do_not_fit_have_advice(
    gangs: int, with_advice: int, told: bool, cluster: type[Cluster]
) -> None:
    there = cluster([node("n0")])
    answers = there.ask(*(job(f"wide-{number}", 1, "5") for number in range(gangs)))
    assert [bool(one.reductions) for one in answers] == [number < with_advice for number in range(gangs)]
    notes = [
        line
        for line in answer_lines(results_as_json(answers, there.request, NOW, EVERYTHING))
        if "only the first" in line
    ]
    wanted = (
        "note: only the first 16 gangs that don't fit have an expected start and what would fit; ask about fewer gangs "
        "to see these of the others"
    )
    assert notes == ([wanted] if told else [])


@pytest.mark.parametrize("amount", [GIB, 5 * GIB])
def test_copy_forgets_what_was_tried_on_it(cluster: type[Cluster], amount: int) -> None:
    there = cluster([node("n0", 4000, 8)])
    first = there.ask(job("a", 9, "1", str(amount)), job("b", 4, "1"))
    assert [one.fits for one in first] == [False, True]
