"""The page of the state API, from the OpenAPI document that the service has at /openapi.json."""

from __future__ import annotations

from typing import Any, cast

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.app import api_app
from fluence_extender.http.state.service import ServiceState
from website.tables import table


class _Unasked:
    """A service for an application that answers no request: whatever its routes take from it is None."""

    def __getattr__(self, name: str) -> None:
        return None


def api() -> str:
    """Return the page."""
    document = api_app(cast(ServiceState, _Unasked()), Metrics()).openapi()
    schemas = document["components"]["schemas"]
    text = [
        "# Paths and documents of the state API\n\nHow it is reached, and who sees what: [The state API](../api.md).\n",
        f"{document['info']['description']}\n",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            text.append(_operation(f"{method.upper()} {path}", operation))
    text.append("## Documents\n")
    text += [_document(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join(text)


def _operation(name: str, operation: dict[str, Any]) -> str:
    rows = [
        (f"`{one['name']}`", one["in"], _kind(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    answers = [
        (code, _answer(answer), answer["description"]) for code, answer in operation["responses"].items()
    ]
    return (
        f"## {name}\n\n{operation.get('description') or operation['summary']}\n\n"
        f"{table(('parameter', 'in', 'type', 'meaning'), rows)}\n{table(('answer', 'document', 'when'), answers)}"
    )


def _answer(answer: dict[str, Any]) -> str:
    return ", ".join(_kind(one["schema"]) for one in answer.get("content", {}).values() if "schema" in one)


def _document(name: str, schema: dict[str, Any]) -> str:
    rows = [
        (f"`{field}`", _kind(part), part.get("description", ""))
        for field, part in schema.get("properties", {}).items()
    ]
    said = "".join(f"{one}\n\n" for one in (schema.get("description"), "" if rows else _kind(schema)) if one)
    return f"### {name}\n\n{said}{table(('field', 'type', 'meaning'), rows)}"


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a value in a word or two, that of a document as a link to it."""
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": list(parts)}:
            return " or ".join(map(_kind, parts))
        case {"enum": list(values)}:
            return " or ".join(f"`{one}`" for one in values)
        case {"type": "array", "items": items}:
            return f"list of {_kind(items)}"
        case {"type": str(kind), "format": str(form)}:
            return f"{kind} ({form})"
        case {"type": str(kind)}:
            return kind
    return "any"
