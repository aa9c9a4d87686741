"""Requests as jobspecs: slots of leaves, devices at their depth."""

import json

import pytest

from fluence_extender.engine.jobspec import Jobspec, compute_jobspec, jobspecs_for
from fluence_extender.graph.catalogue import device_catalogue, eligible
from tests.unit.graph.clusters import QUANTUM, cluster, node


def constraints(jobspec: Jobspec) -> object:
    return jobspec["attributes"]["system"]["constraints"]


def test_compute_is_slots_of_leaves_on_physical_nodes() -> None:
    jobspec = compute_jobspec({"core": 2, "memory": 4, "gpu": 0}, slots=3)
    assert jobspec["resources"] == [
        {
            "type": "slot",
            "count": 3,
            "label": "default",
            "with": [{"type": "core", "count": 2}, {"type": "memory", "count": 4}],
        }
    ]
    assert set(jobspec) == {"version", "resources", "attributes", "tasks"}
    assert jobspec["attributes"]["system"]["duration"] == 0
    assert constraints(jobspec) == {"properties": ["virtual=false"]}
    assert json.loads(json.dumps(jobspec)) == jobspec


def test_ranks_restrict_compute_to_their_nodes() -> None:
    def narrowed(*ranks: int) -> object:
        return constraints(compute_jobspec({"core": 1}, 1, ranks))

    assert narrowed(5, 1, 2, 3) == {"and": [{"properties": ["virtual=false"]}, {"ranks": ["1-3,5"]}]}
    assert narrowed() == {"and": [{"properties": ["virtual=false"]}, {"ranks": []}]}


@pytest.mark.parametrize(("counts", "slots"), [({}, 1), ({"core": 0}, 1), ({"core": 1}, 0)])
def test_a_request_for_nothing_is_no_jobspec(counts: dict[str, int], slots: int) -> None:
    with pytest.raises(ValueError, match="nothing to match"):
        compute_jobspec(counts, slots)


def test_a_leaf_type_is_requested_in_units_at_any_depth() -> None:
    catalogue = device_catalogue(cluster([node("a")], QUANTUM))
    (jobspec,) = jobspecs_for(eligible(catalogue, "qubit", {"vendor": "ibm"}), 5)
    assert jobspec["resources"] == [
        {"type": "slot", "count": 1, "label": "default", "with": [{"type": "qubit", "count": 5}]}
    ]
    assert constraints(jobspec) == {"ranks": ["1-5"]}


def test_a_type_with_children_is_requested_whole_below_its_ancestors() -> None:
    catalogue = device_catalogue(cluster([node("a")], QUANTUM))
    slot = {"type": "slot", "count": 1, "label": "default", "with": [{"type": "node", "count": 1}]}
    (outer,) = jobspecs_for(eligible(catalogue, "qdevice", {}), 1)
    (inner,) = jobspecs_for(eligible(catalogue, "qpu", {"backend": "ibm_fez"}), 1)
    assert outer["resources"] == [slot]
    assert constraints(outer) == {"ranks": ["1,6"]}
    assert inner["resources"] == [{"type": "node", "count": 1, "with": [slot]}]
    assert constraints(inner) == {"ranks": ["1-2,4"]}


def test_one_type_at_several_depths_gives_alternatives_in_order() -> None:
    graph = cluster(
        [node("a")],
        """
resources:
  - {type: qpu, name: pool, count: 3}
  - {type: site, name: s, with: [{type: qpu, name: deep, with: [{type: qubit}]}]}
  - {type: qpu, name: flat, with: [{type: qubit}]}
""",
    )
    alternatives = jobspecs_for(eligible(device_catalogue(graph), "qpu", {}), 1)
    assert [one["resources"][0]["type"] for one in alternatives] == ["slot", "node", "slot"]
    assert [constraints(one) for one in alternatives] == [
        {"ranks": ["5"]},
        {"ranks": ["2-3"]},
        {"ranks": ["1"]},
    ]


def test_no_eligible_device_gives_no_jobspec() -> None:
    catalogue = device_catalogue(cluster([node("a")], QUANTUM))
    assert jobspecs_for(eligible(catalogue, "qpu", {"vendor": "acme"}), 1) == ()
    with pytest.raises(ValueError, match="0 devices"):
        jobspecs_for(eligible(catalogue, "qpu", {}), 0)
