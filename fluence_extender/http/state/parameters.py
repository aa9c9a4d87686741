"""Query parameters that a route doesn't know are refused.

A misspelt filter that is ignored gives the answer to another question, and nobody sees that it does.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.routing import APIRoute

from fluence_extender.http.state.problems import BadQuestion

BY_THE_WAY = frozenset({"timeout"})
"""What clients add to whatever they ask: client-go sends its timeout along, and the API server's proxy passes it on."""


async def only_known(request: Request) -> None:
    """A dependency that refuses what the route takes no notice of. Raises `BadQuestion`."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = [parameter.alias for parameter in route.dependant.query_params]
    unknown = sorted(request.query_params.keys() - BY_THE_WAY - set(known))
    if unknown:
        raise BadQuestion(_told(unknown, request.url.path, known))


def _told(unknown: list[str], path: str, known: list[str]) -> str:
    what = "parameter" if len(unknown) == 1 else "parameters"
    takes = f"takes {', '.join(known)}" if known else "takes none"
    return f"unknown {what} {', '.join(unknown)}; {path} {takes}"
