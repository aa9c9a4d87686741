"""What matching costs on one flat cluster: the counted engine, the walker, and libreapi_cli where it is found.

Nodes have 32 cores, 32 units of memory and 4 gpus. All engines are asked the same in one run, placement and R read
included, so that their ratios hold on any machine. The walker is left out above ``--walker-limit`` nodes: it needs
a vertex a leaf.

    python benchmarks/matcher.py --nodes 100,1000
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from fluence_extender.graph.jgf import expand
from fluence_extender.matcher import EngineUnavailable, Jgf, Matcher, MatcherOptions, MatchOp, create_matcher
from fluence_extender.matcher.counted import CountedMatcher
from fluence_extender.matcher.embedded import EmbeddedMatcher

LEAVES = (("core", 32), ("memory", 32), ("gpu", 4))
PRUNE = "ALL:core,ALL:memory,ALL:gpu"
POLICIES = ("first", "lonode", "hinode")
SLOTS = (1, 64, 512)
ROW = "{:<8} {:>6} {:<28} {:>12} {:>12} {:>12} {:>9} {:>9}"


def node_entries(number: int) -> tuple[list[Jgf], list[Jgf]]:
    """The entries and edges of one node of the cluster."""
    uniq_id = 1 + number * (1 + sum(count for _, count in LEAVES))
    path = f"/cluster/node{number}"
    nodes = [entry("node", number, uniq_id, number, path, properties={"virtual=false": ""})]
    edges = [{"source": "0", "target": str(uniq_id)}]
    leaf_id = uniq_id + 1
    for kind, count in LEAVES:
        nodes.append(entry(kind, 0, leaf_id, number, f"{path}/{kind}0", count=count))
        edges.append({"source": str(uniq_id), "target": str(leaf_id)})
        leaf_id += count
    return nodes, edges


def entry(kind: str, number: int, uniq_id: int, rank: int, path: str, **more: Any) -> Jgf:
    """One vertex of a document."""
    name = path.rpartition("/")[2]
    metadata = {"type": kind, "basename": kind, "name": name, "id": number, "uniq_id": uniq_id, "rank": rank}
    return {"id": str(uniq_id), "metadata": {**metadata, "paths": {"containment": path}, **more}}


def cluster(numbers: range) -> Jgf:
    """A compact document of the root and the nodes numbered."""
    nodes = [entry("cluster", 0, 0, -1, "/cluster")]
    edges: list[Jgf] = []
    for number in numbers:
        more_nodes, more_edges = node_entries(number)
        nodes += more_nodes
        edges += more_edges
    return {"graph": {"nodes": nodes, "edges": edges}}


def jobspec(slots: int, rank: int | None = None, **leaves: int) -> Jgf:
    """Slots of the leaves, on one node if a rank is given."""
    shape = [{"type": kind, "count": count} for kind, count in leaves.items()]
    system: Jgf = {"duration": 0}
    if rank is not None:
        system["constraints"] = {"ranks": [str(rank)]}
    return {
        "version": 9999,
        "resources": [{"type": "slot", "count": slots, "label": "default", "with": shape}],
        "attributes": {"system": system},
        "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
    }


def timed(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def read(matcher: Matcher, spec: Jgf) -> int:
    """Allocate, read placement and R; returns the jobid."""
    match = matcher.match(MatchOp.ALLOCATE, spec)
    assert match.placement
    assert match.R
    return match.jobid


def measure_matches(matcher: Matcher, spec: Jgf, repeat: int) -> tuple[float, float]:
    """Median seconds of a match and of its cancel."""
    matches, cancels = [], []
    for _ in range(repeat):
        jobs: list[int] = []
        matches.append(timed(lambda jobs=jobs: jobs.append(read(matcher, spec))))
        cancels.append(timed(lambda jobs=jobs: matcher.cancel(jobs[0])))
    return statistics.median(matches), statistics.median(cancels)


def measure(create: Callable[[], Matcher], size: int, *, fine: bool) -> Iterator[tuple[str, float]]:
    """The figures of one engine under one policy, by name, in seconds."""
    gc.collect()
    start = time.perf_counter()
    matcher = create()
    yield "load", time.perf_counter() - start
    repeat = 15 if fine else 3
    for slots in SLOTS:
        if slots > size * 4:
            continue
        match, cancel = measure_matches(matcher, jobspec(slots, core=1, memory=1), repeat)
        yield f"match {slots} x (core, memory)", match
        if slots == SLOTS[-1]:
            yield "cancel of that", cancel
        yield (
            f"match {slots} x (8 core, gpu)",
            measure_matches(matcher, jobspec(slots, core=8, gpu=1), repeat)[0],
        )
    held = read(matcher, jobspec(size * 16, core=1, memory=1))
    yield "half full: match 64", measure_matches(matcher, jobspec(min(64, size), core=1, memory=1), repeat)[0]
    matcher.cancel(held)
    yield "pinned match", measure_matches(matcher, jobspec(1, rank=size // 2, core=1, memory=1), repeat)[0]
    branch = cluster(range(size, size + 1))
    document = branch if isinstance(matcher, CountedMatcher) else expand(branch)
    yield "add a node", timed(lambda: matcher.add_subgraph(document))
    yield "remove a node", timed(lambda: matcher.remove_subgraph(f"/cluster/node{size}"))
    if isinstance(matcher, CountedMatcher):
        yield "fork", statistics.median(timed(matcher.fork) for _ in range(5))
        yield "fork, match 64", timed(lambda: read(matcher.fork(), jobspec(64, core=1, memory=1)))
    matcher.close()


def library(document: Jgf, options: MatcherOptions) -> Callable[[], Matcher] | None:
    """How to load libreapi_cli, None where it isn't found."""
    try:
        create_matcher("fluxion", expand(cluster(range(1))), options).close()
    except EngineUnavailable:
        return None
    return lambda: create_matcher("fluxion", document, options)


def compare(size: int, policy: str, walker_limit: int) -> None:
    """Print the table of one cluster under one policy."""
    options = MatcherOptions(policy=policy, prune_filters=PRUNE)
    compact = cluster(range(size))
    figures = {"counted": dict(measure(lambda: CountedMatcher(compact, options), size, fine=True))}
    expanded = expand(compact) if size <= walker_limit else None
    if expanded is not None:
        figures["walker"] = dict(measure(lambda: EmbeddedMatcher(expanded, options), size, fine=False))
        create = library(expanded, options)
        if create is not None:
            figures["libreapi_cli"] = dict(measure(create, size, fine=False))
    for name, own in figures["counted"].items():
        others = [figures.get(engine, {}).get(name) for engine in ("walker", "libreapi_cli")]
        cells = [f"{seconds * 1e3:.3f} ms" if seconds is not None else "-" for seconds in (own, *others)]
        ratios = [f"{seconds / own:.1f}x" if seconds is not None else "-" for seconds in others]
        print(ROW.format(policy, size, name, *cells, *ratios), flush=True)


def main() -> None:
    """Read the command line and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="100,1000,5000,15000", help="cluster sizes, separated by commas")
    parser.add_argument("--policies", default=",".join(POLICIES), help="match policies, separated by commas")
    parser.add_argument(
        "--walker-limit", type=int, default=1000, help="largest cluster for the other engines"
    )
    arguments = parser.parse_args()
    heads = ("policy", "nodes", "what", "counted", "walker", "libreapi_cli", "walker/", "library/")
    print(ROW.format(*heads))
    for size in map(int, arguments.nodes.split(",")):
        for policy in arguments.policies.split(","):
            compare(size, policy, arguments.walker_limit)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
