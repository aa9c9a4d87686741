"""The state API as a part of the API server (aggregation): its paths below ``/apis``, and its discovery document.

The API server passes on every path below ``/apis/GROUP/v1``, so those are the paths of ``/v1``, and metrics and the
OpenAPI document are there as well. The discovery document names no resources: generic clients, such as the controller
that empties a deleted namespace, have nothing to list or delete here.
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fluence_extender.model.names import STATE_GROUP, STATE_VERSION

ROOT = f"/apis/{STATE_GROUP}"
PREFIX = f"{ROOT}/{STATE_VERSION}"
ELSEWHERE = ("/metrics", "/openapi.json")
"""Paths of ours that aren't below ``/v1``, and that are below `PREFIX` for clients of the API server."""


class Aggregated:
    """Middleware that lets ``app`` answer the paths below `PREFIX` as its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path.startswith(f"{PREFIX}/"):
            rest = path.removeprefix(PREFIX)
            own = rest if rest in ELSEWHERE else f"/{STATE_VERSION}{rest}"
            scope = {**scope, "path": own, "raw_path": own.encode()}
        await self._app(scope, receive, send)


def discovery_route() -> APIRouter:
    """Return the route by which the API server finds out whether we serve; it shows nothing and is open to all."""
    router = APIRouter(include_in_schema=False)

    @router.get(PREFIX)
    async def resources() -> JSONResponse:
        document = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{STATE_GROUP}/{STATE_VERSION}",
            "resources": [],
        }
        return JSONResponse(document)

    return router
