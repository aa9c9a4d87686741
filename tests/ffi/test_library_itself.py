"""What passes our checks doesn't crash the library; these tests run only where it is installed.

Each has a process of its own, so that a crash fails one test and doesn't end the run.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pytest

from fluxion_ffi import FluxionError, GraphOptions, MatchOp, ResourceGraph, open_library
from tests.engines import FLUXION
from tests.ffi.documents import RELEASE, Json, edge, graph, jobspec, vertex

SEARCHES = (MatchOp.WITHOUT_ALLOCATING_FUTURE, MatchOp.ALLOCATE_ORELSE_RESERVE)


def cores(count: int) -> Json:
    return jobspec([{"type": "slot", "count": 1, "label": "a", "with": [{"type": "core", "count": count}]}])


def search(resources: ResourceGraph) -> int:
    """Look for a start for small and large requests; return how many got one."""
    found = 0
    for op in SEARCHES:
        for count in (1000, 1, 2, 3):
            try:
                resources.match(op, cores(count))
            except FluxionError:
                continue
            found += 1
    return found


def grows_after_a_search() -> None:
    """A graph that grows moves its vertices in memory, and an earlier search must not point to their old places."""
    addition = graph()
    addition["graph"]["nodes"] += [
        vertex(1000, "node", "/cluster0/node9", 9),
        *(vertex(1001 + i, "core", f"/cluster0/node9/core{i}", 9) for i in range(3)),
        vertex(1100, "memory", "/cluster0/node9/memory0", 9, size=4),
    ]
    addition["graph"]["edges"] += [edge(0, 1000), *(edge(1000, 1001 + i) for i in range(3)), edge(1000, 1100)]
    with ResourceGraph(open_library(), graph(), GraphOptions(matcher_policy="low")) as resources:
        search(resources)
        resources.add_subgraph(addition)
        assert search(resources) > 0
        resources.remove_subgraph("/cluster0/node0")
        search(resources)


def is_as_deep_as_allowed() -> None:
    document = graph()
    path, parent = "/cluster0", 0
    for level in range(255):
        path, number = f"{path}/box0", 1000 + level
        document["graph"]["nodes"].append(vertex(number, "box", path))
        document["graph"]["edges"].append(edge(parent, number))
        parent = number
    with ResourceGraph(open_library(), document) as resources:
        assert search(resources) > 0


def frees_by_rank() -> None:
    with ResourceGraph(open_library(), graph(), GraphOptions(matcher_policy="hinode")) as resources:
        resources.match_with_jobid(MatchOp.ALLOCATE, cores(2), 5)
        assert resources.partial_cancel(5, RELEASE) is True
        assert resources.info(5).mode == "CANCELED"


def answers_with_status() -> None:
    with ResourceGraph(open_library(), graph()) as resources:
        resources.set_rank_status([0, 1], up=False)
        assert resources.get_status("/cluster0/node0") is False
        assert resources.get_rank_status(1) is False
        found = resources.find("status=down")
        assert found is not None
        assert "/cluster0/node1" in found
        assert resources.match_satisfy(cores(2)) is True


if FLUXION.library is not None:

    @pytest.mark.parametrize(
        "story", [grows_after_a_search, is_as_deep_as_allowed, frees_by_rank, answers_with_status]
    )
    def test_the_library_survives(story: Callable[[], None]) -> None:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            process.submit(story).result()
