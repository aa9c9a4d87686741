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
