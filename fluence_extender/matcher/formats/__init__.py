"""The match formats: how a resource set is written.

Engines answer in JGF, which says everything. What the other formats say follows from it, and is written here as a fresh
libreapi_cli context writes it (fluxion reference 2.2). Contexts of libreapi_cli are not fresh for long: a queue, the
mark of shorthand and, after a set that its format can't express, whole vertices pass from one answer into later ones.
None of that is copied: a set is written from its own vertices, and what can't be said is `NotExpressible`.
"""

from __future__ import annotations

from fluence_extender.matcher.formats.resource_set import (
    FORMATS,
    FOUND_FORMATS,
    NotExpressible,
    Times,
    write_found,
    write_granted,
)

__all__ = ["FORMATS", "FOUND_FORMATS", "NotExpressible", "Times", "write_found", "write_granted"]
