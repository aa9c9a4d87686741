"""The routes below ``/v1`` that show state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import Response

from fluence_extender.api.gangs import Allocation, Gang, GangDetail, State
from fluence_extender.api.nodes import Backend, GraphDocument, Node, NodeDetail
from fluence_extender.api.queues import QueueEntry, QueueSummary, ReservedNodes
from fluence_extender.api.values import ListOf, Problem, Refusal
from fluence_extender.http.listeners.gate import AccessGate, AccessRefused, lacking
from fluence_extender.http.readiness import not_ready
from fluence_extender.http.state import sighted
from fluence_extender.http.state.listings import Single
from fluence_extender.http.state.openapi import Answers, answer
from fluence_extender.http.state.problems import only_known
from fluence_extender.http.state.responses import Responses
from fluence_extender.http.state.service import ServiceState
from fluence_extender.model.access import NODES, CallerSight, Right, pods_in
from fluence_extender.model.gang import Convention

V = TypeVar("V")

Namespace = Annotated[str, Query(description="Only of this namespace.", examples=["default"])]
OnNode = Annotated[str, Query(description="Only what is on this node.", examples=["n7"])]
OfBackend = Annotated[str, Query(description="Only of this backend.", examples=["ibm-a"])]

_ALL: Answers = {
    304: {"description": "What `If-None-Match` names is still the newest."},
    400: answer(Refusal, "A parameter isn't known."),
    401: answer(Refusal, "The caller isn't identified."),
    403: answer(Refusal, "The caller lacks the right that the text names."),
    422: answer(Refusal, "A parameter has no possible value."),
    503: answer(Problem, "Not ready yet; the reason is in `detail`."),
}


def state_routes(service: ServiceState, gate: AccessGate) -> APIRouter:
    """Return the routes over ``service``; ``gate`` decides what of it each caller sees."""

    async def admitted(request: Request) -> None:
        await gate.admit(request.scope)

    async def ready() -> None:
        if service.readiness.not_ready_reason:
            raise HTTPException(503, detail=not_ready(service.readiness.not_ready_reason))

    checks = [Depends(admitted), Depends(ready), Depends(only_known)]
    router = APIRouter(prefix="/v1", dependencies=checks, responses=_ALL, tags=["state"])
    responses = Responses(service.readiness)
    _gangs_route(router, service, gate, responses)
    _gang_route(router, service, gate, responses)
    _allocation_route(router, service, gate, responses)
    _node_routes(router, service, gate, responses)
    _backend_route(router, service, gate, responses)
    _queue_routes(router, service, gate, responses)
    _graph_route(router, service, gate, responses)
    return router


def _gangs_route(router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses) -> None:
    @router.get("/gangs", responses={200: answer(ListOf[Gang])}, summary="All gangs")
    async def gangs(
        request: Request,
        namespace: Namespace = "",
        state: Annotated[State | None, Query(description="Only gangs in this state.")] = None,
        node: OnNode = "",
        backend: OfBackend = "",
        gone: Annotated[bool, Query(description="With gangs whose pods are gone, for an hour.")] = False,
    ) -> Response:
        """Every gang that is known, by namespace and name."""
        keep = _all_of(
            Gang,
            (namespace, lambda gang: gang.namespace == namespace),
            (state, lambda gang: gang.state == state),
            (node, lambda gang: any(member.node == node for member in gang.members)),
            (backend, lambda gang: any(member.backend == backend for member in gang.members)),
        )
        sight = await _sight(request, service, gate, namespace)
        listing = service.gangs(gone or state == "gone", sight)
        return responses.list(request, listing, keep, sight, sighted.of_namespace)


def _gang_route(router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses) -> None:
    @router.get(
        "/gangs/{namespace}/{name:path}",
        responses={
            200: answer(GangDetail),
            404: answer(Problem, "No gang has that name, nor had one in the last hour."),
        },
        summary="One gang and its history",
    )
    async def gang(
        request: Request,
        namespace: str,
        name: str,
        convention: Annotated[
            Convention | None, Query(description="Which one, if several have the same name.")
        ] = None,
    ) -> Response:
        """One gang by its name, with what its members request and what has happened to it so far.

        A gang whose pods are gone is remembered for an hour.
        """
        if namespace not in await _sight(request, service, gate, namespace):
            raise lacking(pods_in(namespace))
        about = namespace, name, convention or ""
        sight = await gate.sight(request.scope, lambda: service.named_about(*about) | {namespace})
        found = service.gang(*about, sight)
        if found is None:
            raise HTTPException(404, detail=f"no gang {namespace}/{name}")
        return responses.single(request, found, sight)


def _allocation_route(
    router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses
) -> None:
    @router.get("/allocations", responses={200: answer(ListOf[Allocation])}, summary="What pods hold")
    async def allocations(
        request: Request,
        namespace: Namespace = "",
        node: OnNode = "",
        backend: OfBackend = "",
    ) -> Response:
        """What each pod of this scheduler holds, by namespace and pod, including planned and committed shares."""
        keep = _all_of(
            Allocation,
            (namespace, lambda held: held.namespace == namespace),
            (node, lambda held: held.node == node),
            (backend, lambda held: held.backend == backend),
        )
        sight = await _sight(request, service, gate, namespace)
        return responses.list(request, service.allocations(), keep, sight, sighted.of_namespace)


def _node_routes(router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses) -> None:
    @router.get("/nodes", responses={200: answer(ListOf[Node])}, summary="All nodes")
    async def nodes(
        request: Request,
        schedulable: Annotated[
            bool | None,
            Query(description="Only nodes that are open to pods without tolerations, or only the others."),
        ] = None,
    ) -> Response:
        """What each node has, what uses it, what is free, and why nothing new may be placed there.

        For callers who may list nodes.
        """
        await gate.demand(request.scope, NODES)
        keep = _all_of(Node, (schedulable is not None, lambda node: node.schedulable == schedulable))
        return responses.list(request, service.nodes(), keep)

    @router.get(
        "/nodes/{name}",
        responses={200: answer(NodeDetail), 404: answer(Problem, "No node of that name.")},
        summary="One node and the pods that use it",
    )
    async def node(request: Request, name: str) -> Response:
        """One node with every pod that uses it, of this scheduler and of others.

        For callers who may list nodes; pods of namespaces that they may not see are only counted.
        """
        await gate.demand(request.scope, NODES)
        found = service.node(name)
        if found is None:
            raise HTTPException(404, detail=f"no node {name}")
        sight = await gate.sight(request.scope, lambda: {pod.namespace for pod in found.item.pods})
        return responses.single(
            request, Single(found.revision, sighted.node_detail(sight, found.item)), sight
        )


def _backend_route(router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses) -> None:
    @router.get("/backends", responses={200: answer(ListOf[Backend])}, summary="Virtual devices")
    async def backends(
        request: Request,
        type_: Annotated[
            str, Query(alias="type", description="Only devices of this type.", examples=["qpu"])
        ] = "",
        backend: OfBackend = "",
        node: OnNode = "",
        usable: Annotated[
            bool | None, Query(description="Only devices that pods can request, or only the others.")
        ] = None,
    ) -> Response:
        """Every virtual device: what it is, how much of it is free, what holds the rest, why it can't be used."""
        keep = _all_of(
            Backend,
            (type_, lambda device: device.type == type_),
            (backend, lambda device: device.backend == backend),
            (node, lambda device: device.node == node),
            (usable is not None, lambda device: device.usable == usable),
        )
        sight = await gate.sight(request.scope, service.holding_namespaces)
        return responses.list(request, service.backends(), keep, sight, sighted.backend)


