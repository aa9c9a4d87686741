"""One loaded libreapi_cli, and the only way to call it.

The library keeps its error text and its name tables in globals, and cffi releases the GIL, so calls of two
threads, even on two graphs, must never overlap (fluxion reference 1.5, 1.6). Invariant: every call goes
through `Library.call`, which holds one lock for the process, resets errno before, and reads, frees and clears
the error text after.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluxion_ffi._ffi import decode, ffi, process
from fluxion_ffi.errors import FeatureMissing, GraphClosed, LibraryBroken, LibraryTooOld, OutOfMemory, failure
from fluxion_ffi.features import CORE, OF_FEATURE, Feature, functions
from fluxion_ffi.search import load_first, places

_ONE_CALL_AT_A_TIME = threading.Lock()

_WITHOUT_ALLOCATING = (5, 6)


@dataclass(slots=True)
class Context:
    """A ``reapi_cli_ctx_t``, and the errno that its last call left.

    Where a request matches but holds nothing exclusive, the library answers with the errno from before the
    call, and counts a job if that is EBUSY (fluxion reference 4.10). So errno is state: 0 at first, then what
    the last call on this context left, whichever thread made it.
    """

    pointer: Any
    errno: int = 0


class Library:
    """A loaded library: ``origin`` says where it was found, ``features`` what it can do. Made by `open_library`."""

    def __init__(self, handle: Any, origin: str) -> None:
        self._handle = handle
        self._abandoned: deque[Context] = deque()
        self.origin = origin
        self.features = _probe(handle)

    def __repr__(self) -> str:
        return f"Library({self.origin!r}, flux-sched {self.version})"

    @property
    def version(self) -> str:
        """The flux-sched releases this library can be from, as far as its symbols tell."""
        return ">= 0.54" if Feature.WITHOUT_ALLOCATING in self.features else "0.53"

    def require(self, feature: Feature) -> None:
        """Raise `FeatureMissing` unless the library has ``feature``."""
        if feature not in self.features:
            raise FeatureMissing(f"the libreapi_cli at {self.origin} is too old for {feature.value}")

    def new_context(self) -> Context:
        """Make an empty context; whoever gets it hands it back by `destroy` or `abandon`."""
        with _ONE_CALL_AT_A_TIME:
            pointer = self._handle.reapi_cli_new()
        if pointer == ffi.NULL:
            raise OutOfMemory("new: the library couldn't allocate a context")
        return Context(pointer)

    def destroy(self, context: Context) -> None:
        """Free a context and its graph."""
        with _ONE_CALL_AT_A_TIME:
            self._handle.reapi_cli_destroy(context.pointer)
            context.pointer = ffi.NULL

    def abandon(self, context: Context) -> None:
        """Have a context freed before the next call; for finalizers, which may run during one and mustn't wait."""
        self._abandoned.append(context)

    def call(self, function: str, context: Context, *arguments: Any) -> None:
        """Call ``function`` on ``context``. Raises the exception that its return code and errno stand for."""
        with _ONE_CALL_AT_A_TIME:
            if context.pointer == ffi.NULL:
                raise GraphClosed("the graph is closed")
            while self._abandoned:
                self._handle.reapi_cli_destroy(self._abandoned.popleft().pointer)
            ffi.errno = context.errno
            code = getattr(self._handle, function)(context.pointer, *arguments)
            errno = context.errno = ffi.errno
            text = self._error_text(context.pointer) if code < 0 else ""
            # Successful calls leave text behind too, and it would turn up in another graph's error.
            self._handle.reapi_cli_clear_err_msg(context.pointer)
        if code < 0:
            raise failure(function, errno, text)

    def _error_text(self, pointer: Any) -> str:
        message = self._handle.reapi_cli_get_err_msg(pointer)
        if message == ffi.NULL:
            return ""
        try:
            return decode(message)
        finally:
            process.free(message)


def open_library(path: str | Path | None = None) -> Library:
    """Load libreapi_cli from ``path``, from ``FLUXION_LIBRARY``, or from where flux-sched installs it.

    Raises `LibraryNotFound`, `LibraryTooOld` (before flux-sched 0.53) or `LibraryBroken`; each says what to do.
    """
    handle, place = load_first(places(path, os.environ), _accept)
    return Library(handle, place.origin)


def _accept(handle: Any) -> None:
    if not _exports(handle, "reapi_cli_new"):
        raise LibraryBroken("it isn't libreapi_cli: it doesn't export reapi_cli_new")
    required = functions(CORE + OF_FEATURE[Feature.SUBGRAPH])
    missing = [name for name in required if not _exports(handle, name)]
    if missing:
        raise LibraryTooOld(f"it is from before flux-sched 0.53: it lacks {', '.join(missing)}")


def _probe(handle: Any) -> frozenset[Feature]:
    features = {
        feature
        for feature, declarations in OF_FEATURE.items()
        if all(_exports(handle, name) for name in functions(declarations))
    }
    if Feature.WITHOUT_ALLOCATING in features and not all(map(handle.match_op_valid, _WITHOUT_ALLOCATING)):
        features.discard(Feature.WITHOUT_ALLOCATING)
    return frozenset(features)


def _exports(handle: Any, name: str) -> bool:
    return hasattr(handle, name)
