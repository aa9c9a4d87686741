"""The stand-in library of the tests in this folder, compiled once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fluxion_ffi import Library, ResourceGraph, open_library
from tests.ffi.documents import graph
from tests.ffi.stub import Stub, compile_library


@pytest.fixture(scope="session")
def compiled_stub(tmp_path_factory: pytest.TempPathFactory) -> Stub:
    return Stub(compile_library(tmp_path_factory.mktemp("stub") / "libreapi_cli.so"))


@pytest.fixture
def stub(compiled_stub: Stub) -> Stub:
    compiled_stub.reset()
    return compiled_stub


@pytest.fixture
def library(stub: Stub) -> Library:
    return open_library(stub.path)


@pytest.fixture
def resources(stub: Stub, library: Library) -> Iterator[ResourceGraph]:
    """Return ``/cluster0`` with two nodes of two cores, in the stand-in."""
    with ResourceGraph(library, graph()) as loaded:
        yield loaded
        stub.reset()
