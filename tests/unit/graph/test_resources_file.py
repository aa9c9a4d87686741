"""A valid resources.yaml is read as its author meant it."""

import pytest

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.graph.virtual import VirtualResource

BACKENDS = """
resources:
  - type: qdevice
    name: ibm_fez
    attributes: ibm
    with:
      - type: qpu
        count: 2
        attributes: {tier: gold, region: ""}
        with:
          - {type: qubit, count: 156}
  - type: simulator
    name: sv1
    count: 4
    parent: node3
attributes:
  ibm: {vendor: ibm, region: us, tier: ""}
"""


def only(text: str) -> VirtualResource:
    (resource,) = parse_resources(text).resources
    return resource


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing yet\n", "\ufeff", b""])
def test_a_file_without_content_is_a_classical_cluster(text: str | bytes) -> None:
    assert parse_resources(text).resources == ()


def test_a_forest_is_read_with_its_counts_and_parents() -> None:
    device, simulator = parse_resources(BACKENDS).resources
    (qpu,) = device.children
    (qubits,) = qpu.children
    assert (device.type, device.name, device.parent, device.count) == ("qdevice", "ibm_fez", "cluster", 1)
    assert (qpu.names, qpu.is_leaf) == (("qpu0", "qpu1"), False)
    assert (qubits.type, qubits.count, qubits.is_leaf, len(qubits.names)) == ("qubit", 156, True, 1)
    assert (simulator.names, simulator.parent, simulator.count) == (("sv1",), "node3", 4)
    assert device.vertices() == 5


def test_types_of_all_levels_are_known() -> None:
    assert parse_resources(BACKENDS).types == ("qdevice", "qpu", "qubit", "simulator")


def test_attributes_are_inherited_overridden_and_cleared() -> None:
    device = parse_resources(BACKENDS).resources[0]
    (qpu,) = device.children
    assert device.attributes == {"vendor": "ibm", "region": "us"}
    assert qpu.attributes == {"vendor": "ibm", "tier": "gold"}
    assert qpu.children[0].attributes == {"vendor": "ibm", "tier": "gold"}
    assert qpu.attributes is not qpu.children[0].attributes


def test_nameless_resources_are_counted_by_type_and_avoid_declared_names() -> None:
    file = parse_resources("resources: [{type: qpu}, {type: qpu, name: qpu1}, {type: qpu}, {type: sim}]")
    assert [one.names for one in file.resources] == [("qpu0",), ("qpu1",), ("qpu2",), ("sim0",)]


def test_copies_of_a_named_type_with_children_are_numbered() -> None:
    resource = only("resources: [{type: qpu, name: q, count: 3, with: [{type: qubit}]}]")
    assert resource.names == ("q0", "q1", "q2")


def test_json_is_read_too_even_with_tabs() -> None:
    text = '{\n\t"resources": [\n\t\t{"type": "qpu", "name": "a", "attributes": {"note": "a\\tb c"}}\n\t]\n}'
    with pytest.raises(ValueError, match="control characters"):
        parse_resources(text)
    resource = only(text.replace("\\t", " "))
    assert (resource.name, resource.attributes, resource.line) == ("a", {"note": "a b c"}, 3)


def test_anchors_and_merge_keys_bring_in_shared_parts() -> None:
    resources = parse_resources("""
resources:
  - &base
    type: qpu
    name: a
    attributes: &shared {vendor: ibm, region: us}
  - <<: *base
    name: b
    attributes:
      <<: *shared
      region: eu
""").resources
    assert [one.name for one in resources] == ["a", "b"]
    assert resources[1].attributes == {"vendor": "ibm", "region": "eu"}


def test_equal_names_in_different_backends_are_allowed() -> None:
    file = parse_resources("""
resources:
  - {type: qdevice, name: a, with: [{type: qpu, name: chip}]}
  - {type: qdevice, name: b, with: [{type: qpu, name: chip}]}
""")
    assert [one.children[0].name for one in file.resources] == ["chip", "chip"]
