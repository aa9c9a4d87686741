"""What other packages may import, name by name. A change here belongs into the changelog."""

from __future__ import annotations

from importlib import import_module

import pytest

EXPORTED = {
    "fluxion_ffi": """
        FeatureMissing FluxionError GraphClosed InvalidGraph InvalidOptions InvalidRequest JobExists LibraryBroken
        LibraryNotFound LibraryTooOld LibraryUnavailable NotFound NothingToAllocate OutOfMemory ResourcesBusy
        Unsatisfiable Feature ResourceGraph Library open_library GraphOptions NO_JOB JobInfo MatchOp MatchResult
    """,
    "fluence_extender.coordination.provider": "Provider ProviderError TaskState TaskStatus VendorQueue",
    "fluence_extender.selection.providers": "Backend BackendProvider BackendQuery Description",
}


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_names_are_those_that_are_promised(name: str) -> None:
    module = import_module(name)
    assert sorted(module.__all__) == sorted(EXPORTED[name].split())


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_names_exist(name: str) -> None:
    module = import_module(name)
    assert [one for one in module.__all__ if not hasattr(module, one)] == []
