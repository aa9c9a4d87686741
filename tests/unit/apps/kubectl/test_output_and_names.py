"""Output for missing and for several things, and completion of names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluence_extender.apps.kubectl.completion import complete
from fluence_extender.apps.kubectl.graph import drawn, tree
from fluence_extender.apps.kubectl.tables import TableColumn, table
from fluence_extender.apps.kubectl.why import explanation
from tests.unit.apps.kubectl.programs import Fluence, Program
from tests.unit.apps.kubectl.test_questions import STORY, device, gang, listed, node


def test_a_missing_gang_is_an_error(fluence: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/gangs", out=listed([gang("vqe")]))
    ended = fluence("jobs", "vqa", "-n", "lab")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: no gang vqa in namespace lab; kubectl fluence jobs -A lists all\n"
    kubectl.answers(".org/v1/gangs", out=listed([]))
    ended = fluence("jobs", "-n", "lab")
    assert (ended.code, ended.err) == (0, "no gangs in namespace lab\n")


@pytest.mark.parametrize("form", [(), ("-o", "name"), ("-o", "json")])
@pytest.mark.parametrize(
    ("name", "advice"),
    [("ibm_fes", 'did you mean "ibm_fez"?'), ("zzz", "kubectl fluence backends lists all")],
)
def test_a_missing_backend_is_an_error_with_the_nearest_name(
    name: str, advice: str, form: tuple[str, ...], fluence: Fluence, kubectl: Program
) -> None:
    kubectl.answers(f".org/v1/backends?backend={name}", out=listed([]))
    kubectl.answers(".org/v1/backends", out=listed([device("ibm_fez")]))
    ended = fluence("backends", name, *form)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"error: no backend {name}; {advice}\n"


def test_parts_of_a_backend_are_its_branches() -> None:
    def part(path: str, kind: str) -> dict[str, Any]:
        return device(path.split("/")[0], name=path.rpartition("/")[2], path=f"/cluster/{path}", type=kind)

    devices = [
        part("a", "box"),
        part("a/q0", "qpu"),
        part("a/q0/b0", "qubit"),
        part("a/q1", "qpu"),
        part("b", "box"),
        part("b/q2", "qpu"),
    ]
    lines = list(drawn(tree([node("n1", 4)]), devices))
    assert [line.split("[")[0].rstrip() for line in lines[3:-1]] == [
        "├─ a (box)",
        "│  ├─ q0 (qpu)",
        "│  │  └─ b0 (qubit)",
        "│  └─ q1 (qpu)",
        "└─ b (box)",
        "   └─ q2 (qpu)",
    ]


def test_free_amounts_are_printed_once_for_members_that_differ() -> None:
    asks = [{**STORY["asks"][0], "members": count} for count in (1, 2)]
    story = json.loads(json.dumps({**STORY, "asks": asks}))
    headings = [line.split()[0] for line in explanation(story, [node("n1", 4)], [], False)]
    assert headings.count("free") == 1
    assert headings.count("fits") == 2


def test_a_table_that_grows_keeps_its_columns() -> None:
    columns = (TableColumn("NAME", lambda one: str(one["name"])), TableColumn("STATE", lambda _: "bound"))
    widths: list[int] = []
    (first,) = table(columns, [{"name": "a-long-name"}], headers=False, widths=widths)
    (second,) = table(columns, [{"name": "b"}], headers=False, widths=widths)
    assert first.index("bound") == second.index("bound")
    assert table(columns, [{"name": "b"}], headers=False) == ["b   bound"]


def test_names_are_completed_behind_flags_of_namespace_and_cluster(
    fluence: Fluence, kubectl: Program
) -> None:
    kubectl.answers("gangs?namespace=lab", out=listed([gang("vqe"), gang("vqa")]))
    kubectl.answers(".org/v1/gangs", out=listed([gang("other")]))
    kubectl.answers("config view", out="")
    assert complete(["why", "o"]) == (["other"], 4)
    assert complete(["why", "-n", "lab", "v"]) == (["vqe", "vqa"], 4)
    assert complete(["jobs", "--context", "c", "-wn", "lab", ""]) == (["vqe", "vqa"], 4)
    assert "--context=c" in " ".join(kubectl.calls[-1])
    for typed in (["jobs", "-n", ""], ["why", "vqe", ""]):
        assert complete(typed) == ([], 4)


def test_backends_are_completed_in_any_namespace(fluence: Fluence, kubectl: Program) -> None:
    kubectl.answers(".org/v1/backends", out=listed([device("ibm_fez"), device("ionq")]))
    assert complete(["backends", "-n", "lab", "i"]) == (["ibm_fez", "ionq"], 4)
    asked = [word for call in kubectl.calls for word in call if "/v1/backends" in word]
    assert [word.partition(".org")[2] for word in asked] == ["/v1/backends"]
