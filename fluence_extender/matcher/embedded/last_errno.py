"""The errno that the last call left.

libreapi_cli doesn't set errno everywhere. A request that matches, but asks for nothing exclusively, fails with whatever
an earlier call left there: EBUSY as a rule, in a process that has seen a vertex refused (fluxion reference 3.3). That
decides what the failure is called and whether a job id is used up, so the engine keeps an errno of its own. As in C it
is one for each thread, whichever graph is asked, and loading a graph clears it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from fluence_extender.matcher.errors import MatcherError

Self = TypeVar("Self")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _LastErrno(threading.local):
    value = 0


LAST_ERRNO = _LastErrno()


def leaves_errno(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Keep the errno of what the method raises."""

    @functools.wraps(method)
    def kept(self: Self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(self, *args, **kwargs)
        except MatcherError as error:
            LAST_ERRNO.value = error.errno
            raise

    return kept
