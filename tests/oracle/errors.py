"""The refusals of a matcher, as exceptions with the errno that libreapi_cli would set."""

from __future__ import annotations

import errno as _errno
from typing import Any

_LONGEST_MESSAGE = 2000
"""The most characters of a message, because a document can contain texts of any length."""

_LONGEST_VALUE = 80
"""The most characters of a value that a message repeats."""


def shown(value: Any) -> str:
    """Return the value for a message: its beginning, or its type if it can't be written."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return type(value).__name__
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


class MatcherError(Exception):
    """A matcher refused a call, and its state is unchanged. ``errno`` is what libreapi_cli would set."""

    errno: int = 0

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…")
        if errno is not None:
            self.errno = errno


class Busy(MatcherError):
    """The request can't be met now, and may be later (EBUSY)."""

    errno = _errno.EBUSY


class Unsatisfiable(MatcherError):
    """The request can never be met by this graph (ENODEV)."""

    errno = _errno.ENODEV


class InvalidJobspec(MatcherError):
    """The jobspec, R, operation or duration isn't one that the matcher accepts (EINVAL)."""

    errno = _errno.EINVAL


class NothingToAllocate(InvalidJobspec):
    """The request matched, but nothing in it is exclusive, so there is nothing to hold (errno 0 in the library)."""

    errno = 0


class InvalidGraph(MatcherError):
    """The graph document can't be loaded (EPROTO at creation, EINVAL in a later change)."""

    errno = _errno.EPROTO


class InvalidOptions(MatcherError):
    """The options name a policy, filter or format that doesn't exist (EPROTO)."""

    errno = _errno.EPROTO


class UnknownJob(MatcherError):
    """No job of that id (ENOENT)."""

    errno = _errno.ENOENT


class JobExists(MatcherError):
    """A job of that id is already held (EEXIST)."""

    errno = _errno.EEXIST


class EngineUnavailable(MatcherError):
    """The requested engine can't be loaded here; the message names what to install."""

    errno = _errno.ENOENT
