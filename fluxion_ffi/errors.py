"""Every way a call can fail, as exceptions that carry libreapi_cli's errno and its text.

`failure` is the one place where a return code becomes an exception.
"""

from __future__ import annotations

import errno as _errno
import os
from collections.abc import Callable, Mapping

_SHOWN = 2000
"""Characters of the library's text that an error keeps: a refused jobspec can leave a line for each visited vertex."""


_REPEATED = 80
"""Characters of a refused value that a message repeats."""


def shown(value: object) -> str:
    """Return the value for a message: its beginning, or its type where it can't be written."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
    return text if len(text) <= _REPEATED else f"{text[:_REPEATED]}…"


class FluxionError(Exception):
    """A call failed. ``errno`` is what the library set; ``text`` is its error text, which may be empty."""

    errno: int = 0

    def __init__(self, message: str, errno: int | None = None, text: str = "") -> None:
        super().__init__(message)
        self.text = text
        if errno is not None:
            self.errno = errno


Refusal = Callable[[str], FluxionError]
"""Makes the exception that a check raises from a message that names the place."""


class ResourcesBusy(FluxionError):
    """The request can't be met now (EBUSY)."""

    errno = _errno.EBUSY


class Unsatisfiable(FluxionError):
    """The request can never be met by this graph (ENODEV)."""

    errno = _errno.ENODEV


class InvalidRequest(FluxionError):
    """An argument that the library rejects, or that would crash or hang it; the message names the place (EINVAL)."""

    errno = _errno.EINVAL


class NothingToAllocate(InvalidRequest):
    """The jobspec matched, but nothing in it is exclusive (errno is what the walk left: 0 or ENOENT)."""

    errno = 0


class InvalidOptions(FluxionError):
    """An option of a graph that the library doesn't know, or that would crash it (EPROTO)."""

    errno = _errno.EPROTO


class InvalidGraph(FluxionError):
    """A graph document that can't be loaded (EPROTO at creation, EINVAL in a later change)."""

    errno = _errno.EPROTO


class NotFound(FluxionError):
    """No such job (ENOENT)."""

    errno = _errno.ENOENT


class JobExists(FluxionError):
    """A job of that id is held (EEXIST)."""

    errno = _errno.EEXIST


class OutOfMemory(FluxionError):
    """The library couldn't allocate memory (ENOMEM)."""

    errno = _errno.ENOMEM


class FeatureMissing(FluxionError):
    """The loaded library is too old for this call (ENOSYS)."""

    errno = _errno.ENOSYS


class GraphClosed(FluxionError):
    """The graph was closed (EBADF)."""

    errno = _errno.EBADF


class LibraryUnavailable(FluxionError):
    """No usable libreapi_cli; the message lists the places that were tried and what to install (ENOENT)."""

    errno = _errno.ENOENT


class LibraryNotFound(LibraryUnavailable):
    """No libreapi_cli anywhere."""


class LibraryTooOld(LibraryUnavailable):
    """A libreapi_cli from before flux-sched 0.53."""


class LibraryBroken(LibraryUnavailable):
    """A libreapi_cli that can't be loaded, for instance because a library it needs is missing."""


_BY_ERRNO: Mapping[int, type[FluxionError]] = {
    kind.errno: kind
    for kind in (
        ResourcesBusy,
        Unsatisfiable,
        InvalidRequest,
        InvalidGraph,
        NotFound,
        JobExists,
        OutOfMemory,
        FeatureMissing,
    )
} | {_errno.EOVERFLOW: InvalidRequest}

_MATCHES = frozenset({"reapi_cli_match", "reapi_cli_match_with_jobid", "reapi_cli_match_satisfy"})


def failure(function: str, errno: int, text: str) -> FluxionError:
    """Make the exception for a call of ``function`` that returned less than 0."""
    kind = _BY_ERRNO.get(errno, FluxionError)
    if function in _MATCHES and errno in (0, _errno.ENOENT):
        kind = NothingToAllocate
    text = text.strip()
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]} … ({len(text) - _SHOWN} more characters)"
    reason = text or (os.strerror(errno) if errno else "no reason given")
    return kind(f"{function.removeprefix('reapi_cli_')}: {reason}", errno, text)
