"""The addresses of pages. Names are quoted, so that no name leads anywhere else."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, urlencode

OVERVIEW, QUEUE, GANGS, NODES, DEVICES, USAGE, WHAT_IF, SEARCH = (
    "/",
    "/queue",
    "/gangs",
    "/nodes",
    "/devices",
    "/usage",
    "/what-if",
    "/search",
)


def gang(namespace: str, name: str, convention: str = "") -> str:
    """Return the address of a gang's page."""
    query = f"?{urlencode({'convention': convention})}" if convention else ""
    return f"{GANGS}/{_part(namespace)}/{_part(name)}{query}"


def gangs(**filters: str) -> str:
    """Return the address of the gangs that the filters let through."""
    return with_filters(GANGS, filters)


def queue(name: str) -> str:
    """Return the address of a queue's line."""
    return with_filters(QUEUE, {"queue": name})


def node(name: str) -> str:
    """Return the address of a node's page."""
    return f"{NODES}/{_part(name)}"


def devices(**filters: str) -> str:
    """Return the address of the devices that the filters let through."""
    return with_filters(DEVICES, filters)


def with_filters(path: str, filters: dict[str, str]) -> str:
    """Return the address of ``path`` with those filters that have a value."""
    given = {name: value for name, value in filters.items() if value}
    return path + (f"?{urlencode(given)}" if given else "")


@lru_cache(16_384)
def _part(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")
