"""The routes below /v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response

from fluence_extender.http.port import Placements, not_ready
from fluence_extender.http.state.answers import Answers
from fluence_extender.http.state.lists import Page
from fluence_extender.http.state.parameters import only_known
from fluence_extender.http.state.state import AllocationView, DeviceView, GangView, NodeView
from fluence_extender.http.state.views import (
    Allocation,
    Backend,
    Gang,
    GangDetail,
    GraphDocument,
    ListOf,
    Node,
    NodeDetail,
    Problem,
    Refusal,
)
from fluence_extender.model.gang import Convention

V = TypeVar("V")

State = Literal["waiting", "planned", "committed", "bound", "finished", "gone"]

Limit = Annotated[
    int, Query(ge=0, le=100_000, description="How many items at most; 0 for all.", examples=[500])
]
Continue = Annotated[
    str,
    Query(
        alias="continue",
        description="`metadata.continue` of the page before; everything else as it was asked for that page.",
    ),
]
Namespace = Annotated[str, Query(description="Only of this namespace.", examples=["default"])]
OnNode = Annotated[str, Query(description="Only what is on this node.", examples=["n7"])]
OfBackend = Annotated[str, Query(description="Only of this backend.", examples=["ibm-a"])]

_EVERYWHERE: dict[int | str, dict[str, Any]] = {
    304: {"description": "What `If-None-Match` names is still the newest."},
    400: {"model": Refusal, "description": "A parameter isn't known."},
    422: {"model": Refusal, "description": "A parameter has no possible value."},
    503: {"model": Problem, "description": "Not ready yet; the reason is in `detail`."},
}
_LISTS: dict[int | str, dict[str, Any]] = {
    400: {
        "model": Refusal,
        "description": "A parameter isn't known, or `continue` isn't a token of this list.",
    },
}


def state_routes(placements: Placements) -> APIRouter:
    """The routes over ``placements``."""

    async def ready() -> None:
        if not placements.ready:
            raise HTTPException(503, detail=not_ready(placements))

    checks = [Depends(ready), Depends(only_known)]
    router = APIRouter(prefix="/v1", dependencies=checks, responses=_EVERYWHERE, tags=["state"])
    answers = Answers(placements)
    _gangs_route(router, placements, answers)
    _gang_route(router, placements, answers)
    _allocation_routes(router, placements, answers)
    _node_routes(router, placements, answers)
    _device_routes(router, placements, answers)
    return router


def _gangs_route(router: APIRouter, placements: Placements, answers: Answers) -> None:
    @router.get("/gangs", response_model=ListOf[Gang], summary="All gangs", responses=_LISTS)
    async def gangs(
        request: Request,
        namespace: Namespace = "",
        state: Annotated[State | None, Query(description="Only gangs in this state.")] = None,
        node: OnNode = "",
        backend: OfBackend = "",
        gone: Annotated[bool, Query(description="With gangs whose pods are gone, for an hour.")] = False,
        limit: Limit = 0,
        continue_: Continue = "",
    ) -> Response:
        """Every gang that is known, by namespace and name."""
        keep = _all_of(
            GangView,
            (namespace, lambda gang: gang.namespace == namespace),
            (state, lambda gang: gang.state == state),
            (node, lambda gang: any(member.node == node for member in gang.members)),
            (backend, lambda gang: any(member.backend == backend for member in gang.members)),
        )
        listing = placements.gangs(gone or state == "gone")
        return answers.listing(request, listing, Page("gangs", limit, continue_), keep)


def _gang_route(router: APIRouter, placements: Placements, answers: Answers) -> None:
    @router.get(
        "/gangs/{namespace}/{name:path}",
        response_model=GangDetail,
        summary="One gang and its history",
        responses={404: {"model": Problem, "description": "No gang of that name, nor was there one lately."}},
    )
    async def gang(
        request: Request,
        namespace: str,
        name: str,
        convention: Annotated[
            Convention | None, Query(description="Which one, where several have the same name.")
        ] = None,
    ) -> Response:
        """One gang by its name, with what its members ask for and what has happened to it so far.

        A gang whose pods are gone is remembered for an hour.
        """
        found = placements.gang(namespace, name, convention or "")
        if found is None:
            raise HTTPException(404, detail=f"no gang {namespace}/{name}")
        return answers.one(
            request,
            found.revision,
            found.gang,
            asks=found.asks,
            history=found.history,
            forgotten=found.forgotten,
        )


def _allocation_routes(router: APIRouter, placements: Placements, answers: Answers) -> None:
    @router.get("/allocations", response_model=ListOf[Allocation], summary="What pods hold", responses=_LISTS)
    async def allocations(
        request: Request,
        namespace: Namespace = "",
        node: OnNode = "",
        backend: OfBackend = "",
        limit: Limit = 0,
        continue_: Continue = "",
    ) -> Response:
        """What each pod of ours holds, by namespace and pod; planned and committed shares included."""
        keep = _all_of(
            AllocationView,
            (namespace, lambda held: held.namespace == namespace),
            (node, lambda held: held.node == node),
            (backend, lambda held: held.backend == backend),
        )
        page = Page("allocations", limit, continue_)
        return answers.listing(request, placements.allocations(), page, keep)


def _node_routes(router: APIRouter, placements: Placements, answers: Answers) -> None:
    @router.get("/nodes", response_model=ListOf[Node], summary="All nodes", responses=_LISTS)
    async def nodes(
        request: Request,
        schedulable: Annotated[
            bool | None,
            Query(description="Only nodes that are open to pods without tolerations, or only others."),
        ] = None,
        limit: Limit = 0,
        continue_: Continue = "",
    ) -> Response:
        """What each node has, who uses it, what is free, and why nothing new may land there."""
        keep = _all_of(NodeView, (schedulable is not None, lambda node: node.schedulable == schedulable))
        return answers.listing(request, placements.nodes(), Page("nodes", limit, continue_), keep)

    @router.get(
        "/nodes/{name}",
        response_model=NodeDetail,
        summary="One node and the pods that use it",
        responses={404: {"model": Problem, "description": "No node of that name."}},
    )
    async def node(request: Request, name: str) -> Response:
        """One node with every pod that uses it, ours and others'."""
        found = placements.node(name)
        if found is None:
            raise HTTPException(404, detail=f"no node {name}")
        return answers.one(request, found.revision, found.node, pods=found.pods)


