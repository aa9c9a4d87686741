"""Finding libreapi_cli: it installs outside the loader's path, and carries a SONAME without version.

Invariant: what the caller names (an argument, or FLUXION_LIBRARY) is the only place looked at; else the places of
`places` are tried in order, and the first library that loads wins. What was found but couldn't be used is reported.
"""

from __future__ import annotations

import platform
import re
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluxion_ffi._ffi import ffi
from fluxion_ffi.errors import LibraryBroken, LibraryNotFound, LibraryTooOld, LibraryUnavailable

VARIABLE = "FLUXION_LIBRARY"
FILE = "libreapi_cli.so"
INSTALL = (
    "Install flux-sched >= 0.53 (the library is <prefix>/lib/flux/libreapi_cli.so), "
    f"or set {VARIABLE} to the file."
)

_MISSING = re.compile(r"(?P<name>[^\s:]+): cannot open shared object file")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a library may be: ``target`` is what the loader is given, ``origin`` how a message calls it."""

    target: str
    origin: str


def places(path: str | Path | None, environ: Mapping[str, str]) -> list[Place]:
    """Say where to look, in order."""
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
    """Load the first candidate that loads and that ``accept`` doesn't refuse (by raising `LibraryUnavailable`).

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
    told = "\n".join(f"  {place.origin}: {error}" for place, error in refused)
    kind = LibraryTooOld if isinstance(refused[0][1], LibraryTooOld) else LibraryBroken
    raise kind(f"{FILE} was found, but can't be used:\n{told}\n{INSTALL}")


def _load(place: Place) -> Any:
    """Load one library. Raises `LibraryNotFound` (no such file) or `LibraryBroken` (it doesn't load; says why)."""
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
