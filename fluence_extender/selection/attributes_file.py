"""The attribute file: what backends can do and cost.

    version: 1
    backends:
      - name: rigetti_cepheus
        device_arn: arn:aws:braket:us-west-1::device/qpu/rigetti/Cepheus
        region: us-west-1
        provider: braket
        cost_per_task: 0.30
        cost_per_shot: 0.0009
        qubits: 108
        attributes: {memory_gb: 24}   # numbers, under any name
        strings: {gate_set: native}   # texts, under any name

Its format is ``attributes.schema.json`` in this package. Invariant: a file with any fault describes no backend, and
every fault is reported with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fluence_extender.graph.document import Item, child_path, read_document
from fluence_extender.graph.errors import Problem
from fluence_extender.graph.naming_rules import nearest
from fluence_extender.selection.backend import PER_MINUTE, PER_SHOT, PER_TASK, QUBITS, Backend, parse_number
from fluence_extender.selection.errors import InvalidAttributeFile

if TYPE_CHECKING:
    from jsonschema import ValidationError

_TEXTS = ("device_arn", "region", "provider")
_NUMBERS = (PER_TASK, PER_SHOT, PER_MINUTE, QUBITS)
_NAMES = {
    "object": "a map",
    "array": "a list",
    "string": "a text",
    "number": "a number",
}


def attribute_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the file."""
    text = files("fluence_extender.selection").joinpath("attributes.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def parse_attributes(text: str, source: str) -> tuple[Backend, ...]:
    """Return the backends of an attribute file, YAML or JSON; ``source`` is its name in messages.

    Raise `InvalidAttributeFile` with all faults.
    """
    document, problems = read_document(text, source)
    if document is None and not problems:
        problems = [Problem(source, "", 0, "attribute file has no backends", "list them under 'backends:'")]
    if not problems and document is not None:
        problems = [*_schema_problems(document, source), *_repeated(document, source)]
    if problems:
        ordered = sorted(problems, key=lambda problem: problem.line)
        raise InvalidAttributeFile("\n".join(map(str, ordered)))
    assert document is not None
    return tuple(_backend(entry) for entry in _value(document)["backends"])


def _backend(entry: Mapping[str, Any]) -> Backend:
    numbers = {**entry.get("attributes", {}), **{key: entry[key] for key in _NUMBERS if key in entry}}
    strings = {**entry.get("strings", {}), **{key: entry[key] for key in _TEXTS if key in entry}}
    return Backend(
        entry["name"],
        {key: float(value) for key, value in numbers.items()},
        {key: value for key, value in strings.items() if key not in numbers},
    )


def _value(item: Item, texts: bool = False) -> Any:
    """Return an item as a plain value for the schema; with ``texts`` a text that looks like a number stays a text."""
    if item.kind == "map":
        return {
            key: _value(one, texts or key in ("strings", "name", *_TEXTS))
            for key, one in item.entries.items()
        }
    if item.kind == "list":
        return [_value(one) for one in item.items]
    if item.kind == "null":
        return None
    if item.kind == "boolean":
        return item.text.lower() in ("true", "yes", "on", "y")
    # 1e-3 is a text in YAML 1.1 and a number in JSON.
    number = parse_number(item.text) if item.kind == "number" or not texts else None
    if number is None:
        return item.text
    return int(number) if number.is_integer() else number


def _schema_problems(document: Item, source: str) -> Iterator[Problem]:
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(attribute_schema()).iter_errors(_value(document)):
        yield from _problems(error, document, source)


def _problems(error: ValidationError, document: Item, source: str) -> Iterator[Problem]:
    item = _at(document, error.absolute_path)
    match error.validator:
        case "additionalProperties":
            allowed = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
            for key, one in item.entries.items():
                if key not in allowed:
                    path = child_path(item.path, key)
                    yield Problem(source, path, one.line, "is an unknown key", nearest(key, list(allowed)))
        case "required":
            required: Any = error.validator_value
            for key in [key for key in required if key not in item.entries]:
                yield Problem(source, item.path, item.line, f"has no {key!r}", f"add '{key}: ...'")
        case "minItems":
            yield Problem(source, item.path, item.line, "attribute file has no backends", "list one at least")
        case "type":
            if item.kind == error.validator_value == "number":
                message = f"isn't a finite decimal number: {item.text}"
                yield Problem(source, item.path, item.line, message, "write e.g. 0.5")
                return
            wanted = _NAMES.get(str(error.validator_value), str(error.validator_value))
            fix = "put it in quotes" if wanted == "a text" and item.text else f"write {wanted}"
            yield Problem(source, item.path, item.line, f"must be {wanted}, not {item}", fix)
        case "minimum":
            yield Problem(source, item.path, item.line, f"can't be negative: {item.text}", "write 0 or more")
        case "const":
            message = f"is version {item.text}, and only {error.validator_value} is known"
            yield Problem(source, item.path, item.line, message, "write 'version: 1'")
        case _:
            fix = "use letters, digits and . _ : + -, beginning with a letter or digit"
            yield Problem(source, item.path, item.line, f"can't be a name: {item}", fix)


def _at(document: Item, path: Any) -> Item:
    item = document
    for step in path:
        item = item.items[step] if isinstance(step, int) else item.entries[step]
    return item


def _repeated(document: Item, source: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    listed = document.entries.get("backends")
    for entry in listed.items if listed is not None else ():
        name = entry.entries.get("name")
        if name is None or name.kind != "text":
            continue
        line = first.setdefault(name.text, name.line)
        if line != name.line:
            message = f"backend {name.text!r} is given twice, first on line {line}"
            yield Problem(source, name.path, name.line, message, "keep one of the two")
