"""Which engines this machine can run the conformance tests on."""

from __future__ import annotations

from dataclasses import dataclass

from fluxion_ffi import Library, LibraryUnavailable, open_library


@dataclass(frozen=True)
class Engine:
    """The library, or None and the reason why there is none."""

    library: Library | None
    description: str


def _find() -> Engine:
    try:
        library = open_library()
    except LibraryUnavailable as error:
        return Engine(None, str(error).splitlines()[0])
    return Engine(library, f"{library.origin}, flux-sched {library.version}")


FLUXION = _find()
