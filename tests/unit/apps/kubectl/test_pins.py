"""Pins are written on the object and on every pod template they count for, in every style of YAML."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.apps.kubectl.errors import CommandError
from fluence_extender.apps.kubectl.manifests import read_documents, split_documents
from fluence_extender.apps.kubectl.pins import Resolved, resolve
from fluence_extender.apps.kubectl.sources import ManifestSource, joined
from fluence_extender.selection.backend import Backend
from fluence_extender.selection.pipeline import Selection, Sources, select
from fluence_extender.selection.request import SelectionRequest
from tests.unit.apps.kubectl.manifests import PREFIX, REQUIRE, RESULT, load, notes_of, result_of

POLICY = f"{PREFIX}select-policy"
NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
BACKENDS = (
    Backend("fez", {"cost_usd": 2.0, "cost_per_shot": 0.001}, {"vendor": "ibm"}),
    Backend("on", {"cost_usd": 9.0}, {"vendor": "o'n"}),
)


def choose(label: str, request: SelectionRequest) -> Selection:
    return select(request, Sources(None, BACKENDS))


def resolved(text: str, force: bool = False) -> Resolved:
    return resolve(ManifestSource("m.yaml", text.encode()), choose, force, NOW)


def pinned(text: str, force: bool = False) -> list[Any]:
    return load(resolved(text, force).content)


def template(**metadata: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"spec": {"schedulerName": "fluence", "containers": [{"name": "main"}]}}
    return {"metadata": metadata, **made} if metadata else made


ROLES = {"Launcher": {"template": template()}, "Worker": {"template": template(labels={"a": "b"})}}
GROUPS = [{"groupName": "g", "template": template()}, {"template": template(annotations={"x": "y"})}]
CLUSTER = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": GROUPS}
SPECS: dict[str, tuple[dict[str, Any], int]] = {
    **{
        kind: ({"template": template()}, 1)
        for kind in ("Job", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController")
    },
    "CronJob": ({"jobTemplate": {"spec": {"template": template(name="t")}}}, 1),
    "JobSet": (
        {
            "replicatedJobs": [
                {"name": "a", "template": {"spec": {"template": template()}}},
                {"name": "b", "template": {"metadata": {}, "spec": {"template": template()}}},
            ]
        },
        2,
    ),
    "LeaderWorkerSet": (
        {"leaderWorkerTemplate": {"leaderTemplate": template(), "workerTemplate": template()}},
        2,
    ),
    "PyTorchJob": ({"pytorchReplicaSpecs": ROLES}, 2),
    "TFJob": ({"tfReplicaSpecs": ROLES}, 2),
    "XGBoostJob": ({"xgbReplicaSpecs": ROLES}, 2),
    "PaddleJob": ({"paddleReplicaSpecs": ROLES}, 2),
    "JAXJob": ({"jaxReplicaSpecs": ROLES}, 2),
    "MPIJob": ({"mpiReplicaSpecs": ROLES}, 2),
    "RayCluster": (CLUSTER, 3),
    "RayService": ({"rayClusterConfig": CLUSTER}, 3),
    "RayJob": ({"rayClusterSpec": CLUSTER}, 3),
    "SomeJob": ({"tasks": [{"name": "a", "template": template()}, {"name": "b", "template": template()}]}, 2),
}


def find_templates(value: Any) -> list[Any]:
    """Return everything below a workload's spec that looks like a pod template."""
    if isinstance(value, list):
        return [found for one in value for found in find_templates(one)]
    if not isinstance(value, dict):
        return []
    if "containers" in value.get("spec", {}):
        return [value]
    return [found for one in value.values() for found in find_templates(one)]


