"""Random graphs, requests and changes; several engines get the same calls and must give the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tests.oracle import Jgf, Match, Matcher, MatcherError, MatcherOptions, MatchOp
from tests.oracle.engines import Create
from tests.oracle.walker.last_errno import LAST_ERRNO

POLICIES = (
    "first",
    "firstnodex",
    "high",
    "low",
    "lonode",
    "hinode",
    "lonodex",
    "hinodex",
    "locality",
    "variation",
)
FILTERS = (
    "ALL:core,ALL:node",
    "ALL:core",
    "ALL:core,ALL:memory,ALL:gpu",
    "cluster:gpu,ALL:memory",
    "ALL:gpu",
)
"""libreapi_cli doesn't survive a root that counts nothing."""
LEAVES = ("core", "memory", "gpu")


class Graph:
    """A document in the making; numbers of vertices never repeat."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.uniq = random.choice([0, 0, 9_980])
        self.rank = 0
        self.nodes: dict[str, Jgf] = {}
        self.above: dict[str, str] = {}
        self.leaves: dict[str, list[Jgf]] = {}
        self.ids = random.choice(["unique", "unique", "repeated"])
        self.shape = random.choice(["flat", "flat", "rack", "mixed"])
        self.kinds = random.choice([LEAVES, LEAVES, ("core",), ("core", "memory")])
        root = self.vertex("", "cluster", "cluster0", 0, -1)
        self.root = root
        self.holders = [root]
        if self.shape != "flat":
            racks = [self.vertex(root, "rack", f"rack{number}", number, -1) for number in range(2)]
            self.holders = racks if self.shape == "rack" else [root, *racks]
        self.most = random.choice([1, 3, 6])
        self.alike = random.random() < 0.5
        for holder in self.holders:
            self.node(holder)
        for _ in range(random.choice([0, 1, 3, 6, 20])):
            self.node(random.choice(self.holders))

    def vertex(self, above: str, kind: str, name: str, number: int, rank: int, **more: Any) -> str:
        path = f"{above}/{name}"
        metadata: Jgf = {"type": kind, "basename": kind, "name": name, "id": number, "uniq_id": self.uniq}
        metadata |= {"rank": rank, **more, "paths": {"containment": path}}
        entry = {"id": str(self.uniq), "metadata": metadata}
        self.uniq += 1
        if above:
            self.above[path] = above
        if kind in LEAVES:
            self.leaves[above].append(entry)
        else:
            self.nodes[path] = entry
            self.leaves[path] = []
        return path

    def node(self, above: str) -> str:
        random, rank = self.random, self.rank
        self.rank += 1
        number = rank if self.ids == "unique" else random.randrange(3)
        properties = {key: "" for key in ("big", "zone=a") if random.random() < 0.4}
        if random.random() < 0.3:
            properties["perf_class"] = random.choice(["1", "2", "x"])
        path = self.vertex(above, "node", f"host{rank}", number, rank, properties=properties)
        first = random.choice([0, 0, 4])
        for kind in self.kinds:
            count = self.most if self.alike else random.randint(kind != "gpu" or rank == 0, self.most)
            for leaf in range(first, first + count):
                self.vertex(path, kind, f"{kind}{leaf}", leaf, rank)
        return path

    def hosts(self) -> list[str]:
        return [path for path, entry in self.nodes.items() if entry["metadata"]["type"] == "node"]

    def drop(self, path: str) -> None:
        for gone in [each for each in self.nodes if each == path or each.startswith(path + "/")]:
            del self.nodes[gone], self.leaves[gone]
            self.above.pop(gone, None)
            if gone in self.holders:
                self.holders.remove(gone)

    def document(self) -> Jgf:
        """The whole graph."""
        return self._of(list(self.nodes))

    def branch(self, path: str) -> Jgf:
        """The path from the root to ``path``, and its leaves."""
        paths = [path]
        while paths[0] in self.above:
            paths.insert(0, self.above[paths[0]])
        return self._of(paths, leaves_of=path)

    def _of(self, paths: list[str], leaves_of: str | None = None) -> Jgf:
        entries: list[Jgf] = []
        edges: list[Jgf] = []
        for path in paths:
            entry = self.nodes[path]
            entries.append(entry)
            if path in self.above:
                edges.append({"source": self.nodes[self.above[path]]["id"], "target": entry["id"]})
            for leaf in self.leaves[path] if leaves_of in (None, path) else ():
                entries.append(leaf)
                edges.append({"source": entry["id"], "target": leaf["id"]})
        document: Jgf = json.loads(json.dumps({"graph": {"nodes": entries, "edges": edges}}))
        return document


def random_count(random: Random, most: int) -> Any:
    if random.random() < 0.8:
        return random.randint(1, most)
    low = random.randint(1, 3)
    return random.choice(
        [
            {"min": low, "max": low + random.randint(0, 4), "operator": "+", "operand": random.randint(1, 2)},
            {"min": low, "max": 12, "operator": "*", "operand": 2},
            {"min": low},
        ]
    )


def random_constraint(random: Random, graph: Graph, depth: int = 0) -> Jgf:
    kind = random.choice(["ranks", "ranks", "properties", "hostlist", "and", "or", "not"])
    if kind in ("and", "or", "not") and depth < 2:
        return {kind: [random_constraint(random, graph, depth + 1) for _ in range(random.randint(1, 2))]}
    if kind == "properties":
        return {"properties": [random.choice(["big", "zone=a", "^big", "perf_class", "nowhere"])]}
    if kind == "hostlist":
        return {
            "hostlist": [random.choice([f"host{random.randrange(6)}", f"host[0-{random.randint(1, 4)}]"])]
        }
    rank = random.randrange(max(graph.rank, 1))
    return {"ranks": [random.choice([str(rank), f"{rank}-{rank + 2}", "0-99"])]}


def random_resources(random: Random, graph: Graph) -> list[Jgf]:
    kind = random.choice(["slots"] * 8 + ["nodes"] * 3 + ["whole"] * 3 + ["odd"] * 3)
    leaves = [
        {"type": name, "count": random_count(random, 3 if name != "gpu" else 1)}
        for name in random.sample(LEAVES, random.choice([1, 1, 2, 3]))
        if name in graph.kinds or (name != "memory" and random.random() < 0.1)
    ] or [{"type": "core", "count": 1}]
    slot: Jgf = {"type": "slot", "label": "default", "count": random_count(random, 8), "with": leaves}
    node: Jgf = {"type": "node", "count": random_count(random, 3)}
    if random.random() < 0.2:
        node["exclusive"] = True
    if kind == "slots":
        return [slot]
    if kind == "nodes":
        return [{**node, "with": [{**slot, "count": random_count(random, 3)}]}]
    if kind == "whole":
        node = {**node, "count": 1, **({"with": leaves} if random.random() < 0.8 else {})}
        return [{**slot, "count": random_count(random, 3), "with": [node]}]
    return random.choice(
        [
            [{**node, "with": leaves}],
            [node],
            [{**slot, "count": 1, "with": [{**node, "count": 2, "with": leaves}]}],
            [{"type": "rack", "count": 1, "with": [{**node, "with": [slot]}]}],
            [{"type": "rack", "count": 1, "exclusive": random.random() < 0.5, "with": [node]}],
            [slot, {**node, "with": leaves}],
            [{**slot, "count": 1, "with": [{"type": "rack", "count": 1, "with": [node]}]}],
            [{**slot, "count": 1, "with": [{"type": "rack", "count": 1}]}],
            [
                {
                    **slot,
                    "count": 1,
                    "with": [{"type": "core", "count": 1, "with": [{"type": "gpu", "count": 1}]}],
                }
            ],
            [{"type": "cluster", "count": 1, "with": [node]}],
            [{**slot, "with": [{**leaf, "exclusive": True} for leaf in leaves]}],
            leaves,
            [{**node, "with": [slot]}],
            [{**slot, "with": [*leaves, leaves[0]]}],
        ]
    )


def random_jobspec(random: Random, graph: Graph) -> Jgf:
    system: Jgf = {"duration": random.choice([0, 0, 10, 20, 50])}
    if random.random() < 0.3:
        system["constraints"] = random_constraint(random, graph)
    return jobspec_of(random_resources(random, graph), system)


def jobspec_of(resources: list[Jgf], system: Jgf) -> Jgf:
    return {
        "version": 9999,
        "resources": resources,
        "attributes": {"system": system},
        "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
    }


class Engines:
    """Engines on one graph: every call goes to all, and all must give the same answer.

    For libreapi_cli requests have no labels on vertices, which it shows in the R of later jobs too; and ids of ours are
    none that its own count comes upon, because then it forgets what one of the two jobs holds.
    """

    def __init__(self, random: Random, options: MatcherOptions, create: list[Create]) -> None:
        self.random = random
        self.options = options
        self.graph = Graph(random)
        self._create = create
        self.live: dict[int, Match] = {}
        self.engines: list[Matcher] = []
        self.calls: list[str] = []
        self._load()

    def _load(self) -> None:
        self._errnos: dict[int, int] = {}
        document = self.graph.document()
        self.engines = [create(document, self.options) for create in self._create]

    def close(self) -> None:
        for engine in self.engines:
            engine.close()

    def ask(self, what: str, call: Callable[[Matcher], Any]) -> Any:
        """Call all engines; return the answer of the first, which all others must give too."""
        self.calls.append(what)
        first: Any = None
        for place, engine in enumerate(self.engines):
            # A thread has one errno, and each engine here is to find the one that it left itself.
            LAST_ERRNO.value = self._errnos.get(place, 0)
            answer = _answer(partial(call, engine))
            self._errnos[place] = LAST_ERRNO.value
            if place == 0:
                first = answer
            else:
                seen = _seen(answer), _seen(first)
                assert seen[0] == seen[1], (*seen, type(engine), self.options, self.calls)
        return first

    def match(self) -> None:
        jobspec = random_jobspec(self.random, self.graph)
        if not _holds_something(jobspec["resources"]):
            # Which errno such a request reports depends on the calls before, in other graphs too.
            return
        op = self.random.choice([MatchOp.ALLOCATE] * 5 + list(MatchOp))
        jobid = self.random.choice([None, None, None, 1_000_000 + self.random.randrange(40)])
        self._match(op, jobspec, jobid)

    def hold(self) -> None:
        """Match leaves of one node, as for a pod that runs there already."""
        rank = self.random.randrange(self.graph.rank + 1)
        kinds = self.graph.kinds
        names = self.random.sample(kinds, self.random.randint(1, min(2, len(kinds))))
        leaves = [{"type": name, "count": self.random.randint(1, 2)} for name in names]
        slot = {"type": "slot", "count": 1, "label": "default", "with": leaves}
        system = {"duration": 0, "constraints": {"ranks": [str(rank)]}}
        self._match(MatchOp.ALLOCATE, jobspec_of([slot], system), 2_000_000 + len(self.calls))

    def _match(self, op: MatchOp, jobspec: Jgf, jobid: int | None) -> None:
        answer = self.ask(
            f"match {op} {json.dumps(jobspec['resources'])} {jobspec['attributes']} {jobid}",
            lambda engine: engine.match(op, jobspec, jobid),
        )
        if isinstance(answer, Match) and op.startswith("allocate"):
            self.live[answer.jobid] = answer

    def cancel(self, jobid: int) -> None:
        self.ask(f"cancel {jobid}", lambda engine: engine.cancel(jobid))
        self.ask(f"info {jobid}", lambda engine: engine.info(jobid))
        self.live.pop(jobid, None)

    def set_status(self) -> None:
        paths = [*self.graph.hosts() * 3, *self.graph.nodes]
        path = self.random.choice(paths)
        if self.random.random() < 0.05 and self.graph.leaves[path]:
            path = self.random.choice(self.graph.leaves[path])["metadata"]["paths"]["containment"]
        up = self.random.random() < 0.6
        self.ask(f"status {path} {up}", lambda engine: engine.set_status(path, up))

    def grow(self) -> None:
        if not self.graph.holders:
            return
        branch = self.graph.branch(self.graph.node(self.random.choice(self.graph.holders)))
        self.ask(f"add {branch}", lambda engine: engine.add_subgraph(branch))

    def shrink(self) -> None:
        """Remove a node that isn't its parent's last, after the jobs there, as libreapi_cli wants it."""
        hosts = self.graph.hosts()
        above = [self.graph.above[path] for path in self.graph.nodes if path in self.graph.above]
        victims = [path for path in hosts if above.count(self.graph.above[path]) > 1]
        if not victims:
            return
        path = self.random.choice(victims)
        for jobid in [jobid for jobid, match in self.live.items() if path in match.placement]:
            self.cancel(jobid)
        self.ask(f"remove {path}", lambda engine: engine.remove_subgraph(path))
        self.graph.drop(path)

    def cancel_one(self) -> None:
        self.cancel(self.random.choice([*self.live, 77]))

    def replay(self) -> None:
        """Fresh engines replay what is held."""
        self.close()
        self._load()
        self.calls.append("fresh")
        held = {jobid: match.R for jobid, match in self.live.items() if match.at == 0}
        self.live = {}
        for jobid, resources in held.items():
            if resources is None:
                continue
            answer = self.ask(f"replay {jobid} {resources}", partial(_replay, jobid, resources))
            if isinstance(answer, Match):
                self.live[jobid] = answer


def _replay(jobid: int, resources: Jgf, engine: Matcher) -> Match:
    return engine.update_allocate(jobid, resources)


def _holds_something(resources: list[Jgf]) -> bool:
    return any(
        resource["type"] == "slot" or resource.get("exclusive") or _holds_something(resource.get("with", []))
        for resource in resources
    )


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except MatcherError as error:
        return error


def _seen(answer: Any) -> Any:
    if isinstance(answer, MatcherError):
        return "refused", answer.errno
    if not isinstance(answer, Match):
        return answer
    placement = {path: dict(amounts) for path, amounts in answer.placement.items()}
    return answer.jobid, answer.reserved, answer.at, placement, _units(answer.R)


def _units(resources: Jgf | None) -> Any:
    """What an R lists: order, ids and all."""
    if resources is None:
        return None
    vertices = [
        (entry["id"], tuple(sorted((key, str(value)) for key, value in entry["metadata"].items())))
        for entry in resources["graph"]["nodes"]
    ]
    edges = [(edge["source"], edge["target"]) for edge in resources["graph"]["edges"]]
    return vertices, edges
