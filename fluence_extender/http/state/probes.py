"""Liveness, readiness and metrics, beside the state API."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from fluence_extender.http.metrics import Metrics
from fluence_extender.http.port import Placements, not_ready
from fluence_extender.http.state.beside import Ask


def probes(placements: Placements, metrics: Metrics, scheduler: Ask) -> APIRouter:
    """The routes that kubelet and Prometheus ask; ``scheduler`` asks the kube-scheduler beside us."""
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get("/healthz", summary="Liveness")
    async def healthz() -> PlainTextResponse:
        """Answers while the process serves."""
        return PlainTextResponse("ok\n")

    @router.get(
        "/livez/scheduler",
        summary="Liveness of the scheduler",
        responses={
            503: {"description": "The kube-scheduler beside the service doesn't live; the text says why."}
        },
    )
    async def scheduler_livez() -> PlainTextResponse:
        """Answers 200 while the process serves and the kube-scheduler beside it says that it lives."""
        problem = await scheduler()
        return PlainTextResponse(f"{problem}\n", 503) if problem else PlainTextResponse("ok\n")

    @router.get(
        "/readyz", summary="Readiness", responses={503: {"description": "Not ready; the text says why."}}
    )
    async def readyz() -> PlainTextResponse:
        """Answers 200 once the cluster is listed and replayed, also where another replica leads."""
        if placements.ready:
            return PlainTextResponse("ok\n" if placements.leading else "standby\n")
        return PlainTextResponse(f"{not_ready(placements)}\n", 503)

    @router.get("/metrics", summary="Metrics")
    async def exposition(request: Request) -> Response:
        """Prometheus metrics, in the text format or OpenMetrics."""
        metrics.mirror(placements)
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(body, media_type=content_type)

    return router
