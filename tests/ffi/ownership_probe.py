"""Make each call once with success and once with a failure, and print what leaked.

`test_ownership` runs it with the stand-in in LD_PRELOAD. The output is a JSON object: for each call how many strings
were handed out and how many were not freed, for success and for failure.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path

from fluxion_ffi import FluxionError, GraphOptions, MatchOp, ResourceGraph, open_library
from tests.ffi.documents import RELEASE, graph, jobspec
from tests.ffi.stub import Stub

stub = Stub(Path(sys.argv[1]))
library = open_library(stub.path)
resources = ResourceGraph(library, graph(nodes=3), GraphOptions())
addition = graph(nodes=4)

CALLS: dict[str, Callable[[], object]] = {
    "initialize": lambda: ResourceGraph(library, graph()).close(),
    "match": lambda: resources.match(MatchOp.ALLOCATE, jobspec()),
    "match_with_jobid": lambda: resources.match_with_jobid(MatchOp.SATISFIABILITY, jobspec(), 9),
    "match_satisfy": lambda: resources.match_satisfy(jobspec()),
    "update_allocate": lambda: resources.update_allocate(1000, graph()),
    "cancel": lambda: resources.cancel(1000),
    "partial_cancel": lambda: resources.partial_cancel(1, RELEASE),
    "info": lambda: resources.info(1),
    "find": lambda: resources.find("status=up"),
    "add_subgraph": lambda: resources.add_subgraph(addition),
    "remove_subgraph": lambda: resources.remove_subgraph("/cluster0/node2"),
    "set_status": lambda: resources.set_status("/cluster0", up=True),
    "get_status": lambda: resources.get_status("/cluster0"),
    "set_rank_status": lambda: resources.set_rank_status([0], up=True),
    "get_rank_status": lambda: resources.get_rank_status(0),
}


def leaked(call: Callable[[], object], *, fails: bool) -> list[int]:
    stub.reset()
    if fails:
        stub.fail(errno.EIO, "some text", hands_out=True)
    try:
        call()
    except FluxionError:
        if not fails:
            raise
    return [stub.handed_out, stub.outstanding]


if __name__ == "__main__":
    # Failing first: a call that succeeds changes what the next one may do.
    results = {}
    for name, call in CALLS.items():
        failure = leaked(call, fails=True)
        results[name] = {"failure": failure, "success": leaked(call, fails=False)}
    stub.reset()
    stub.hand_out_raw()
    results["unfreed"] = {"success": [stub.handed_out, stub.outstanding]}
    print(json.dumps(results))
