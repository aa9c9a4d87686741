"""What-if questions: the only POST of the state API. It changes nothing either."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response

from fluence_extender.api.values import Problem, Refusal
from fluence_extender.cluster.errors import ClusterError
from fluence_extender.http.listeners.bodies import Bodies, Disconnected, RequestRefused
from fluence_extender.http.listeners.gate import AccessGate
from fluence_extender.http.readiness import not_ready
from fluence_extender.http.state.openapi import Answers, answer
from fluence_extender.http.state.problems import JSON, only_known, refusal
from fluence_extender.http.state.service import ServiceState
from fluence_extender.kinds.pod_sets import BadManifest
from fluence_extender.model.access import CallerSight, new_pods_in, pods_in
from fluence_extender.whatif.simulator import TooManyQuestions

MOST_BYTES = 4 * 2**20
MOST_BODIES = 8
"""The most bodies that arrive at the same time."""

NOT_JSON = (
    f"send an array of objects as JSON, with Content-Type: {JSON}; kubectl fluence simulate reads YAML files"
)

_ANSWER: dict[str, Any] = {
    "fits": False,
    "gangs": [
        {
            "gang": "default/train",
            "members": 16,
            "fits": False,
            "reason": "busy: 12 of 16 fit now, short of nvidia.com/gpu",
            "why": "Busy",
            "placement": [],
            "earliestStart": "2026-06-30T12:00:00Z",
            "earliestIn": "1h30m",
            "preemption": {
                "outcome": "Preempts",
                "text": "would preempt 1 gang (4 pods): default/low (4)",
                "victims": [
                    {"gang": "default/low", "priority": 0, "pods": 4, "members": 4, "surplus": False}
                ],
                "hidden": 0,
                "placement": [{"pod": "train-0", "node": "n0", "backend": "", "devices": []}],
            },
            "reductions": [
                {"what": "members", "wanted": "16", "fitting": "12", "text": "12 of 16 members fit"}
            ],
        }
    ],
    "ignored": ["Service default/train"],
    "notes": [],
}
_RESPONSES: Answers = {
    200: {
        "description": "What would become of each gang.",
        "content": {"application/json": {"example": _ANSWER}},
    },
    400: answer(
        Refusal, "The manifests can't be read, make no pods or too many, or a parameter isn't known."
    ),
    401: answer(Refusal, "The caller isn't identified."),
    403: answer(Refusal, "The caller may not list or create pods in a namespace of the objects."),
    422: answer(Refusal, "A parameter has no possible value."),
    408: answer(Refusal, "The body didn't arrive within 10 s."),
    413: answer(Refusal, "More than 4 MiB."),
    415: answer(Refusal, "The body isn't said to be JSON."),
    429: answer(Refusal, "Too many questions at once."),
    503: answer(Problem, "Not ready yet; the reason is in `detail`."),
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"type": "array", "items": {"type": "object"}}}},
    }
}


def simulate_route(service: ServiceState, gate: AccessGate) -> APIRouter:
    """Return the route ``POST /v1/simulate`` over ``service``; ``gate`` decides what of an answer the caller sees."""
    bodies = Bodies(MOST_BYTES, MOST_BODIES * MOST_BYTES, MOST_BODIES)
    router = APIRouter(prefix="/v1", dependencies=[Depends(only_known)], tags=["what-if"])

    @router.post("/simulate", summary="Would it fit", responses=_RESPONSES, openapi_extra=_BODY)
    async def simulate(
        request: Request,
        namespace: Annotated[
            str, Query(description="Of objects that declare none.", examples=["default"])
        ] = "default",
    ) -> Response:
        """Plan the gangs of an array of objects on a copy of the ledger: where, or why not and until when.

        A single object is taken as well, and so are Lists. The caller needs the rights to list pods and to create
        them in the namespaces of the objects.
        """
        caller = await gate.admit(request.scope)
        if service.readiness.not_ready_reason:
            raise HTTPException(503, detail=not_ready(service.readiness.not_ready_reason))
        sent = request.headers.get("Content-Type", JSON).partition(";")[0].strip().lower()
        if sent != JSON:
            return refusal(415, NOT_JSON)
        address = request.client.host if request.client is not None else ""
        client = f"user {caller.share}" if caller is not None else f"address {address}"

        async def permit(namespace: str) -> None:
            await gate.demand(request.scope, pods_in(namespace))
            await gate.demand(request.scope, new_pods_in(namespace))

        async def see(namespaces: frozenset[str]) -> CallerSight:
            return await gate.sight(request.scope, lambda: namespaces)

        try:
            body = await bodies.read(request.receive)
            return JSONResponse(await service.simulate(body, namespace, client, permit, see))
        except RequestRefused as error:
            return refusal(error.status, str(error))
        except Disconnected:
            return refusal(400, "the body is cut short")
        except BadManifest as error:
            return refusal(400, str(error))
        except TooManyQuestions as error:
            return refusal(429, str(error))
        except ClusterError as error:
            raise HTTPException(503, detail=f"the pods couldn't be tried: {error}") from None

    return router
