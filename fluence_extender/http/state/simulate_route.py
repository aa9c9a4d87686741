"""What-if questions: the one POST of the state API, which changes nothing either."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import JSONResponse

from fluence_extender.http.port import NotSimulated, Placements, not_ready
from fluence_extender.http.state.parameters import only_known
from fluence_extender.http.state.problems import refusal
from fluence_extender.http.state.views import Problem, Refusal

MOST_BYTES = 4 * 2**20

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
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "What would become of each gang.",
        "content": {"application/json": {"example": _ANSWER}},
    },
    400: {
        "model": Refusal,
        "description": "The manifests can't be read or make no pods, or a parameter isn't known.",
    },
    422: {"model": Refusal, "description": "A parameter has no possible value."},
    413: {"model": Refusal, "description": "More than 4 MiB."},
    429: {"model": Refusal, "description": "Too many questions at once."},
    503: {"model": Problem, "description": "Not ready yet; the reason is in `detail`."},
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/yaml": {"schema": {"type": "string"}}, "application/json": {}},
    }
}


def simulate_route(placements: Placements) -> APIRouter:
    """``POST /v1/simulate`` over ``placements``."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(only_known)], tags=["what-if"])

    @router.post("/simulate", summary="Would it fit", responses=_RESPONSES, openapi_extra=_BODY)
    async def simulate(
        request: Request,
        namespace: Annotated[
            str, Query(description="Of objects that say none.", examples=["default"])
        ] = "default",
    ) -> JSONResponse:
        """Plan the gangs of some manifests (YAML or JSON) on a copy of the ledger: where, or why not and until when."""
        if not placements.ready:
            raise HTTPException(503, detail=not_ready(placements))
        try:
            return JSONResponse(await placements.simulate(await _body(request), namespace))
        except NotSimulated as refused:
            return refusal(refused.status, str(refused))

    return router


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise NotSimulated(413, f"more than {MOST_BYTES // 2**20} MiB")
        parts.append(part)
    return b"".join(parts)