@pytest.mark.parametrize("written", ["yaml", "flow", "json", "tabs", "list"])
@pytest.mark.parametrize("kind", list(SPECS))
def test_pin_reaches_the_pods_of_each_kind(kind: str, written: str) -> None:
    spec, count = SPECS[kind]
    document: dict[str, Any] = {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": {"name": "w", "annotations": {POLICY: "min-cost"}},
        "spec": spec,
    }
    if written == "list":
        document = {"kind": "List", "apiVersion": "v1", "items": [{"kind": "Service"}, document]}
    yamls = {"yaml": False, "flow": True, "list": False}
    if written in yamls:
        text = yaml.dump(document, default_flow_style=yamls[written], sort_keys=False)
    else:
        text = json.dumps(document, indent="\t" if written == "tabs" else 2)
    (made,) = pinned(text)
    made = made["items"][1] if written == "list" else made
    assert notes_of(made)[REQUIRE] == result_of(made)["chosen"] == "fez"
    templates = find_templates(made["spec"])
    assert [notes_of(one).get(REQUIRE) for one in templates] == ["fez"] * count
    assert all(RESULT not in notes_of(one) for one in templates)
    # Nothing else has changed.
    for one in (made, *templates):
        for key in (REQUIRE, RESULT):
            one["metadata"]["annotations"].pop(key, None)
    for one in templates:
        if not one["metadata"]["annotations"]:
            del one["metadata"]["annotations"]
        if not one["metadata"]:
            del one["metadata"]
    assert made == (document["items"][1] if written == "list" else document)


def test_policy_on_a_template_counts_for_that_template() -> None:
    text = f"""
kind: JobSet
metadata:
  name: js
  annotations: {{{POLICY}: min-cost, {PREFIX}select-shots: "3000"}}
spec:
  replicatedJobs:
    - template: {{spec: {{template: {{spec: {{schedulerName: fluence}}}}}}}}
    - template:
        spec:
          template:
            metadata:
              annotations:
                {POLICY}: max-cost
"""
    made = resolved(text)
    (document,) = load(made.content)
    first, second = (one["template"]["spec"]["template"] for one in document["spec"]["replicatedJobs"])
    assert [notes_of(one)[REQUIRE] for one in (document, first, second)] == ["fez", "fez", "on"]
    assert [label for label, _ in made.selections] == ["JobSet/js", "JobSet/js template 2"]
    assert result_of(second)["shots"] == 3000


def test_policy_on_the_template_only_is_applied() -> None:
    job = {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template(annotations={POLICY: "min-cost"})},
    }
    (made,) = pinned(yaml.dump(job))
    assert notes_of(made["spec"]["template"])[REQUIRE] == "fez"
    assert REQUIRE not in notes_of(made)


def test_pods_that_are_pinned_already_keep_their_pin() -> None:
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "annotations": {POLICY: "min-cost"}},
        "spec": {"template": template(annotations={REQUIRE: "mine"})},
    }
    text = yaml.dump(job)
    made = resolved(text)
    assert made.content == text.encode()
    assert made.notes[0].startswith('Job/j already pinned to "mine"; skipping selection')
    (forced,) = pinned(text, force=True)
    assert notes_of(forced["spec"]["template"])[REQUIRE] == notes_of(forced)[REQUIRE] == "fez"
    again = resolved(yaml.dump(forced))
    assert again.content == yaml.dump(forced).encode()


def test_shots_come_from_the_containers() -> None:
    job: dict[str, Any] = {
        "kind": "Job",
        "metadata": {"generateName": "j-", "annotations": {POLICY: "min-cost"}},
        "spec": {"template": template()},
    }
    containers = job["spec"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "X"}, {"name": "N_SHOTS", "value": "5000"}]
    made = resolved(yaml.dump(job))
    assert made.selections[0][0] == "Job/j-"
    assert result_of(load(made.content)[0])["candidates"][0]["attributes"]["cost_usd"] == 5


