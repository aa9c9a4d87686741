"""Objects are read from JSON, and errors say what is wrong and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.whatif import documents
from fluence_extender.whatif.documents import read_cluster, read_manifests
from tests.unit.whatif.conftest import sent


def test_deep_nesting_is_refused_without_harm() -> None:
    for text in (b"[" * 200_000, b"[" * 80 + b"]" * 80):
        with pytest.raises(BadManifest):
            read_manifests(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Pod", "not JSON: "),
        ('{"kind": "Pod"', "not JSON: "),
        ('"just words"', "document 1 is not an object (a mapping with apiVersion, kind and metadata)"),
        ('[{"kind": "Pod"}, [3]]', "document 2 is not an object"),
        ('{"metadata": {"name": "a"}}', "document 1 (a) is an object without a kind"),
        (
            '{"kind": "List", "items": [{"kind": "Pod"}, {"spec": 3}]}',
            "document 1, item 2 is an object without a kind",
        ),
        ('{"kind": "List", "items": 3}', "document 1: items of List is not a list"),
        ('{"kind": "A", "a": ' + "[" * 80 + "]" * 80 + "}", "mappings and lists nested more than 64 deep"),
    ],
)
def test_errors_say_what_is_wrong_and_where(text: str, why: str) -> None:
    with pytest.raises(BadManifest) as raised:
        read_manifests(text.encode())
    assert why in str(raised.value)


def test_lists_may_be_empty() -> None:
    for text in ('{"kind": "List", "items": []}', '{"kind": "PodList", "items": null}', "[]"):
        assert read_manifests(text.encode()) == []


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
    body = manifests_as_json([ManifestSource("cluster.yaml", text.encode())])
    assert [(kind, json.loads(raw)) for kind, raw in read_cluster(body)] == [("Node", one) for one in items]
    with pytest.raises(BadManifest, match="more than 1,000 objects"):
        read_manifests(body)


def test_items_of_a_typed_list_need_no_kind() -> None:
    text = b'[{"kind": "NodeList", "items": [{"metadata": {"name": "n0"}}]}]'
    assert [kind for kind, _ in read_cluster(text)] == ["Node"]
    assert [kind for kind, _ in read_cluster(b'[{"kind": "Node", "metadata": {"name": "n0"}}]')] == ["Node"]
    with pytest.raises(BadManifest, match="document 2 of the cluster"):
        list(read_cluster(b'[{"kind": "Node"}, 3]'))


def test_documents_of_several_files_are_one_array() -> None:
    sources = [
        ManifestSource("a.yaml", b"\xef\xbb\xbfkind: Pod\n---\n# nothing\n---\nkind: Job\nat: 2026-01-01\n"),
        ManifestSource("b.json", b' {"kind": "Pod", "text": "\\ud83d\\ude00"}'),
        ManifestSource("c.yaml", b"{kind: Pod, a: &a [1], b: *a}"),
    ]
    assert json.loads(manifests_as_json(sources)) == [
        {"kind": "Pod"},
        {"kind": "Job", "at": "2026-01-01"},
        {"kind": "Pod", "text": "\U0001f600"},
        {"kind": "Pod", "a": [1], "b": [1]},
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"kind: Pod\na: [", "job.yaml:2: isn't valid YAML: "),
        (b"kind: Pod\nspec:\n  a: b: c\n", "job.yaml:3: isn't valid YAML: mapping values are not allowed"),
        (b'{"kind": "Pod"', "job.yaml:1: isn't valid YAML: "),
        (b"at: .inf", "job.yaml: isn't valid YAML: .inf is no number that JSON can express"),
        (b"kind: \xff", "job.yaml: isn't UTF-8 text"),
        (b"a: " + b"[" * 100_000, "job.yaml: is nested more than 200 levels deep; make it flatter"),
        (b"? [a]\n: b", "job.yaml:1: isn't valid YAML: found unhashable key"),
        (b"1.5: &a [*a]", "job.yaml: can't be written as JSON: "),
    ],
)
def test_bad_yaml_is_one_line_with_its_place(text: bytes, why: str) -> None:
    with pytest.raises(CommandError) as raised:
        manifests_as_json([ManifestSource("job.yaml", text)])
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_text_of_a_manifest_may_be_sent_as_it_is_read(tmp_path: Path) -> None:
    assert read_manifests(sent("kind: Pod\n---\nkind: List\nitems: [{kind: Job}]")) == [
        {"kind": "Pod"},
        {"kind": "Job"},
    ]
