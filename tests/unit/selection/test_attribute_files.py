"""Attribute files and offers: the backends that are read from them, and the messages for faults."""

import json

import pytest
from jsonschema import Draft202012Validator

from fluence_extender.graph.errors import InvalidResourcesFile
from fluence_extender.selection.attributes_file import attribute_schema, parse_attributes
from fluence_extender.selection.backend import Backend, parse_number, priced
from fluence_extender.selection.errors import InvalidAttributeFile
from fluence_extender.selection.offers import parse_offers

FILE = """
version: 1
backends:
  - name: rigetti_cepheus
    device_arn: arn:aws:braket:us-west-1::device/qpu/rigetti/Cepheus
    region: us-west-1
    provider: braket
    cost_per_task: 0.30
    cost_per_shot: 9e-4
    qubits: 108
    attributes: {memory_gb: 24, qubits: 7}
    strings: {gate_set: native, version: "2"}
  - name: "007"
"""


def faults(text: str) -> list[str]:
    with pytest.raises(InvalidAttributeFile) as caught:
        parse_attributes(text, "a.yaml")
    return str(caught.value).splitlines()


def test_file_is_read_with_numbers_and_texts() -> None:
    backend, bare = parse_attributes(FILE, "a.yaml")
    assert backend == Backend(
        "rigetti_cepheus",
        {"memory_gb": 24.0, "qubits": 108.0, "cost_per_task": 0.3, "cost_per_shot": 0.0009},
        {
            "gate_set": "native",
            "version": "2",
            "device_arn": "arn:aws:braket:us-west-1::device/qpu/rigetti/Cepheus",
            "region": "us-west-1",
            "provider": "braket",
        },
    )
    assert bare == Backend("007")


def test_a_json_file_is_read_like_yaml() -> None:
    document = {"backends": [{"name": "a", "cost_per_shot": 1e-7, "attributes": {"x": -2}}]}
    for text in (json.dumps(document), json.dumps(document, indent="\t")):
        assert parse_attributes(text, "a.json") == (Backend("a", {"cost_per_shot": 1e-7, "x": -2.0}),)


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(attribute_schema())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ["a.yaml: attribute file has no backends (list them under 'backends:')"]),
        ("backends: []", ["a.yaml:1: backends: attribute file has no backends (list one at least)"]),
        ("version: 1", ["a.yaml:1: has no 'backends' (add 'backends: ...')"]),
        ("- a", ["a.yaml:1: must be a map, not a list (write a map)"]),
        (
            "version: 2\nbackends: [{name: a}]",
            ["a.yaml:1: version: is version 2, and only 1 is known (write 'version: 1')"],
        ),
        (
            "backends:\n  - nam: a\n    qubits: many",
            [
                "a.yaml:2: backends[0]: has no 'name' (add 'name: ...')",
                "a.yaml:2: backends[0].nam: is an unknown key (did you mean 'name'?)",
                "a.yaml:3: backends[0].qubits: must be a number, not 'many' (write a number)",
            ],
        ),
        (
            "backends:\n  - name: a\n    cost_per_shot: -1\n    strings: {zone: 3}",
            [
                "a.yaml:3: backends[0].cost_per_shot: can't be negative: -1 (write 0 or more)",
                "a.yaml:4: backends[0].strings.zone: must be a text, not the number 3 (put it in quotes)",
            ],
        ),
        (
            "backends:\n  - name: a/b",
            [
                "a.yaml:2: backends[0].name: can't be a name: 'a/b'"
                " (use letters, digits and . _ : + -, beginning with a letter or digit)"
            ],
        ),
        (
            "backends:\n  - {name: a}\n  - {name: a}",
            ["a.yaml:3: backends[1].name: backend 'a' is given twice, first on line 2 (keep one of the two)"],
        ),
        ("backends: [", None),
        ("a: 1\n---\nb: 2", None),
    ],
)
def test_faults_have_line_place_and_fix(text: str, message: list[str] | None) -> None:
    if message is None:
        (only,) = faults(text)
        assert "isn't valid YAML" in only
    else:
        assert [line for line in faults(text) if line in message] == message


def test_texts_and_numbers_are_not_interchangeable() -> None:
    (line,) = faults("backends:\n  - name: a\n    strings: {zone: yes}")
    assert (
        line == "a.yaml:3: backends[0].strings.zone: must be a text, not the boolean yes (put it in quotes)"
    )
    (line,) = faults("backends:\n  - name: a\n    attributes: {x: big}")
    assert "backends[0].attributes.x: must be a number, not 'big'" in line
    (line,) = faults("backends:\n  - name: a\n    attributes: {x: .inf}")
    assert "backends[0].attributes.x: isn't a finite decimal number: .inf" in line


@pytest.mark.parametrize(
    ("text", "number"),
    [("3", 3.0), ("-0.5", -0.5), (".5", 0.5), ("1e3", 1000.0), ("10abc", None), ("", None), ("nan", None)],
)
def test_numbers_are_read_to_their_end(text: str, number: float | None) -> None:
    assert parse_number(text) == number


def test_costs_are_those_of_one_task() -> None:
    def cost(shots: int, **numbers: float) -> float | None:
        return priced(Backend("a", numbers), shots).number("cost")

    assert cost(1000, cost_per_task=0.3, cost_per_shot=0.001) == 1.3
    assert cost(100, cost_per_shot=0.01) == 1.0
    assert cost(5, cost_per_task=0.3, cost_usd=9.0) == 0.3
    assert cost(5, cost_per_minute=0.075) == 0.00375
    assert cost(5, cost_per_minute=0.075, cost_usd=9.0) == 9.0
    assert cost(5) is None
    # A simulator by the minute is cheaper than any processor by the task.
    assert (cost(1000, cost_per_minute=0.075) or 0) < (cost(1, cost_per_task=0.3) or 0)


def test_offers_are_the_top_level_devices_with_their_attributes() -> None:
    text = """
resources:
  - type: qdevice
    name: ibm_fez
    attributes: ibm
    with: [{type: qpu, name: inner, count: 2, with: [{type: qubit, count: 78}]}]
  - {type: accelerator, name: gpu-l4, attributes: {memory_gb: "24", cost: "0.80"}}
  - {type: simulator, name: sv1, count: 4}
  # - {type: simulator, name: commented}
attributes:
  ibm: {vendor: ibm}
"""
    fez, gpu, simulator = sorted(parse_offers(text, "cm"), key=lambda one: one.name != "ibm_fez")
    assert fez == Backend("ibm_fez", {"qubits": 156.0}, {"vendor": "ibm"})
    assert gpu == Backend("gpu-l4", {"memory_gb": 24.0, "cost": 0.8})
    assert gpu.number("cost_usd") == 0.8
    assert simulator == Backend("sv1")
    assert not simulator.described


def test_offers_in_json_and_without_devices() -> None:
    assert parse_offers('{"resources": [{"type": "qpu", "name": "a"}]}', "cm") == (Backend("a"),)
    assert parse_offers("# only a comment\n", "cm") == ()
    with pytest.raises(InvalidResourcesFile, match="cm:1: resources"):
        parse_offers("resources: [{name: a}]", "cm")
