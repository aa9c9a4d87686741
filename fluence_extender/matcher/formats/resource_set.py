"""Writing a resource set in each of the match formats."""

from __future__ import annotations

from dataclasses import dataclass
from errno import EINVAL
from typing import Any

from fluence_extender.matcher.embedded.scalars import shown
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.formats.r_lite import RLite, name_of, r_lite_of
from fluence_extender.matcher.port import Jgf, ResourceSet

FOUND_FORMATS = ("jgf", "jgf_shorthand", "rv1", "rv1_nosched", "rv1_shorthand")
"""The formats that are JSON objects, so that the vertices of a search can be told in them."""

FORMATS = (*FOUND_FORMATS, "simple", "pretty_simple")
"""All match formats but ``rlite``, with which libreapi_cli fails every request that finds no room."""

_SHORTHAND = "fluxion:jgf_shorthand"
_INDENT = "      "
_LEVEL = "---"


class NotExpressible(MatcherError):
    """The match format has no way to say what the set holds (EINVAL); ``jgf`` always has."""

    errno = EINVAL


@dataclass(frozen=True, slots=True)
class Times:
    """When the resources are held, in seconds on the matcher's clock, and in which queue they were asked for."""

    starttime: int = 0
    expiration: int = 0
    queue: str = ""


def write_granted(jgf: Jgf, name: str, times: Times) -> ResourceSet:
    """Write what a job holds. Raises `NotExpressible`.

    A ``simple`` format is lines of text. Of the others, all that start with ``rv1`` need a core or gpu under a node to
    speak of, and a rank for that node.
    """
    if name == "jgf":
        return jgf
    if name in ("simple", "pretty_simple"):
        return _drawn(jgf, pretty=name == "pretty_simple")
    if name == "jgf_shorthand":
        return _shorthand(jgf)
    reduced = r_lite_of(entry["metadata"] for entry in jgf["graph"]["nodes"])
    if not reduced.nodes:
        raise NotExpressible(f"{name} tells cores and gpus of nodes, and the set has none; use jgf")
    return _rv1(jgf, name, reduced, times)


def write_found(jgf: Jgf, name: str) -> Jgf | None:
    """Write what a search found; None where the format has nothing to say of it. Raises `NotExpressible`.

    All that is found is marked exclusive, yet nothing is left out for being below something exclusive.
    """
    if name in ("jgf", "jgf_shorthand"):
        return jgf
    if name not in FOUND_FORMATS:
        known = ", ".join(FOUND_FORMATS)
        raise NotExpressible(f"a search can't be answered in {shown(name)}, but in one of {known}")
    reduced = r_lite_of(entry["metadata"] for entry in jgf["graph"]["nodes"])
    if not reduced.nodes:
        return None
    return _rv1(jgf, "rv1" if name == "rv1_shorthand" else name, reduced, Times())


def _rv1(jgf: Jgf, name: str, reduced: RLite, times: Times) -> Jgf:
    try:
        execution = reduced.execution(times.starttime, times.expiration)
    except ValueError as error:
        raise NotExpressible(f"{name} can't be written: {error}; use jgf") from None
    written: Jgf = {"version": 1, "execution": execution}
    if name != "rv1_nosched":
        written["scheduling"] = _shorthand(jgf) if name == "rv1_shorthand" else jgf
        if times.queue:
            written["attributes"] = {"system": {"scheduler": {"queue": times.queue}}}
    return written


def _shorthand(jgf: Jgf) -> Jgf:
    """Without what is below an exclusive vertex, and marked so if that left anything out."""
    nodes, edges = jgf["graph"]["nodes"], jgf["graph"]["edges"]
    exclusive = [entry for entry in nodes if entry["metadata"].get("exclusive")]
    ids = {entry["id"] for entry in exclusive}
    paths = {_path(entry["metadata"]) for entry in exclusive}
    kept = [entry for entry in nodes if _path(entry["metadata"]).rpartition("/")[0] not in paths]
    short: Jgf = {"graph": {"nodes": kept, "edges": [edge for edge in edges if edge["source"] not in ids]}}
    if len(kept) < len(nodes):
        short["writer"] = _SHORTHAND
    return short


def _drawn(jgf: Jgf, *, pretty: bool) -> str:
    modes = ("shared", "exclusive") if pretty else ("s", "x")
    lines = [_line(entry["metadata"], modes) for entry in jgf["graph"]["nodes"]]
    return "".join(reversed(lines) if pretty else lines)


def _line(vertex: dict[str, Any], modes: tuple[str, str]) -> str:
    depth = _path(vertex).count("/")
    mode = modes[bool(vertex.get("exclusive"))]
    return f"{_INDENT}{_LEVEL * depth}{name_of(vertex)}[{vertex.get('size', 1)}:{mode}]\n"


def _path(vertex: dict[str, Any]) -> str:
    path: str = vertex["paths"]["containment"]
    return path
