"""The OpenAPI document: routes are described by FastAPI, and the values that they send by their Structs."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI

from fluence_extender.api.gangs import Allocation, Gang, GangDetail
from fluence_extender.api.nodes import Backend, GraphDocument, Node, NodeDetail
from fluence_extender.api.past import UsageRow, WorkRecord
from fluence_extender.api.queues import QueueEntry, QueueSummary, ReservedNodes
from fluence_extender.api.values import ListOf, Problem, Refusal
from fluence_extender.http.state.problems import JSON

VALUES: tuple[Any, ...] = (
    *(ListOf[Gang], ListOf[Allocation], ListOf[Node], ListOf[Backend]),
    *(ListOf[QueueSummary], ListOf[QueueEntry], ListOf[ReservedNodes], ListOf[UsageRow], ListOf[WorkRecord]),
    *(GangDetail, NodeDetail, GraphDocument, Problem, Refusal),
)
"""The values that routes send."""

_REFERENCES, _COMPONENTS = msgspec.json.schema_components(VALUES, ref_template="#/components/schemas/{name}")
_SCHEMAS = dict(zip(VALUES, _REFERENCES, strict=True))

Answers = dict[int | str, dict[str, Any]]


def answer(value: Any, description: str = "Successful Response") -> dict[str, Any]:
    """Return the description of an answer that is one of `VALUES`."""
    return {"description": description, "content": {JSON: {"schema": _SCHEMAS[value]}}}


def describe(app: FastAPI) -> None:
    """Make the document of ``app`` contain the schemas to which its answers refer."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, schema in _COMPONENTS.items():
            closed = {"additionalProperties": False} if "properties" in schema else {}
            schemas[name] = {**schema, **closed}
        return document

    app.openapi = openapi  # type: ignore[method-assign]
