"""A check of answers against the OpenAPI document that describes them."""

from __future__ import annotations

import re
from typing import Any

from jsonschema import Draft202012Validator

Document = dict[str, Any]


def problems(document: Document, path: str, status: int, answer: Any) -> list[str]:
    """Return what is wrong with ``answer`` to a GET of ``path`` (without its query)."""
    schema = answer_schema(document, path, status)
    validator = Draft202012Validator({**schema, "components": document["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(answer)]


def answer_schema(document: Document, path: str, status: int) -> Document:
    """Return the schema of an answer to ``path``, found by the route it matches."""
    route = next(route for route in document["paths"] if _pattern(route).fullmatch(path))
    answers = document["paths"][route]["get"]["responses"]
    schema: Document = answers[str(status)]["content"]["application/json"]["schema"]
    return schema


def example_of(document: Document, schema: Document) -> Any:
    """Return an answer made of the examples of a schema's fields."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        named = schema["$ref"].rpartition("/")[2]
        return example_of(document, document["components"]["schemas"][named])
    if schema.get("type") == "array":
        return [example_of(document, schema["items"])]
    if "properties" in schema:
        return {name: example_of(document, one) for name, one in schema["properties"].items()}
    return {}


def _pattern(route: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{name\}", ".+", re.sub(r"\{namespace\}", "[^/]+", route)))
