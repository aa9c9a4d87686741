"""A call that fails raises the exception of its errno, with the library's text, which is read once and cleared."""

from __future__ import annotations

import errno

import pytest

import fluxion_ffi as fluxion
from fluxion_ffi import FluxionError, Library, MatchOp, ResourceGraph
from tests.ffi.documents import graph, jobspec
from tests.ffi.stub import Stub


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EBUSY, fluxion.ResourcesBusy),
        (errno.ENODEV, fluxion.Unsatisfiable),
        (errno.EINVAL, fluxion.InvalidRequest),
        (errno.EOVERFLOW, fluxion.InvalidRequest),
        (errno.ENOMEM, fluxion.OutOfMemory),
        (errno.ENOSYS, fluxion.FeatureMissing),
        (errno.ENOENT, fluxion.NothingToAllocate),
        (errno.ERANGE, FluxionError),
        (0, fluxion.NothingToAllocate),
    ],
    ids=lambda value: errno.errorcode.get(value, str(value)) if isinstance(value, int) else value.__name__,
)
def test_each_errno_of_a_match_has_its_exception(
    stub: Stub, resources: ResourceGraph, number: int, kind: type[FluxionError]
) -> None:
    stub.fail(number, "what it message\n")
    with pytest.raises(FluxionError) as raised:
        resources.match(MatchOp.ALLOCATE, jobspec())
    assert type(raised.value) is kind
    assert raised.value.errno == number
    assert raised.value.text == "what it message"
    assert str(raised.value) == "match: what it message"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.ENOENT, fluxion.NotFound), (errno.EEXIST, fluxion.JobExists), (0, FluxionError)],
)
def test_each_errno_of_another_call_has_its_exception(
    stub: Stub, resources: ResourceGraph, number: int, kind: type[FluxionError]
) -> None:
    stub.fail(number)
    with pytest.raises(FluxionError) as raised:
        resources.update_allocate(5, graph())
    assert type(raised.value) is kind
    assert raised.value.errno == number


def test_a_failure_without_text_is_told_by_errno(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.EBUSY)
    with pytest.raises(fluxion.ResourcesBusy, match="match: Device or resource busy"):
        resources.match(MatchOp.ALLOCATE, jobspec())


def test_unsatisfiable_is_an_answer_of_match_satisfy(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.ENODEV)
    assert resources.match_satisfy(jobspec()) is False
    stub.fail(errno.EINVAL)
    with pytest.raises(fluxion.InvalidRequest):
        resources.match_satisfy(jobspec())


def test_text_of_one_failure_is_not_in_the_next(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.EINVAL, "first")
    with pytest.raises(FluxionError):
        resources.cancel(1)
    assert stub.error_text == ""
    stub.fail(errno.EINVAL, "second")
    with pytest.raises(FluxionError) as raised:
        resources.cancel(1)
    assert raised.value.text == "second"


def test_text_left_by_a_success_is_not_in_the_next_failure(stub: Stub, resources: ResourceGraph) -> None:
    stub.murmur("nonexistent job 1")
    resources.cancel(1, noent_ok=True)
    stub.fail(errno.EINVAL, "second")
    with pytest.raises(FluxionError) as raised:
        resources.cancel(1)
    assert raised.value.text == "second"


def test_long_text_is_cut(stub: Stub, resources: ResourceGraph) -> None:
    stub.fail(errno.EBUSY, "x" * 5000)
    with pytest.raises(FluxionError) as raised:
        resources.match(MatchOp.ALLOCATE, jobspec())
    assert len(raised.value.text) < 2100
    assert raised.value.text.endswith("(3000 more characters)")


def test_errno_is_zero_at_the_first_call_and_then_what_the_last_one_left(
    stub: Stub, library: Library
) -> None:
    with ResourceGraph(library, graph()) as one, ResourceGraph(library, graph()) as other:
        assert stub.errno_seen == 0
        stub.leave_errno(errno.ERANGE)
        one.info(1)
        other.info(1)
        assert stub.errno_seen == 0
        one.info(1)
        assert stub.errno_seen == errno.ERANGE


def test_a_graph_that_cannot_be_loaded_is_freed(stub: Stub, library: Library) -> None:
    before = stub.contexts
    stub.fail(errno.EPROTO, "reapi_cli_initialize: Runtime error")
    with pytest.raises(fluxion.InvalidGraph, match="Runtime error") as raised:
        ResourceGraph(library, graph())
    assert raised.value.errno == errno.EPROTO
    assert stub.contexts == before


def test_no_memory_for_a_graph(stub: Stub, library: Library) -> None:
    stub.refuse_context()
    with pytest.raises(fluxion.OutOfMemory):
        ResourceGraph(library, graph())
