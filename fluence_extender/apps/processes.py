"""Common code of the server processes: why one refuses to start, and what is logged when it fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import structlog

from fluence_extender.cluster.resources_file import read_resources_file
from fluence_extender.graph.errors import InvalidResourcesFile

log = structlog.get_logger(__name__)


class StartRefused(Exception):
    """The process can't start; the text says why and what to do."""


def check_resources(path: Path) -> None:
    """Raise `StartRefused` if the local resources.yaml can't be used, `ResourcesFileError` if it can't be read."""
    # The parser isn't needed when the resources are in a ConfigMap.
    from fluence_extender.graph.resources_file import parse_resources

    file = read_resources_file(path)
    try:
        parse_resources(file.text or "", file.source)
    except InvalidResourcesFile as fault:
        raise faulty_resources(fault) from fault


def faulty_resources(fault: object) -> StartRefused:
    """Return the error for a resources.yaml with a ``fault``."""
    return StartRefused(f"resources.yaml can't be used:\n{fault}")


def log_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task awaits: an event loop's exception handler.

    An error of a transport also reaches the code that uses it, which reports it, so it is logged without a traceback.
    """
    if "transport" in context or "protocol" in context:
        log.info("a connection broke off", error=repr(context.get("exception")), what=context["message"])
    else:
        loop.default_exception_handler(context)


def first_error(group: BaseExceptionGroup) -> BaseException:
    """Return the first error of a group of tasks, which is the one that ended them all."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
