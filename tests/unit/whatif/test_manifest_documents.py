"""Manifests and clusters are read from YAML and JSON, and errors say what is wrong and where."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fluence_extender.whatif import documents
from fluence_extender.whatif.documents import BadManifest, read_cluster, read_manifests
from fluence_extender.whatif.yaml_values import documents as yaml_documents

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(1 - 2**64, 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.dates(),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(values), st.booleans())
def test_yaml_is_read_as_pyyaml_reads_it(written: list[object], flow: bool) -> None:
    text = yaml.safe_dump_all(written, default_flow_style=flow)
    assert list(yaml_documents(text)) == list(yaml.safe_load_all(text))


@pytest.mark.parametrize(
    "text",
    [
        "a: 0x10\nb: 1_000\nc: 2026-01-01\nd: ~\ne: yes\nf: 'yes'\ng: !!str 3\nh: 0777\ni: 1e3\nj: =\nk: ! 3\n",
        "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: [*x, *x]\nf: {<<: [*x, {z: 1, b: 9}]}\n",
        "a: &n 3\nb: *n\nc: '<<'\n'<<': 4\n",
        "---\n---\na: |\n  x\n  y\n...\n",
        "x: !!map {a: b}\ny: !!seq [1]\n",
        "? [a, b]\n: c\n",
        "a: !foo b",
        "!!python/object:os.system {}",
        "a: {<<: 3}",
        "- *nobody",
        "a: [",
        "",
    ],
)
def test_special_forms_of_yaml_are_read_as_pyyaml_reads_them(text: str) -> None:
    try:
        expected = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        with pytest.raises(yaml.YAMLError):
            list(yaml_documents(text))
    else:
        assert list(yaml_documents(text)) == expected


def test_mappings_that_are_merged_many_times_are_read_fast() -> None:
    lines = [f"a{number}: &a{number} {{<<: [*a{number - 1}, *a{number - 1}]}}" for number in range(1, 60)]
    (document,) = yaml_documents("\n".join(["a0: &a0 {b: 1, c: 2}", *lines]))
    assert isinstance(document, dict)
    assert document["a59"] == {"b": 1, "c": 2}


def test_deep_nesting_is_refused_without_harm() -> None:
    with pytest.raises(BadManifest):
        read_manifests("[" * 200_000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not YAML or JSON: while parsing a flow node did not find expected node content at line"),
        ('{"kind": "Pod"', "not YAML or JSON: "),
        ("just words", "document 1 is not an object (a mapping with apiVersion, kind and metadata)"),
        ("kind: Pod\n---\n- 3", "document 2 is not an object"),
        ("metadata: {name: a}", "document 1 (a) is an object without a kind"),
        ("kind: List\nitems: [{kind: Pod}, {spec: 3}]", "document 1, item 2 is an object without a kind"),
        ("kind: List\nitems: 3", "document 1: items of List is not a list"),
        ("[" * 80 + "]" * 80, "mappings and lists nested more than 64 deep"),
    ],
)
def test_errors_say_what_is_wrong_and_where(text: str, why: str) -> None:
    with pytest.raises(BadManifest) as raised:
        read_manifests(text)
    assert why in str(raised.value)
    assert "string>" not in str(raised.value)


def test_lists_may_be_empty() -> None:
    assert read_manifests("kind: List\nitems: []") == []
    assert read_manifests("kind: PodList\nitems:\n") == []
    assert read_manifests("# nothing\n---\n") == []


@pytest.mark.parametrize("form", ["json", "yaml", "documents"])
def test_a_cluster_may_be_larger_than_manifests(form: str) -> None:
    count = documents.MOST_DOCUMENTS + 1
    items = [{"kind": "Node", "metadata": {"name": f"n{number}"}} for number in range(count)]
    match form:
        case "json":
            text = json.dumps({"kind": "List", "items": items})
        case "yaml":
            text = yaml.safe_dump({"kind": "List", "items": items})
        case _:
            text = yaml.safe_dump_all(items)
    found = list(read_cluster(text.encode()))
    assert [(kind, json.loads(raw)) for kind, raw in found] == [("Node", one) for one in items]
    with pytest.raises(BadManifest, match="more than 1,000 objects"):
        read_manifests(text)


def test_items_of_a_typed_list_need_no_kind() -> None:
    text = json.dumps({"kind": "NodeList", "items": [{"metadata": {"name": "n0"}}]}).encode()
    assert [kind for kind, _ in read_cluster(text)] == ["Node"]
    assert [kind for kind, _ in read_cluster(b'{"kind": "Node", "metadata": {"name": "n0"}}')] == ["Node"]
