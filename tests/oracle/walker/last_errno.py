"""The errno that the last call left.

libreapi_cli doesn't set errno everywhere. A request that matches, but asks for nothing exclusively, fails with the
errno of an earlier call: usually EBUSY, once the process has refused a vertex. This errno
decides the kind of the failure and whether a job id is used up, so the walker keeps an errno of its own. As in C there
is one for each thread, shared by all graphs, and loading a graph clears it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tests.oracle.errors import MatcherError

Method = TypeVar("Method", bound=Callable[..., Any])


class _LastErrno(threading.local):
    value = 0


LAST_ERRNO = _LastErrno()


def leaves_errno(method: Method) -> Method:
    """Keep the errno of the errors that the method raises."""

    @functools.wraps(method)
    def kept(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except MatcherError as error:
            LAST_ERRNO.value = error.errno
            raise

    return cast(Method, kept)