@pytest.mark.parametrize(
    "annotations",
    [
        f'{{"{POLICY}": min-cost}}',
        f"{{ {POLICY}: min-cost, b: c }}",
        f"\n    {POLICY}: min-cost",
        f"\n    {POLICY}: >-\n      min-cost\n\n    b: |\n      ---\n      c\n",
        f"\n    b: |+\n      x\n\n    {POLICY}:\n      min-cost",
        f"\n    ? {POLICY}\n    : min-cost\n    b: c",
        f"\n    {POLICY}: min-cost\n    {REQUIRE}:\n    {RESULT}: |\n      old\n      text\n\n    b: c",
        f"\n    {POLICY}: min-cost\n    {REQUIRE}: ~  # none yet\n    {RESULT}: >-\n      old\n",
        f"\n    {POLICY}: 'min-cost,\n\n      min-cost'\n    b: c  # comment",
        f"\n    é: ü\n    {POLICY}: min-cost # 😀",
        f" # here\n    {POLICY}: &a min-cost\n    b: *a",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\nspec: {schedulerName: fluence}\n", "\n--- # next\na: b\n..."])
def test_annotations_are_written_into_every_style(annotations: str, newline: str, end: str) -> None:
    text = f"kind: Pod\nspec: {{schedulerName: fluence}}\nmetadata:\n  name: p\n  annotations: {annotations}"
    if "spec" in end:
        text = text.replace("spec: {schedulerName: fluence}\n", "")
    text = (text + end).replace("\n", newline)
    before, after = load(text), pinned(text)
    wanted = {**notes_of(before[0]), REQUIRE: "fez", RESULT: notes_of(after[0])[RESULT]}
    assert notes_of(after[0]) == wanted
    assert result_of(after[0])["chosen"] == "fez"
    for document in (before[0], after[0]):
        del document["metadata"]["annotations"]
    assert after == before


def test_template_metadata_in_every_state_takes_the_pin() -> None:
    for metadata in (
        "",
        "metadata:\n",
        "metadata: {}\n",
        "metadata: ~ # c\n",
        "metadata:\n      annotations:\n",
    ):
        text = (
            f"kind: Job\nmetadata:\n  annotations:\n    {POLICY}: min-cost\n  labels:\n    a: b\n"
            f"spec:\n  template:\n    {metadata}    spec:\n      schedulerName: fluence\n"
        ).replace("    " + "    spec", "    spec")
        (made,) = pinned(text)
        assert notes_of(made["spec"]["template"]) == {REQUIRE: "fez"}
        assert made["metadata"]["labels"] == {"a": "b"}


def test_a_name_that_yaml_would_misread_is_quoted() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"annotations": {POLICY: "max-cost"}},
        "spec": {"schedulerName": "fluence"},
    }
    (made,) = pinned(yaml.dump(pod))
    assert notes_of(made)[REQUIRE] == "on"
    assert result_of(made)["candidates"][0]["strings"] == {"vendor": "o'n"}


def test_templates_shared_by_an_alias_are_all_pinned() -> None:
    text = f"""
kind: LeaderWorkerSet
metadata: {{name: l, annotations: {{{POLICY}: min-cost}}}}
spec:
  leaderWorkerTemplate:
    leaderTemplate: &t {{metadata: {{annotations: {{a: b}}}}, spec: {{schedulerName: fluence}}}}
    workerTemplate: *t
"""
    (made,) = pinned(text)
    for template in made["spec"]["leaderWorkerTemplate"].values():
        assert notes_of(template) == {"a": "b", REQUIRE: "fez"}


@pytest.mark.parametrize("shared", ["annotations: *a", "<<: *m"])
def test_annotations_shared_with_something_else_are_written_out(shared: str) -> None:
    text = f"""
x: &a {{{POLICY}: min-cost}}
y: &m {{annotations: {{{POLICY}: min-cost}}}}
kind: Pod
metadata:
  name: p
  {shared}
spec: {{schedulerName: fluence}}
"""
    (made,) = pinned(text)
    assert notes_of(made)[REQUIRE] == "fez"
    assert made["x"] == made["y"]["annotations"] == {POLICY: "min-cost"}


@pytest.mark.parametrize("where", ["metadata", "annotations"])
def test_annotations_that_are_no_map_are_refused(where: str) -> None:
    bad = "3" if where == "metadata" else "{annotations: [a]}"
    text = (
        f"kind: Job\nmetadata: {{name: j, annotations: {{{POLICY}: min-cost}}}}\n"
        f"spec: {{template: {{metadata: {bad}, spec: {{schedulerName: fluence}}}}}}\n"
    )
    with pytest.raises(CommandError, match=f"^Job/j: {where} are not a map; write them as KEY: VALUE$"):
        resolved(text)