def _device_routes(router: APIRouter, placements: Placements, answers: Answers) -> None:
    @router.get("/backends", response_model=ListOf[Backend], summary="Virtual devices", responses=_LISTS)
    async def backends(
        request: Request,
        type_: Annotated[
            str, Query(alias="type", description="Only devices of this type.", examples=["qpu"])
        ] = "",
        backend: OfBackend = "",
        node: OnNode = "",
        usable: Annotated[
            bool | None, Query(description="Only devices that can be asked for, or only others.")
        ] = None,
        limit: Limit = 0,
        continue_: Continue = "",
    ) -> Response:
        """Every virtual device: what it is, what of it is free, who holds the rest, why it can't be used."""
        keep = _all_of(
            DeviceView,
            (type_, lambda device: device.type == type_),
            (backend, lambda device: device.backend == backend),
            (node, lambda device: device.node == node),
            (usable is not None, lambda device: device.usable == usable),
        )
        return answers.listing(request, placements.backends(), Page("backends", limit, continue_), keep)

    @router.get(
        "/graph",
        response_model=GraphDocument,
        summary="The resource graph",
        responses={
            400: {
                "model": Refusal,
                "description": "A parameter isn't known, or it is too large with a vertex for each unit.",
            }
        },
    )
    async def graph(
        request: Request,
        expand: Annotated[
            bool,
            Query(description="One vertex for each unit, instead of one with a size for equal leaves."),
        ] = False,
    ) -> Response:
        """The resource graph in JSON Graph Format, as the matcher sees the cluster now."""
        return await answers.graph(request, placements.graph(expand))


def _all_of(_: type[V], *conditions: tuple[object, Callable[[V], bool]]) -> Callable[[V], bool] | None:
    """A filter of items of a type by those conditions that were asked for; None when none was."""
    asked = [condition for wanted, condition in conditions if wanted]
    if not asked:
        return None
    return lambda view: all(condition(view) for condition in asked)
