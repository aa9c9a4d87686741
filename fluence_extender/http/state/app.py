"""The application of the state API: the state of the service, read-only, for people, tools and Prometheus.

Invariants: no request changes the plan. Before the cluster is listed in full, requests get a 503 with the reason. Every
answer says whether it comes from the leader or from a standby. The documents need no file from another host.
"""

from __future__ import annotations

from fastapi import FastAPI

from fluence_extender import __version__
from fluence_extender.http.listeners.gate import AccessGate, OpenGate
from fluence_extender.http.metrics import Metrics
from fluence_extender.http.state.aggregation import Aggregated, discovery_route
from fluence_extender.http.state.health import health_routes
from fluence_extender.http.state.history_routes import history_routes
from fluence_extender.http.state.openapi import describe
from fluence_extender.http.state.problems import handle_problems
from fluence_extender.http.state.routes import state_routes
from fluence_extender.http.state.service import ServiceState
from fluence_extender.http.state.simulate import simulate_route

_DESCRIPTION = """Gangs and their histories, what their pods hold, nodes, virtual devices, and the resource graph.
Read-only.

Answers carry an `ETag`; with it in `If-None-Match` an answer that hasn't changed is a 304. The header `Fluence-Leading`
(in lists also `metadata.leading`) is `false` when a standby answers from what it sees of the cluster."""


def api_app(
    service: ServiceState, metrics: Metrics, scheduler: str = "", gate: AccessGate | None = None
) -> FastAPI:
    """Return the application of the state API, probes and metrics over ``service``.

    ``scheduler`` is the health endpoint of the kube-scheduler in the same pod, "" if there is none. ``gate`` decides
    who sees what; without one everyone sees everything. Probes are open to all.
    """
    gate = gate or OpenGate()
    app = FastAPI(
        title="fluence-extender",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(state_routes(service, gate))
    app.include_router(simulate_route(service, gate))
    app.include_router(history_routes(service, gate))
    app.include_router(health_routes(service, metrics, scheduler, gate))
    app.include_router(discovery_route())
    app.add_middleware(Aggregated)
    handle_problems(app)
    describe(app)
    return app