def test_alias_to_what_it_is_in_is_refused() -> None:
    with pytest.raises(CommandError, match=r"^m.yaml: has an alias to what it is in; write it out"):
        resolved(f"x: {POLICY}\ny: &a [*a]\n")


SCALARS = (
    "'1'", "'on'", "'yes'", "'1e3'", "'0x10'", "'2026-05-04'", "'2026-05-04T03:02:01Z'", "'1_000'", "'12:30'", "'~'",
    "'null'", "'true'", "'0o17'", "'.inf'", "'='", "'<<'", "''", "'- a'", "'# no'", "'a: b'", "' a '",
    "|\n    a\n    b",
    "1", "on", "yes", "1e3", "0x10", "2026-05-04", "2026-05-04T03:02:01Z", "1_000", "8080:30", "0755", "0o17", "1.0",
    ".inf", "y", "~", "null", "true", "a b", "plain",
)  # fmt: skip
"""Texts that look like something else, quoted and plain."""


@pytest.mark.parametrize("scalar", SCALARS)
def test_scalar_stays_what_it_is(scalar: str) -> None:
    pod = f"kind: Pod\nmetadata: {{annotations: {{{POLICY}: min-cost}}}}\nspec: {{schedulerName: fluence}}\n"
    text = f"{pod}data:\n  a: {scalar}\n"
    made = resolved(text).content.decode()
    assert load(made)[0]["data"] == load(text)[0]["data"]
    (_, _, line) = made.partition("\n  a: ")
    if scalar[0] not in "'|~":
        # kubectl takes some plain scalars for other things than PyYAML does, so they stay as they were written.
        assert line == f"{scalar}\n"
    elif scalar[0] == "'":
        assert line.startswith(("'", '"'))


def test_scalar_with_a_tag_stays_what_the_tag_says() -> None:
    pod = f"kind: Pod\nmetadata: {{annotations: {{{POLICY}: min-cost}}}}\nspec: {{schedulerName: fluence}}\n"
    (made,) = pinned(f"{pod}data: [!!str 1, !!int '2', !!bool 'false', !!str on]\n")
    assert made["data"] == ["1", 2, False, "on"]


@pytest.mark.parametrize("text", ["a\x85b", "\x85", "a\n\u2028b", "\u2029 a"])
def test_characters_that_end_a_line_for_some_parsers_are_escaped(text: str) -> None:
    pod = f"kind: Pod\nmetadata: {{annotations: {{{POLICY}: min-cost}}}}\nspec: {{schedulerName: fluence}}\n"
    content = resolved(f"{pod}data: {json.dumps(text)}\n").content
    assert load(content)[0]["data"] == text
    assert not {*"\x85\u2028\u2029"} & {*content.decode()}


def test_changed_document_keeps_the_order_of_its_keys_and_its_marks() -> None:
    pod = f"kind: Pod\nz: 1\nmetadata: {{annotations: {{{POLICY}: min-cost}}}}\nspec: {{schedulerName: fluence}}\n"
    made = resolved(f"--- # one\n{pod}...\n# between\nb:   c # kept\n---\n{pod}").content.decode()
    assert made.startswith("---\nkind: Pod\nz: 1\nmetadata:\n")
    assert "\n...\n# between\nb:   c # kept\n---\nkind: Pod\n" in made
    assert made.count("---\n") == 2
    assert made.count(f"{REQUIRE}: fez\n") == 2


def test_documents_are_split_as_a_yaml_parser_does_it() -> None:
    text = (
        "%YAML 1.1\n--- # one\na: |\n  ---\n  x\n---x: 1\n--- |\n text\n ---\n...\n# between\nb: c\n"
        "---\n---\td\n...x: 1\n---"
    )
    parts = list(split_documents(text))
    assert "".join(parts) == text
    assert parts == [
        "%YAML 1.1\n",
        "--- # one\na: |\n  ---\n  x\n---x: 1\n",
        "--- |\n text\n ---\n...\n",
        "# between\nb: c\n",
        "---\n",
        "---\td\n...x: 1\n",
        "---",
    ]
    for part in parts[1:4]:
        assert len(read_documents(part, "m")) == 1
    assert len(read_documents("".join(parts[:3]), "m")) == 2


