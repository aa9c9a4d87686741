"""How hosts, ids and jobs are written, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from fluence_extender.matcher import NotExpressible
from fluence_extender.matcher.embedded.hostlist import expand_hosts
from fluence_extender.matcher.embedded.jobids import parse_jobid
from fluence_extender.matcher.formats import Times, write_found, write_granted
from fluence_extender.matcher.formats.hostnames import encode_hosts


@pytest.mark.parametrize(
    ("names", "written"),
    [
        ([], ""),
        (["node0"], "node0"),
        (["node0", "node1", "node2"], "node[0-2]"),
        (["node9", "node10"], "node[9-10]"),
        (["node09", "node10"], "node[09-10]"),
        (["node1", "node01"], "node[1,01]"),
        (["node3", "node1"], "node[3,1]"),
        (["node1", "node3", "login", "node4"], "node[1,3],login,node4"),
        (["a", "a"], "a,a"),
        (["7", "8"], "[7-8]"),
    ],
)
def test_hosts_are_folded_in_their_order(names: list[str], written: str) -> None:
    assert encode_hosts(names) == written
    assert expand_hosts([written]) == names


@pytest.mark.parametrize("name", ["", "a,b", "a[1]", "a b", "a99999999999999999999"])
def test_a_name_that_no_hostlist_holds_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a hostlist can't hold"):
        encode_hosts([name])


@pytest.mark.parametrize(
    ("text", "jobid"),
    [
        ("0", 0),
        ("12", 12),
        ("+12", 12),
        ("0x1F", 31),
        ("job.12", 12),
        ("0000.0000.0001.000a", 65546),
        ("f1", 0),
        ("f2", 1),
        ("ƒ21", 58),
        ("ƒzz", 57 * 58 + 57),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_a_job_is_named_in_several_ways(text: str, jobid: int) -> None:
    assert parse_jobid(text) == jobid


@pytest.mark.parametrize(
    "text", ["", "-1", "x", "0x", "1.2", "f", "f0", "18446744073709551616", "1_0", "academy-a-a"]
)
def test_what_names_no_job_is_none(text: str) -> None:
    assert parse_jobid(text) is None


def _set(*vertices: dict[str, Any]) -> dict[str, Any]:
    entries = []
    for key, given in enumerate(vertices):
        path = f"/{given['type']}{given['id']}"
        entries.append({"id": str(key), "metadata": {"paths": {"containment": path}, "rank": -1, **given}})
    return {"graph": {"nodes": entries, "edges": []}}


def test_ranks_with_the_same_children_are_told_together() -> None:
    members = [
        {"type": kind, "id": number, "rank": rank, "properties": {"arch": "x"} if kind == "node" else {}}
        for rank in (2, 0, 1)
        for kind, number in (("gpu", 1), ("core", 3), ("core", 2), ("node", rank))
    ]
    written = write_granted(_set(*members), "rv1_nosched", Times(5, 9))
    assert written == {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": "0-2", "children": {"core": "2-3", "gpu": "1"}}],
            "nodelist": ["node[0-2]"],
            "properties": {"arch=x": "0-2"},
            "starttime": 5,
            "expiration": 9,
        },
    }


def test_a_node_without_rank_cannot_be_written() -> None:
    unranked = _set({"type": "core", "id": 0}, {"type": "node", "id": 0})
    for name in ("rv1", "rv1_nosched", "rv1_shorthand"):
        with pytest.raises(NotExpressible, match="rank"):
            write_granted(unranked, name, Times())
        with pytest.raises(NotExpressible, match="rank"):
            write_found(unranked, name)
    assert write_granted(unranked, "jgf", Times()) == unranked
