"""Every fault of a resources.yaml is reported with its position and its fix."""

import pytest

from fluence_extender.graph.errors import InvalidResourcesFile, Problem
from fluence_extender.graph.resources_file import parse_resources


def problems(text: str | bytes) -> tuple[Problem, ...]:
    with pytest.raises(InvalidResourcesFile) as refused:
        parse_resources(text, "res.yaml")
    return refused.value.problems


def resource(*lines: str) -> str:
    return "resources:\n  - type: qpu\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "path", "line", "message"),
    [
        # Shape of the file.
        ("---", "", 1, "defines no resources"),
        ("resources: []", "resources", 1, "defines no resources"),
        ("resources:\n", "resources", 1, "defines no resources"),
        ("attributes: {a: {b: c}}", "", 1, "defines no resources"),
        ("just text", "", 1, "defines no resources"),
        ("resources: {type: qpu}", "resources", 1, "must be a list of resources, not a map"),
        ("resources: [qpu]", "resources[0]", 1, "must be a map with a type, not 'qpu'"),
        ("resources:\n- type: qpu\nattributes: [a]", "attributes", 3, "must be a map from a name"),
        ("resources:\n- type: qpu\nattributes: {a: b}", "attributes.a", 3, "must be a map of attributes"),
        # Type.
        ("resources:\n- name: a", "resources[0]", 2, "missing required field 'type'"),
        (resource("with:", "- name: b"), "resources[0].with[0]", 4, "missing required field 'type'"),
        ("resources: [{type: node}]", "resources[0].type", 1, "is one the graph uses itself"),
        ("resources: [{type: slot}]", "resources[0].type", 1, "is one the graph uses itself"),
        ("resources: [{type: 'a/b'}]", "resources[0].type", 1, "can't end a resource name"),
        ("resources: [{type: [qpu]}]", "resources[0].type", 1, "must be a text, not a list"),
        # Names.
        (resource("name: a/b"), "resources[0].name", 3, "can't be part of a graph path"),
        (resource("name: 'a b'"), "resources[0].name", 3, "can't be part of a graph path"),
        (resource("name: 7"), "resources[0].name", 3, "must be a text, not the number 7"),
        (resource("name: no"), "resources[0].name", 3, "must be a text, not the boolean no"),
        (resource("name: ''"), "resources[0].name", 3, "is empty"),
        (resource("name: a", "with:", "- {type: b, name: a}"), "resources[0].with[0]", 5, "second resource"),
        ("resources:\n- {type: a, name: x}\n- {type: b, name: x}", "resources[1]", 3, "the name 'x'"),
        (
            resource("with:", "- {type: b, name: c1}", "- {type: b, name: c, count: 2, with: [{type: d}]}"),
            "resources[0].with[1]",
            5,
            "second resource of the name 'c1'",
        ),
        # Counts.
        (resource("count: -3"), "resources[0].count", 3, "must be a whole number from 1"),
        (resource("count: 0"), "resources[0].count", 3, "must be a whole number from 1"),
        (resource("count: 1.5"), "resources[0].count", 3, "must be a whole number from 1"),
        (resource("count: true"), "resources[0].count", 3, "not the boolean true"),
        (resource("count: '4'"), "resources[0].count", 3, "not '4'"),
        (resource("count: 010"), "resources[0].count", 3, "must be a whole number from 1"),
        (resource("count: 99999999999999999999"), "resources[0].count", 3, "must be a whole number from 1"),
        (resource("with:", "- type: b", "  count: [2]"), "resources[0].with[0].count", 5, "not a list"),
        (resource("count: 2000000000", "with: [{type: b}]"), "resources", 1, "more than 100000 vertices"),
        # Parents and parts.
        (resource("parent: 3"), "resources[0].parent", 3, "must be a text"),
        (resource("with: [{type: b, parent: cluster}]"), "resources[0].with[0].parent", 3, "top-level"),
        (resource("with: qubit"), "resources[0].with", 3, "not 'qubit'"),
        # Attributes.
        (resource("attributes: ibn"), "resources[0].attributes", 3, 'unknown attribute set "ibn"'),
        (resource("attributes: 7"), "resources[0].attributes", 3, "string reference or a map"),
        (resource("attributes: {n: 80}"), "resources[0].attributes.n", 3, "not the number 80"),
        (resource("attributes: {n: }"), "resources[0].attributes.n", 3, "must be a string, not nothing"),
        (resource("attributes: {d: 2024-01-01}"), "resources[0].attributes.d", 3, "not the date 2024-01-01"),
        (resource("attributes: {'a b': c}"), 'resources[0].attributes."a b"', 3, "end an annotation"),
        (resource("attributes: {backend: c}"), "resources[0].attributes.backend", 3, "hide the backend"),
        (resource('attributes: {a: "x\\0"}'), "resources[0].attributes.a", 3, "holds control characters"),
        (resource("attributes: {a-b: x, a_b: y}"), "resources[0].attributes.a_b", 3, "variable FLUXION_A_B"),
        # Keys.
        (resource("nmae: x"), "resources[0].nmae", 3, "is an unknown key"),
        (resource("name: x", "name: y"), "resources[0].name", 4, "is given twice, first on line 3"),
        (resource("1: x"), "resources[0]", 3, "has a key that isn't text: 1"),
        # YAML.
        ("resources: [", "", 1, "isn't valid YAML"),
        ("resources:\n\t- type: qpu", "", 2, "isn't valid YAML"),
        ("resources: [{type: a}]\n---\nb: c", "", 2, "another document"),
        ("resources: *gone", "", 1, "undefined alias"),
        ("resources: &a\n- {type: q, with: *a}", "resources[0].with", 2, "alias to a value that contains it"),
        (resource("name: !!python/name:os.system x"), "resources[0].name", 3, "has the tag"),
        ("[" * 20_000, "", 0, "nested too deeply"),
        ("resources: " + "[" * 200 + "]" * 200, "resources" + "[0]" * 99, 1, "more than 100 levels deep"),
        ("#" * (2**20 + 1), "", 0, "is larger than"),
        (b"\xff\xfe", "", 0, "isn't UTF-8"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place(text: str | bytes, path: str, line: int, message: str) -> None:
    found = problems(text)
    lines = [str(problem) for problem in found]
    assert any(
        problem.path == path and problem.line == line and message in problem.message for problem in found
    ), lines
    assert all(problem.fix and problem.source == "res.yaml" for problem in found)


def test_all_faults_are_reported_at_once_in_file_order() -> None:
    found = problems("""
resources:
  - type: qpu
    cout: 2
    count: -1
    attributes: none
  - name: lonely
attributes:
  ibm: {qubits: 80}
""")
    assert [(problem.path, problem.line) for problem in found] == [
        ("resources[0].cout", 4),
        ("resources[0].count", 5),
        ("resources[0].attributes", 6),
        ("resources[1]", 7),
        ("attributes.ibm.qubits", 9),
    ]
    with pytest.raises(InvalidResourcesFile) as refused:
        parse_resources("resources: [{type: qpu, cout: 2}]", "res.yaml")
    assert str(refused.value) == "res.yaml:1: resources[0].cout: is an unknown key (did you mean 'count'?)"


def test_the_old_layout_is_distinguished_from_an_empty_file() -> None:
    found = problems("backends:\n  - name: ibm\n")
    assert {problem.path for problem in found} == {"backends", ""}


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    found = problems("\n".join(lines))
    assert any("holds more than" in problem.message for problem in found)


def test_many_large_counts_do_not_grow_names_without_end() -> None:
    text = (
        "resources:\n"
        + "- {type: a, count: 90000, with: [{type: b, count: 2147483647, with: [{type: c}]}]}\n" * 50
    )
    assert any("more than 100000 vertices" in problem.message for problem in problems(text))