def test_only_documents_with_a_request_are_parsed_and_lines_count_from_the_top() -> None:
    pod = f"kind: Pod\nmetadata: {{annotations: {{{POLICY}: min-cost}}}}\nspec: {{schedulerName: fluence}}\n"
    strange = "a: [ # x\r\n"
    made = resolved(strange + "---\n" + pod + "...\n--- !odd &a\n\tb")
    assert made.content.startswith(strange.encode())
    assert made.content.endswith(b"...\n--- !odd &a\n\tb")
    assert len(made.selections) == 1
    with pytest.raises(CommandError, match=r"^m.yaml:8: isn't valid YAML"):
        resolved(f"a: [\n---\n{pod}---\nx: {POLICY}\n  y: z\n")
    slashed = json.dumps(load(pod)[0]).replace("/", "\\/")
    assert len(resolved(slashed).selections) == 1


def test_documents_nested_too_deeply_are_refused() -> None:
    for depth in (201, 100_000):
        with pytest.raises(CommandError, match=r"^m.yaml: is nested more than 200 levels deep"):
            resolved(f"x: {POLICY}\ny: " + "[" * depth)


def test_sources_are_joined_without_touching_a_single_one() -> None:
    assert joined([b"a: b"]) == b"a: b"
    assert joined([b"\xef\xbb\xbfa: b", b"--- # x\nc: d\n", b'{"e": 1}']) == (
        b'---\na: b\n--- # x\nc: d\n---\n{"e": 1}'
    )


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.just("a\n---\n b\n\n") | st.just("# no\n"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NOTES = st.dictionaries(
    TEXTS.filter(lambda key: PREFIX not in key), TEXTS | st.just("x\n---\ny\n"), max_size=3
)


class _NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@settings(deadline=None, max_examples=60)
@given(
    notes=NOTES,
    others=st.dictionaries(TEXTS.filter(lambda key: key not in ("annotations", "name")), VALUES, max_size=3),
    first=st.booleans(),
    style=st.sampled_from(["block", "flow", "mixed", "literal", "json", "indented"]),
    around=st.lists(VALUES.filter(bool), max_size=2),
)
def test_only_the_pins_are_added_in_any_surroundings(
    notes: dict[str, str], others: dict[str, Any], first: bool, style: str, around: list[Any]
) -> None:
    written = {POLICY: "min-cost", **notes} if first else {**notes, POLICY: "min-cost"}
    metadata = {"annotations": written, **others} if first else {**others, "annotations": written}
    template = {"metadata": {**others, "annotations": notes} if notes else others, "spec": {}}
    pod = {"kind": "Job", "metadata": metadata, "spec": {"schedulerName": "fluence", "template": template}}
    if style == "json":
        text = json.dumps(pod, indent=2, ensure_ascii=first)
        around = []
    else:
        flow = {"flow": True, "mixed": None}.get(style, False)
        styles: dict[str, dict[str, Any]] = {"literal": {"default_style": "|"}, "indented": {"indent": 6}}
        options = styles.get(style, {})
        text = yaml.dump_all(
            [pod, *around],
            Dumper=_NoAliases,
            default_flow_style=flow,
            sort_keys=False,
            allow_unicode=first,
            width=40,
            explicit_start=not first,
            **options,
        )
    after = pinned(text)
    for holder in (after[0], after[0]["spec"]["template"]):
        assert holder["metadata"]["annotations"].pop(REQUIRE) == "fez"
    assert after[0]["metadata"]["annotations"].pop(RESULT)
    if not notes:
        assert after[0]["spec"]["template"]["metadata"].pop("annotations") == {}
    # PyYAML takes the two escapes by which JSON writes a character beyond 16 bits for two characters.
    assert after == ([json.loads(text)] if style == "json" else load(text))
