"""Finding and loading libreapi_cli, and the only way to call it.

The library installs outside the loader's path and has a SONAME without version. It keeps its error text and its name
tables in globals, and cffi releases the GIL, so calls of two threads must never overlap, even on two graphs (fluxion
reference 1.5, 1.6). Invariants: a place that the caller names (an argument, or FLUXION_LIBRARY) is the only one tried;
otherwise the places of `places` are tried in order, and the first library that loads wins. Every call goes through
`Library.call`, which holds one lock for the process, sets errno before, and reads, frees and clears the error text
after.
"""

from __future__ import annotations

import os
import platform
import re
import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluxion_ffi._ffi import decode, ffi, process
from fluxion_ffi.errors import (
    FeatureMissing,
    GraphClosed,
    LibraryBroken,
    LibraryNotFound,
    LibraryTooOld,
    LibraryUnavailable,
    OutOfMemory,
    failure,
)
from fluxion_ffi.features import CORE, OF_FEATURE, Feature, functions

VARIABLE = "FLUXION_LIBRARY"
FILE = "libreapi_cli.so"
INSTALL = (
    "Install flux-sched >= 0.53 (the library is <prefix>/lib/flux/libreapi_cli.so), "
    f"or set {VARIABLE} to the file."
)

_MISSING = re.compile(r"(?P<name>[^\s:]+): cannot open shared object file")

_ONE_CALL_AT_A_TIME = threading.Lock()

_WITHOUT_ALLOCATING = (5, 6)


@dataclass(slots=True)
class Context:
    """A ``reapi_cli_ctx_t``, and the errno that its last call left.

    Where a request matches but holds nothing exclusive, the library returns the errno from before the call, and counts
    a job if that is EBUSY. So errno is state: 0 at first, then what the last call on this
    context left, in any thread.
    """

    pointer: Any
    errno: int = 0


class Library:
    """A loaded library, made by `open_library`: ``origin`` is where it was found, ``features`` what it can do."""

    def __init__(self, handle: Any, origin: str) -> None:
        self._handle = handle
        self._abandoned: deque[Context] = deque()
        self.origin = origin
        self.features = _probe(handle)

    def __repr__(self) -> str:
        return f"Library({self.origin!r}, flux-sched {self.version})"

    @property
    def version(self) -> str:
        """The flux-sched releases that this library can be from, judged by its symbols."""
        return ">= 0.54" if Feature.WITHOUT_ALLOCATING in self.features else "0.53"

    def require(self, feature: Feature) -> None:
        """Raise `FeatureMissing` unless the library has ``feature``."""
        if feature not in self.features:
            raise FeatureMissing(f"the libreapi_cli at {self.origin} is too old for {feature.value}")

    def new_context(self) -> Context:
        """Make an empty context; the caller gives it back by `destroy` or `abandon`."""
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
        """Free a context before the next call. For finalizers: they may run during a call and must not wait."""
        self._abandoned.append(context)

    def call(self, function: str, context: Context, *arguments: Any) -> None:
        """Call ``function`` on ``context``. Raises the exception for its return code and errno."""
        with _ONE_CALL_AT_A_TIME:
            if context.pointer == ffi.NULL:
                raise GraphClosed("the graph is closed")
            while self._abandoned:
                self._handle.reapi_cli_destroy(self._abandoned.popleft().pointer)
            ffi.errno = context.errno
            code = getattr(self._handle, function)(context.pointer, *arguments)
            errno = context.errno = ffi.errno
            text = self._error_text(context.pointer) if code < 0 else ""
            # Successful calls leave text behind too, which would appear in the error of another graph.
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


# --- where the library is -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a library may be: ``target`` is for the loader, ``origin`` for messages."""

    target: str
    origin: str


def places(path: str | Path | None, environ: Mapping[str, str]) -> list[Place]:
    """Return where to look, in order."""
    if path is not None:
        return [Place(str(path), str(path))]
    if named := environ.get(VARIABLE):
        return [Place(named, f"{named} ({VARIABLE})")]
    found = [Place(FILE, f"{FILE} (the loader's path)")]
    return found + [Place(f"{folder}/{FILE}", f"{folder}/{FILE}") for folder in _folders()]


def _folders() -> Iterator[str]:
    multiarch = sysconfig.get_config_var("MULTIARCH") or f"{platform.machine()}-linux-gnu"
    for prefix in ("/usr", "/usr/local"):
        for lib in ("lib", f"lib/{multiarch}", "lib64"):
            yield f"{prefix}/{lib}/flux"
    yield "/opt/flux/lib/flux"


def load_first(candidates: list[Place], accept: Callable[[Any], None]) -> tuple[Any, Place]:
    """Load the first candidate that ``accept`` doesn't refuse by raising `LibraryUnavailable`.

    Raises `LibraryNotFound`, or the refusal of the first candidate that is there but can't be used.
    """
    refused: list[tuple[Place, LibraryUnavailable]] = []
    for place in candidates:
        try:
            library = _load(place)
            accept(library)
        except LibraryNotFound:
            continue
        except LibraryUnavailable as error:
            refused.append((place, error))
        else:
            return library, place
    if not refused:
        looked = "\n".join(f"  {place.origin}" for place in candidates)
        raise LibraryNotFound(f"{FILE} was not found. Looked at:\n{looked}\n{INSTALL}")
    reasons = "\n".join(f"  {place.origin}: {error}" for place, error in refused)
    kind = LibraryTooOld if isinstance(refused[0][1], LibraryTooOld) else LibraryBroken
    raise kind(f"{FILE} was found, but can't be used:\n{reasons}\n{INSTALL}")


def _load(place: Place) -> Any:
    """Load one library. Raises `LibraryNotFound` (no such file) or `LibraryBroken` (with the loader's reason)."""
    if "/" in place.target and not Path(place.target).exists():
        raise LibraryNotFound(place.target)
    try:
        return ffi.dlopen(place.target)
    except OSError as error:
        raise _refusal(str(error), place) from error


def _refusal(message: str, place: Place) -> LibraryUnavailable:
    missing = _MISSING.search(message)
    if missing is None:
        return LibraryBroken(message.strip())
    if missing["name"] == place.target:
        return LibraryNotFound(place.target)
    return LibraryBroken(
        f"it needs {missing['name']}, which the loader doesn't find (install it, or set LD_LIBRARY_PATH)"
    )
