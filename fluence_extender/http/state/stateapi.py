"""The state API: what the service knows, read-only, for people, tools and Prometheus.

Invariants: nothing here changes the plan; nothing is answered from a half-listed cluster (503 with the reason
instead); every answer says whether it is the leader's or a standby's; the documents need no file from another host.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from fluence_extender import __version__
from fluence_extender.http.listeners.head import HeadAsGet
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.port import Placements
from fluence_extender.http.state.beside import asking
from fluence_extender.http.state.probes import probes
from fluence_extender.http.state.problems import BadQuestion, refusal
from fluence_extender.http.state.simulate_route import simulate_route
from fluence_extender.http.state.state_routes import state_routes
from fluence_extender.matcher.errors import MatcherError

_DESCRIPTION = """Gangs and their histories, what their pods hold, nodes, virtual devices, and the resource graph.
Read-only.

Lists come whole, or in pages with `limit` and `continue`. Answers carry an `ETag`; with it in `If-None-Match` an answer
that hasn't changed is a 304. The header `Fluence-Leading` (in lists also `metadata.leading`) is `false` when a standby
answers from what it sees of the cluster."""


def api_app(placements: Placements, metrics: Metrics, scheduler: str = "") -> FastAPI:
    """The application of the state API, probes and metrics over ``placements``.

    ``scheduler`` is the health endpoint of the kube-scheduler beside us, "" where there is none to ask.
    """
    app = FastAPI(
        title="fluence-extender",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(state_routes(placements))
    app.include_router(simulate_route(placements))
    app.include_router(probes(placements, metrics, asking(scheduler)))
    app.add_middleware(HeadAsGet)
    app.add_exception_handler(BadQuestion, _no_answer)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(MatcherError, _no_graph)
    return app


async def _not_understood(request: Request, error: Exception) -> JSONResponse:
    """What is wrong with the request, in the same shape as every other problem."""
    assert isinstance(error, RequestValidationError)
    told = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
    return refusal(422, told)


async def _no_answer(request: Request, error: Exception) -> JSONResponse:
    return refusal(400, str(error))


async def _no_graph(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": f"not ready: the resource graph can't be loaded: {error}"}, 503)
