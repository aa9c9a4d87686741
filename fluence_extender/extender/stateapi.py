"""The state API: what the service knows, read-only, for people, tools and Prometheus.

Invariants: nothing here changes the plan; nothing is answered from a half-listed cluster (503 with the reason
instead); the documents need no file from another host.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from fluence_extender import __version__
from fluence_extender.extender.documents import encoded, streamed
from fluence_extender.extender.metrics import Metrics
from fluence_extender.extender.port import GangView, Placements
from fluence_extender.extender.views import Allocation, Gang, Problem
from fluence_extender.graph.jgf import GraphTooLarge

_DESCRIPTION = "Gangs, what their pods hold, and the resource graph they are placed on. Read-only."
_JSON = "application/json"


def api_app(placements: Placements, metrics: Metrics) -> FastAPI:
    """The application of the state API, probes and metrics over ``placements``."""
    app = FastAPI(
        title="fluence-extender",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(_state(placements))
    app.include_router(_probes(placements, metrics))
    return app


def _state(placements: Placements) -> APIRouter:
    async def ready() -> None:
        if not placements.ready:
            raise HTTPException(503, detail=f"not ready: {placements.not_ready_reason or 'starting'}")

    not_ready: dict[int | str, dict[str, Any]] = {503: {"model": Problem, "description": "Not ready yet."}}
    router = APIRouter(prefix="/v1", dependencies=[Depends(ready)], responses=not_ready, tags=["state"])

    @router.get("/gangs", response_model=list[Gang], summary="All gangs")
    async def gangs() -> Response:
        """Every gang that is known, by namespace and name."""
        return Response(encoded(placements.gangs()), media_type=_JSON)

    @router.get(
        "/gangs/{namespace}/{name:path}",
        response_model=Gang,
        summary="One gang",
        responses={404: {"model": Problem, "description": "No gang of that name."}},
    )
    async def gang(namespace: str, name: str) -> Response:
        """One gang by its name."""
        return Response(encoded(_find(placements, namespace, name)), media_type=_JSON)

    @router.get("/allocations", response_model=list[Allocation], summary="What pods hold")
    async def allocations() -> Response:
        """What each pod of ours holds, by namespace and pod; planned and committed shares included."""
        return Response(encoded(placements.allocations()), media_type=_JSON)

    @router.get(
        "/graph",
        response_model=dict[str, Any],
        summary="The resource graph",
        responses={400: {"model": Problem, "description": "Too large with a vertex for each unit."}},
    )
    async def graph(
        expand: Annotated[
            bool,
            Query(description="One vertex for each unit, instead of one with a count for equal leaves."),
        ] = False,
    ) -> Response:
        """The resource graph in JSON Graph Format, as the matcher sees the cluster now."""
        try:
            document = placements.graph(expand)
        except GraphTooLarge as error:
            raise HTTPException(400, detail=f"{error}; ask without expand") from None
        return StreamingResponse(streamed(document), media_type=_JSON)

    return router


def _find(placements: Placements, namespace: str, name: str) -> GangView:
    for gang in placements.gangs():
        if gang.name == name and gang.namespace == namespace:
            return gang
    raise HTTPException(404, detail=f"no gang {namespace}/{name}")


def _probes(placements: Placements, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get("/healthz", summary="Liveness")
    async def healthz() -> PlainTextResponse:
        """Answers while the process serves."""
        return PlainTextResponse("ok\n")

    @router.get(
        "/readyz", summary="Readiness", responses={503: {"description": "Not ready; the text says why."}}
    )
    async def readyz() -> PlainTextResponse:
        """Answers 200 once the cluster is listed and replayed."""
        if placements.ready:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"not ready: {placements.not_ready_reason or 'starting'}\n", 503)

    @router.get("/metrics", summary="Metrics")
    async def exposition(request: Request) -> Response:
        """Prometheus metrics, in the text format or OpenMetrics."""
        metrics.mirror(placements)
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(body, media_type=content_type)

    return router
