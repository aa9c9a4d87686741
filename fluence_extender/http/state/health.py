"""Liveness, readiness, metrics, and the health of the kube-scheduler in the same pod.

The liveness probe of kube-scheduler's container is sent to this service, which passes it on. So the kubelet restarts
kube-scheduler also if this service is gone or hangs. kube-scheduler then releases its Lease, and another replica can
lead. A container has only one liveness probe, so it can't check kube-scheduler and the extender separately.
"""

from __future__ import annotations

import aiohttp
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from fluence_extender.http.listeners.gate import AccessGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.readiness import not_ready
from fluence_extender.http.state.service import ServiceState
from fluence_extender.model.access import METRICS

SCHEDULER_TIMEOUT = aiohttp.ClientTimeout(total=4.0)


def health_routes(service: ServiceState, metrics: Metrics, scheduler: str, gate: AccessGate) -> APIRouter:
    """Return the routes for the kubelet, which are open to all, and for Prometheus, which ``gate`` decides about.

    ``scheduler`` is the health endpoint of the kube-scheduler in the same pod, "" if there is none.
    """
    readiness = service.readiness
    router = APIRouter(tags=["operation"], default_response_class=PlainTextResponse)

    @router.get("/healthz", summary="Liveness")
    async def healthz() -> PlainTextResponse:
        """Answers while the process serves."""
        return PlainTextResponse("ok\n")

    @router.get(
        "/livez/scheduler",
        summary="Liveness of the scheduler",
        responses={
            503: {"description": "The kube-scheduler in the service's pod isn't alive; the text says why."}
        },
    )
    async def scheduler_livez() -> PlainTextResponse:
        """Answers 200 while the process serves and the kube-scheduler in its pod reports that it is alive."""
        problem = await _scheduler_problem(scheduler)
        return PlainTextResponse(f"{problem}\n", 503) if problem else PlainTextResponse("ok\n")

    @router.get(
        "/readyz", summary="Readiness", responses={503: {"description": "Not ready; the text says why."}}
    )
    async def readyz() -> PlainTextResponse:
        """Answers 200 once the cluster is listed and replayed, also while another replica leads."""
        if readiness.not_ready_reason:
            return PlainTextResponse(f"{not_ready(readiness.not_ready_reason)}\n", 503)
        return PlainTextResponse("ok\n" if readiness.leading else "standby\n")

    @router.get("/metrics", summary="Metrics")
    async def exposition(request: Request) -> Response:
        """Prometheus metrics, in the text format or OpenMetrics."""
        await gate.demand(request.scope, METRICS)
        metrics.set_gauges(*service.counts(), not readiness.not_ready_reason, readiness.leading)
        metrics.set_queues(service.queue_counts(), service.untried_for())
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(body, media_type=content_type)

    return router


async def _scheduler_problem(url: str) -> str:
    """Return what is wrong with the kube-scheduler whose health endpoint is ``url``, "" if nothing is."""
    if not url:
        return ""
    try:
        # On loopback inside the pod, with a certificate that the scheduler has signed itself.
        async with (
            aiohttp.ClientSession(timeout=SCHEDULER_TIMEOUT) as session,
            session.get(url, ssl=False) as response,
        ):
            return "" if response.status == 200 else f"{url} answers {response.status}"
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return f"{url} doesn't answer: {str(error) or type(error).__name__}"