def _queue_routes(router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses) -> None:
    @router.get("/queues", responses={200: answer(ListOf[QueueSummary])}, summary="All queues")
    async def queues(request: Request) -> Response:
        """Every queue: how it is set, how much waits and runs in it, and which gang is the first in line."""
        sight = await _sight(request, service, gate, "")
        return responses.list(request, service.queues(), None, sight, sighted.queue_summary)

    @router.get("/queue", responses={200: answer(ListOf[QueueEntry])}, summary="The line")
    async def line(
        request: Request,
        namespace: Namespace = "",
        queue: Annotated[str, Query(description="Only of this queue.", examples=["physics"])] = "",
    ) -> Response:
        """Every gang that waits, in the order in which they are served, with its place in the line of all queues."""
        keep = _all_of(
            QueueEntry,
            (namespace, lambda entry: entry.namespace == namespace),
            (queue, lambda entry: entry.queue == queue),
        )
        sight = await _sight(request, service, gate, namespace)
        return responses.list(request, service.line(sight), keep, sight, sighted.of_namespace)

    @router.get("/reservations", responses={200: answer(ListOf[ReservedNodes])}, summary="What is kept free")
    async def reservations(request: Request) -> Response:
        """What the queue keeps free for gangs in line, and what administrators have reserved."""
        sight = await _sight(request, service, gate, "")
        listing = service.reservations(await _may(request, gate, NODES))
        return responses.list(request, listing, None, sight, sighted.reserved_nodes)


def _graph_route(router: APIRouter, service: ServiceState, gate: AccessGate, responses: Responses) -> None:
    @router.get(
        "/graph",
        responses={200: answer(GraphDocument)},
        summary="The resource graph",
    )
    async def graph(request: Request) -> Response:
        """The resource graph in JSON Graph Format, in whole cores and GiB.

        Equal leaves are one vertex with a size.

        For callers who may list nodes.
        """
        await gate.demand(request.scope, NODES)
        return await responses.graph(request, service.graph())


async def _sight(request: Request, service: ServiceState, gate: AccessGate, namespace: str) -> CallerSight:
    """Return what the caller sees of ``namespace``, or of all namespaces ("")."""
    return await gate.sight(request.scope, (lambda: [namespace]) if namespace else service.namespaces)


async def _may(request: Request, gate: AccessGate, right: Right) -> bool:
    """Return whether the caller has a right."""
    try:
        await gate.demand(request.scope, right)
    except AccessRefused as error:
        if error.status != 403:
            raise
        return False
    return True


def _all_of(_: type[V], *conditions: tuple[object, Callable[[V], bool]]) -> Callable[[V], bool] | None:
    """Return a filter of items by the conditions whose parameter was given, None if none was.

    The type is only for the type checker.
    """
    given = [condition for parameter, condition in conditions if parameter]
    if not given:
        return None
    return lambda item: all(condition(item) for condition in given)
