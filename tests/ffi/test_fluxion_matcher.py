"""The matcher port on the stand-in: every call arrives, and answers and errors come back as the port defines them."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator

import pytest

from tests.ffi.documents import edge, graph, jobspec, vertex
from tests.ffi.stub import Stub, compile_library
from tests.oracle.errors import (
    Busy,
    EngineUnavailable,
    InvalidGraph,
    InvalidJobspec,
    InvalidOptions,
    JobExists,
    MatcherError,
    NothingToAllocate,
    UnknownJob,
    Unsatisfiable,
)
from tests.oracle.fluxion import create_fluxion_matcher
from tests.oracle.port import JobInfo, Matcher, MatcherOptions, MatchOp

R = {
    "graph": {
        "nodes": [
            vertex(2, "core", "/cluster0/node0/core0", 0, exclusive=True),
            vertex(3, "core", "/cluster0/node0/core1", 0, exclusive=True),
            vertex(4, "memory", "/cluster0/node0/memory0", 0, exclusive=True, size=16),
            vertex(1, "node", "/cluster0/node0", 0),
            vertex(9, "qubit", "/cluster0/gate0/qubit0", exclusive=True),
            vertex(8, "node", "/cluster0/gate0"),
            vertex(0, "cluster", "/cluster0"),
        ],
        "edges": [edge(0, 1), edge(1, 2)],
    }
}
PLACEMENT = {
    "/cluster0/node0": {"core": 2, "memory": 16},
    "/cluster0/gate0/qubit0": {},
    "/cluster0/gate0": {},
    "/cluster0": {},
}


@pytest.fixture
def matcher(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Matcher]:
    monkeypatch.setenv("FLUXION_LIBRARY", str(stub.path))
    made: Matcher = create_fluxion_matcher(graph(), MatcherOptions("lonode", "ALL:core", "jgf"))
    yield made
    made.close()


def test_options_are_the_librarys(stub: Stub, matcher: Matcher) -> None:
    options = json.loads(stub.last_call[2])
    assert options["matcher_policy"] == "lonode"
    assert options["prune_filters"] == "ALL:core"
    assert options["match_format"] == "jgf"


@pytest.mark.parametrize(
    ("op", "number"),
    [
        (MatchOp.ALLOCATE, "1"),
        ("allocate_with_satisfiability", "2"),
        ("allocate_orelse_reserve", "3"),
        ("satisfiability", "4"),
        ("without_allocating", "5"),
        ("without_allocating_future", "6"),
    ],
)
def test_every_operation_has_its_number(stub: Stub, matcher: Matcher, op: MatchOp | str, number: str) -> None:
    stub.give(string="")
    matcher.match(op, jobspec())
    assert stub.last_call[:2] == [stub.last_call[0], number]
    assert stub.last_call[0].startswith("match ")


def test_a_match_says_what_each_vertex_holds_and_makes_r_when_asked(stub: Stub, matcher: Matcher) -> None:
    stub.give(jobid=3, flag=True, at=60, string=json.dumps(R))
    match = matcher.match("allocate_orelse_reserve", jobspec())
    assert (match.jobid, match.reserved, match.at) == (3, True, 60)
    assert match.placement == PLACEMENT
    assert match.R == R


def test_an_answer_without_r_places_nothing(stub: Stub, matcher: Matcher) -> None:
    stub.give(string="")
    match = matcher.match("satisfiability", jobspec())
    assert match.placement == {}
    assert match.R is None


def test_a_jobid_of_ours_is_passed_on(stub: Stub, matcher: Matcher) -> None:
    stub.give(string=json.dumps(R))
    assert matcher.match("allocate", jobspec(), jobid=99).jobid == 99
    assert stub.last_call[3] == "99"
    with pytest.raises(JobExists) as raised:
        matcher.match("allocate", jobspec(), jobid=99)
    assert raised.value.errno == errno.EEXIST


def test_the_other_calls(stub: Stub, matcher: Matcher) -> None:
    stub.give(flag=False, at=5, string="ALLOCATED")
    assert matcher.info(4) == JobInfo("ALLOCATED", False, 5)
    matcher.cancel(4)
    assert stub.last_call[1:] == ["4", "0"]
    matcher.set_status("/cluster0/node0", up=False)
    assert stub.last_call[1:] == ["/cluster0/node0", "1"]
    stub.give(string=json.dumps(R))
    assert matcher.update_allocate(6, json.dumps(R)).placement == PLACEMENT
    matcher.add_subgraph(json.dumps(graph()).encode())
    assert json.loads(stub.last_call[1]) == graph()
    matcher.remove_subgraph("/cluster0/node1")
    assert stub.last_call[1:] == ["/cluster0/node1"]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EBUSY, Busy),
        (errno.ENODEV, Unsatisfiable),
        (errno.EINVAL, InvalidJobspec),
        (0, NothingToAllocate),
        (errno.ENOENT, NothingToAllocate),
        (errno.ERANGE, MatcherError),
    ],
)
def test_a_refused_match_is_the_ports_error(
    stub: Stub, matcher: Matcher, number: int, kind: type[MatcherError]
) -> None:
    stub.fail(number, "the library's words")
    with pytest.raises(MatcherError, match="the library's words") as raised:
        matcher.match("allocate", jobspec())
    assert type(raised.value) is kind
    assert raised.value.errno == number


REFUSALS: list[tuple[Callable[[Matcher], object], type[MatcherError], int]] = [
    (lambda matcher: matcher.match("reserve", jobspec()), InvalidJobspec, errno.EINVAL),
    (lambda matcher: matcher.match("allocate", jobspec(duration=-1)), InvalidJobspec, errno.EINVAL),
    (lambda matcher: matcher.remove_subgraph("/cluster0"), MatcherError, errno.EINVAL),
    (lambda matcher: matcher.add_subgraph("{}"), InvalidGraph, errno.EINVAL),
    (lambda matcher: matcher.update_allocate(1, "{}"), InvalidJobspec, errno.EINVAL),
]


@pytest.mark.parametrize(("call", "kind", "number"), REFUSALS)
def test_what_is_refused_before_the_library_is_the_ports_error_too(
    stub: Stub, matcher: Matcher, call: Callable[[Matcher], object], kind: type[MatcherError], number: int
) -> None:
    calls = stub.calls
    with pytest.raises(kind) as raised:
        call(matcher)
    assert raised.value.errno == number
    assert stub.calls == calls


def test_an_unknown_job(stub: Stub, matcher: Matcher) -> None:
    stub.fail(errno.ENOENT)
    with pytest.raises(UnknownJob):
        matcher.cancel(4)


def test_graphs_and_options_that_cannot_be_loaded(stub: Stub, matcher: Matcher) -> None:
    with pytest.raises(InvalidGraph) as raised:
        create_fluxion_matcher("{}", MatcherOptions())
    assert raised.value.errno == errno.EPROTO
    with pytest.raises(InvalidOptions, match="matcher_policy") as refused:
        create_fluxion_matcher(graph(), MatcherOptions(policy="best"))
    assert refused.value.errno == errno.EPROTO


def test_without_a_library_the_engine_is_unavailable_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLUXION_LIBRARY", "/nowhere/libreapi_cli.so")
    with pytest.raises(EngineUnavailable, match=r"/nowhere/libreapi_cli\.so(.|\n)*flux-sched >= 0\.53"):
        create_fluxion_matcher(graph(), MatcherOptions())


def test_a_library_too_old_for_an_operation_is_told(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = compile_library(tmp_path_factory.mktemp("old") / "libreapi_cli.so", "-DMATCH_OPS=4")
    monkeypatch.setenv("FLUXION_LIBRARY", str(old))
    made = create_fluxion_matcher(graph(), MatcherOptions())
    with pytest.raises(EngineUnavailable, match="too old for matching without allocating"):
        made.match("without_allocating", jobspec())
    made.close()
