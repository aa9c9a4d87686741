"""Values and nodes of YAML and JSON, and the errors of text that can't be read."""

from __future__ import annotations

import json

import pytest

from fluence_extender.model.yaml_nodes import (
    TAG,
    TooDeep,
    UnreadableYaml,
    compose_document,
    load_documents,
)


def test_marks_count_characters_of_the_whole_text() -> None:
    text = "# é: 😀\n---\nkey: [1, two]\n"
    root = compose_document(text, 10)
    assert root is not None
    name, value = root.value[0]
    assert text[name.start_mark.index : name.end_mark.index] == "key"
    assert text[value.start_mark.index : value.end_mark.index] == "[1, two]"
    assert [item.tag.removeprefix(TAG) for item in value.value] == ["int", "str"]


def test_json_may_be_indented_with_tabs() -> None:
    node = compose_document(json.dumps({"a": {"b": [1]}}, indent="\t"), 10)
    assert node is not None
    assert node.value[0][0].value == "a"


def test_an_empty_text_has_no_document() -> None:
    assert compose_document("# only a comment\n", 10) is None
    assert load_documents("", 10) == []


@pytest.mark.parametrize(
    ("text", "line", "at"),
    [
        ("a: b: c", 1, ":"),
        ("a:\n\t- b", 2, "\t"),
        ("a: [", 1, ""),
        ("a: [\n b: c", 2, ""),
        ("a: b\n---\nc: d", 2, "-"),
        ("a: b\nc: \ud800", 2, ""),
        ("a: *b", 1, "*"),
    ],
)
def test_unreadable_text_is_an_error_with_its_line(text: str, line: int, at: str) -> None:
    with pytest.raises(UnreadableYaml) as caught:
        compose_document(text, 10)
    assert (caught.value.line, caught.value.at) == (line, at)


KUBECTL: dict[str, object] = {
    **dict.fromkeys(("1e+06", "1e6", "1.0e6"), 1_000_000),
    **dict.fromkeys(("yes", "on", "y", "Y", "True", "TRUE"), True),
    **dict.fromkeys(("no", "off", "n", "N", "Off"), False),
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    "3.0": 3,
    "1.": 1,
    "5.": 5,
    "-0": 0,
    "-0.0": 0,
    "+5": 5,
    "1.e3": 1000,
    "+1e3": 1000,
    "12e03": 12000,
    "010": 8,
    "0o10": 8,
    "08": 8,
    "00": 0,
    "0_7": 7,
    "-0o7": -7,
    "0x1F": 31,
    "0X1f": 31,
    "-0x10": -16,
    "+0x1": 1,
    "0b101": 5,
    "-0b11": -3,
    "1_000": 1000,
    "1__0": 10,
    "1_": 1,
    "-1_0": -10,
    "1_0.5": 10.5,
    "1_e3": 1000,
    ".5": 0.5,
    "-.5": -0.5,
    "+.5": 0.5,
    ".5e3": 500,
    "0.1": 0.1,
    "5e-7": 5e-7,
    "1e-7": 1e-7,
    "1e21": 1e21,
    "99999999999999999999": 1e20,
    "18446744073709551615": 18446744073709551615,
    "18446744073709551616": float(2**64),
}
"""Plain scalars, as kubectl 1.32 writes them as JSON."""

TEXTS = (
    "1" * 5_000,
    "0" + "7" * 5_000,
    "22:22",
    "1:30:00",
    "tRue",
    "oFF",
    "nUll",
    "_1",
    "2024-01-01",
    "2024-13-01",
    "2024-01-01T00:00:00Z",
    "=",
    "<<",
    "+",
    "0o8",
    "0x",
    "0b2",
    ".e3",
    ".",
    "..",
    "1e",
    "1e+",
    "0o",
    "._5",
    "1.2.3",
    "1Gi",
    "500m",
)


@pytest.mark.parametrize("text", [*KUBECTL, *TEXTS])
def test_plain_scalars_are_what_kubectl_sends(text: str) -> None:
    expected = KUBECTL.get(text, text)
    for document in (f"a: {text}", f"a: [{text}, b]"):
        value = load_documents(document, 10)[0]["a"]
        value = value[0] if isinstance(value, list) else value
        assert (value, type(value)) == (expected, type(expected))
    assert load_documents(f"a: '{text}'", 10) == [{"a": text}]


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "!!int x", "!!bool 3"])
def test_scalars_that_json_cannot_express_are_errors(text: str) -> None:
    with pytest.raises(UnreadableYaml):
        load_documents(f"a: {text}", 10)


def test_the_last_of_two_equal_keys_counts_and_maps_are_merged() -> None:
    assert load_documents("a: 1\na: 2", 10) == [{"a": 2}]
    assert load_documents("a: &a {b: 1}\nc: {<<: *a, d: 2}", 10)[0]["c"] == {"b": 1, "d": 2}


def test_levels_are_limited_before_anything_recurses() -> None:
    assert load_documents("[" * 10 + "]" * 10, 10)
    for levels in (11, 100_000):
        with pytest.raises(TooDeep, match="is nested more than 10 levels deep"):
            load_documents("[" * levels, 10)


@pytest.mark.parametrize("use", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_may_repeat_only_so_many_values(use: str) -> None:
    def levels(count: int) -> str:
        lines = ["l0: &l0 {a: 1}"]
        for level in range(1, count):
            lines.append(f"l{level}: &l{level} " + use.format(", ".join([f"*l{level - 1}"] * 9)))
        return "\n".join(lines)

    assert load_documents(levels(4), 10)
    with pytest.raises(UnreadableYaml, match="aliases repeat more than 100,000 values") as caught:
        load_documents(levels(30), 10)
    assert caught.value.line == 6


def test_aliases_may_repeat_long_texts_less_often() -> None:
    def repeated(times: int) -> str:
        return f"a: &a {'x' * 64_000}\nb: [{', '.join(['*a'] * times)}]\nc: &c [*a]\nd: *c"

    assert load_documents(repeated(90), 10)
    with pytest.raises(UnreadableYaml, match="aliases repeat more than 100,000 values"):
        load_documents(repeated(110), 10)


def test_values_are_counted_before_anything_is_built() -> None:
    assert load_documents("[a, {b: c}]\n--- d", 10, most_values=6)
    with pytest.raises(UnreadableYaml, match="more than 5 values") as caught:
        load_documents("[a, {b: c}]\n--- d", 10, most_values=5)
    assert caught.value.line == 2


@pytest.mark.parametrize("tag", ["int", "float", "bool", "timestamp", "null", "value", "str"])
@pytest.mark.parametrize("value", ["[1]", "{a: 1}", "[[]]"])
def test_list_or_map_with_the_tag_of_a_scalar_is_unreadable(tag: str, value: str) -> None:
    with pytest.raises(UnreadableYaml):
        load_documents(f"a: !!{tag} {value}", 10)
