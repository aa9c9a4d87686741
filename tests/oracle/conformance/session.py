"""A case: calls of a new matcher on a small graph, each with the answer that the rule requires.

Answers are short texts. A match reads ``node0: core0-1 memory0=16; node1: core0``: the exclusive vertices of R, below
the path of their parent seen from the root (children of the root below ``.``, the root itself below ``/``), sizes
behind ``=`` where they aren't 1. A match in the future begins with ``at 10``. A refusal is the name of its errno,
``nothing`` means that nothing was requested exclusively. A call without an answer of its own is ``done``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.oracle.conformance.jobspecs import Json
from tests.oracle.engines import Create
from tests.oracle.errors import MatcherError, NothingToAllocate
from tests.oracle.port import Jgf, Match, Matcher, MatcherOptions, MatchOp

Call = Callable[[Matcher], str]


@dataclass(frozen=True, slots=True)
class Step:
    """A method of the port, its arguments, and its answer. An answer in angle brackets names the part that is read."""

    method: str
    arguments: tuple[Any, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Case:
    """The calls that show one rule."""

    name: str
    graph: Jgf
    options: MatcherOptions
    steps: tuple[Step, ...]


def case(
    name: str,
    graph: Jgf,
    policy: str,
    *steps: Step,
    prune: str = "ALL:core,ALL:node",
) -> Case:
    """Return a case under one policy."""
    return Case(name, graph, MatcherOptions(policy, prune), steps)


def under(name: str, graph: Jgf, answers: dict[str, tuple[Step, ...]], **options: str) -> list[Case]:
    """Return a case for each policy in ``answers``."""
    return [
        case(f"{name}_under_{policy}", graph, policy, *steps, **options) for policy, steps in answers.items()
    ]


def allocate(request: Json, answer: str) -> Step:
    return Step("match", (MatchOp.ALLOCATE, request), answer)


def reserve(request: Json, answer: str) -> Step:
    return Step("match", (MatchOp.ALLOCATE_ORELSE_RESERVE, request), answer)


def allocate_or_say_why(request: Json, answer: str) -> Step:
    """Return a call of ALLOCATE_WITH_SATISFIABILITY."""
    return Step("match", (MatchOp.ALLOCATE_WITH_SATISFIABILITY, request), answer)


def satisfiable(request: Json, answer: str) -> Step:
    """Return a call of SATISFIABILITY; its answer is ``yes`` or ``ENODEV``."""
    return Step("match", (MatchOp.SATISFIABILITY, request), answer)


def try_now(request: Json, answer: str) -> Step:
    """Return a call of WITHOUT_ALLOCATING."""
    return Step("match", (MatchOp.WITHOUT_ALLOCATING, request), answer)


def try_ever(request: Json, answer: str) -> Step:
    """Return a call of WITHOUT_ALLOCATING_FUTURE."""
    return Step("match", (MatchOp.WITHOUT_ALLOCATING_FUTURE, request), answer)


def cancel(jobid: int, answer: str = "done") -> Step:
    return Step("cancel", (jobid,), answer)


def info(jobid: int, answer: str) -> Step:
    """Return a call whose answer is ``MODE at start``, or ENOENT."""
    return Step("info", (jobid,), answer)


def down(path: str, answer: str = "done") -> Step:
    return Step("set_status", (path, False), answer)


def up(path: str, answer: str = "done") -> Step:
    return Step("set_status", (path, True), answer)


def grow(jgf: Jgf, answer: str = "done") -> Step:
    return Step("add_subgraph", (jgf,), answer)


def shrink(path: str, answer: str = "done") -> Step:
    return Step("remove_subgraph", (path,), answer)


def replay(jobid: int, resources: Any, answer: str) -> Step:
    return Step("update_allocate", (jobid, resources), answer)


def differences(shown: Case, create: Create) -> list[str]:
    """Run a case; return a line for each step with another answer."""
    matcher = create(shown.graph, shown.options)
    lines = []
    for number, step in enumerate(shown.steps, 1):
        answer = answer_to(matcher, step)
        if answer != step.answer:
            lines.append(f"step {number}, {step.method}: {answer!r}, where the rule says {step.answer!r}")
    matcher.close()
    return lines


def answer_to(matcher: Matcher, step: Step) -> str:
    """Make the call and return its answer in words."""
    try:
        return _words(getattr(matcher, step.method)(*step.arguments))
    except NothingToAllocate:
        return "nothing"
    except MatcherError as error:
        return errno.errorcode.get(error.errno, "refused")


def _words(answer: Any) -> str:
    if answer is None:
        return "done"
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, Match):
        return _match(answer)
    if hasattr(answer, "mode"):
        return f"{answer.mode} at {answer.at}"
    if isinstance(answer, dict) and "graph" in answer:
        return granted(answer)
    return str(answer)


def _match(found: Match) -> str:
    resources = found.R
    if resources is None:
        return "yes"
    when = f"at {found.at} " if found.at else ""
    return (
        when + granted(resources) if isinstance(resources, dict) and "graph" in resources else str(resources)
    )


def granted(resources: Jgf) -> str:
    """Return the exclusive vertices of a JGF document, in words."""
    by_parent: dict[str, list[tuple[str, int, int]]] = {}
    for entry in resources["graph"]["nodes"]:
        vertex = entry["metadata"]
        if vertex.get("exclusive"):
            _, _, *way = vertex["paths"]["containment"].split("/")
            parent = "/".join(way[:-1]) or ("." if way else "/")
            basename = vertex.get("basename", vertex["type"])
            by_parent.setdefault(parent, []).append((basename, vertex["id"], vertex.get("size", 1)))
    return "; ".join(f"{parent}: {_fold(members)}" for parent, members in by_parent.items())


def _fold(members: list[tuple[str, int, int]]) -> str:
    """Return the vertices in the order of R, with equal neighbors as ranges."""
    runs: list[tuple[str, int, int, int]] = []
    for name, number, size in members:
        if runs and runs[-1][0] == name and runs[-1][2] + 1 == number and runs[-1][3] == size:
            runs[-1] = (name, runs[-1][1], number, size)
        else:
            runs.append((name, number, number, size))
    return " ".join(
        f"{name}{low}" + (f"-{high}" if high > low else "") + (f"={size}" if size != 1 else "")
        for name, low, high, size in runs
    )
