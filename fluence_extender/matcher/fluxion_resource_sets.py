"""Resource sets on their way into libreapi_cli, where it would read them wrongly or free too much.

Shorthand is written out first: the library finds what is below an exclusive vertex by a vertex's position instead of
its id. A release is checked against what the job holds before the library sees it (fluxion reference 5.2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fluence_extender.matcher.embedded.jgf import VertexEntry, parse_json, read_document
from fluence_extender.matcher.embedded.replay import is_bare, is_shorthand
from fluence_extender.matcher.errors import InvalidGraph, InvalidJobspec
from fluence_extender.matcher.port import Jgf
from fluence_extender.matcher.release import Tree, check_release, parts_of, read_ranks, truly_listed

Held = dict[str, VertexEntry]
"""What a job has a tag on, by path."""

_COMPARED = ("type", "basename", "name", "id", "size", "rank", "paths")


def readable_replay(R: Any, whole_graph: Callable[[], Jgf]) -> Any:  # noqa: N803
    """An R that the library reads as it was meant: without shorthand. Raises InvalidJobspec."""
    try:
        top = parse_json(R)
        scheduling = top if is_bare(top) else top.get("scheduling")
        if not isinstance(scheduling, Mapping) or not is_shorthand(scheduling):
            return R
        full = _written_out(scheduling, whole_graph())
    except (InvalidGraph, ValueError) as error:
        raise InvalidJobspec(f"R: {error}") from None
    return full if is_bare(top) else {**top, "scheduling": full}


def sound_release(
    R: Any,  # noqa: N803
    held: Held,
    jobid: int,
    topmost: Callable[[int], str],
    totals: Callable[[str], Collection[str]],
    unclaimed: Collection[str],
) -> tuple[Any, set[str]]:
    """An R by which the library frees what is meant, and counts it right; and the paths it will count out from.

    ``topmost`` gives the path of the vertex that stands for a rank, ``totals`` the types counted at a path;
    ``unclaimed`` are the paths that earlier releases counted out from. Raises InvalidJobspec.
    """
    try:
        top = parse_json(R)
        execution, scheduling = parts_of(top)
        if scheduling is None:
            freed = {
                rank: [path for path, entry in held.items() if entry.rank == rank]
                for rank in read_ranks(execution)
            }
            tops = {rank: topmost(rank) for rank in freed}
        else:
            if jobid == 0:
                raise ValueError("of job 0 vertices can't be freed, only ranks")
            paths = _listed(scheduling, held)
            freed = {}
            for path in paths:
                freed.setdefault(held[path].rank, []).append(path)
            tops = {rank: min(listed, key=len) for rank, listed in freed.items()}
            top = {**top, "scheduling": _release_of(paths, held)}
    except (InvalidGraph, ValueError) as error:
        raise InvalidJobspec(f"R: {error}") from None
    tree = Tree(_above, lambda path: held[path].type, str, totals, unclaimed)
    exclusive = {path: None for path, entry in held.items() if entry.exclusive}
    check_release(tree, exclusive, freed, tops)
    return top, {above for path in tops.values() for above in _above(path)}


def truly_held(text: str, R: Any, vertices_of: Callable[[int], int]) -> str:  # noqa: N803
    """The resource set that the library answered to a replay of R, with only those vertices exclusive that it took.

    They differ where R names ranks and ids alone. ``vertices_of`` counts the vertices of a rank.
    """
    top = parse_json(R)
    if is_bare(top) or top.get("scheduling") is not None:
        return text
    document = json.loads(text)
    truly = truly_listed(document, top["execution"], vertices_of)
    for entry in document["graph"]["nodes"]:
        if entry["metadata"]["paths"]["containment"] not in truly:
            entry["metadata"].pop("exclusive", None)
    return json.dumps(document)


def _listed(scheduling: Mapping[str, Any], held: Held) -> list[str]:
    """The paths that are to be freed, those meant by shorthand included."""
    shorthand = is_shorthand(scheduling)
    document = read_document(scheduling)
    if document.free_ranks is not None:
        raise ValueError("scheduling.free_ranks has no meaning here")
    paths: dict[str, None] = {}
    for entry in document.vertices:
        path = entry.paths.get("containment", "")
        own = held.get(path)
        if own is None or not own.exclusive or not entry.exclusive:
            raise ValueError(f"{entry.where}: the job doesn't hold {path!r} exclusively")
        for name in _COMPARED:
            if getattr(own, name) != getattr(entry, name):
                raise ValueError(f"{entry.where}: {name} is {getattr(own, name)!r} in the graph")
        below = [each for each in held if each.startswith(f"{path}/")] if shorthand else []
        for each in (path, *below):
            if each in paths:
                raise ValueError(f"{entry.where}: {each!r} is listed twice")
            paths[each] = None
    if not paths:
        raise ValueError("it lists no vertex")
    return list(paths)


def _release_of(paths: Collection[str], held: Held) -> Jgf:
    return {"graph": {"nodes": [_entry(held[path]) for path in paths], "edges": []}}


def _entry(vertex: VertexEntry) -> Jgf:
    metadata = {name: getattr(vertex, name) for name in _COMPARED}
    return {
        "id": vertex.key,
        "metadata": {**metadata, "uniq_id": vertex.uniq_id, "exclusive": vertex.exclusive},
    }


def _written_out(scheduling: Mapping[str, Any], graph: Jgf) -> Jgf:
    """The shorthand with everything below its exclusive vertices, each id a path. Raises ValueError."""
    document = read_document(scheduling)
    entries = {entry.key: entry for entry in document.vertices}
    paths = {key: entry.paths.get("containment", "") for key, entry in entries.items()}
    exclusive = {paths[key] for key, entry in entries.items() if entry.exclusive}
    nodes = [_entry(entry) for entry in entries.values()]
    joined = {
        (paths.get(edge.source, edge.source), paths.get(edge.target, edge.target)): None
        for edge in document.edges
    }
    listed = set(paths.values())
    for entry in read_document(graph).vertices:
        path = entry.paths.get("containment", "")
        if exclusive.isdisjoint(_above(path)):
            continue
        if path in listed:
            raise ValueError(f"{path!r} is listed below an exclusive vertex, where it goes without saying")
        nodes.append(_entry(entry) | {"id": path})
        nodes[-1]["metadata"]["exclusive"] = True
        joined[path.rpartition("/")[0], path] = None
    for node in nodes[: len(entries)]:
        node["id"] = paths[node["id"]]
    edges = [{"source": source, "target": target} for source, target in joined]
    return {"graph": {"nodes": nodes, "edges": edges}}


def _above(path: str) -> list[str]:
    """The paths above, the nearest first."""
    above: list[str] = []
    while path.count("/") > 1:
        path = path.rpartition("/")[0]
        above.append(path)
    return above
