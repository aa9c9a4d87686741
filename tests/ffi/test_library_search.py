"""Which library is opened, and the message when none can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxion_ffi import Feature, FeatureMissing, GraphOptions, MatchOp, ResourceGraph, open_library
from fluxion_ffi.errors import LibraryBroken, LibraryNotFound, LibraryTooOld
from fluxion_ffi.library import load_first, places
from tests.ffi.documents import RELEASE, graph, jobspec
from tests.ffi.stub import Stub, compile_library


def accept(handle: object) -> None:
    """Accept any library that loads."""


def test_the_order_is_the_loaders_path_then_where_flux_installs() -> None:
    targets = [place.target for place in places(None, {})]
    assert targets[0] == "libreapi_cli.so"
    assert targets[1] == "/usr/lib/flux/libreapi_cli.so"
    assert targets[-1] == "/opt/flux/lib/flux/libreapi_cli.so"
    assert "/usr/local/lib/flux/libreapi_cli.so" in targets
    assert any(target.startswith("/usr/lib/") and "-linux-" in target for target in targets)


def test_the_variable_names_the_only_place() -> None:
    assert [place.target for place in places(None, {"FLUXION_LIBRARY": "/a/b.so"})] == ["/a/b.so"]


def test_an_empty_variable_names_nothing() -> None:
    assert len(places(None, {"FLUXION_LIBRARY": ""})) > 1


def test_an_argument_wins_over_the_variable() -> None:
    assert [place.target for place in places("/c.so", {"FLUXION_LIBRARY": "/a/b.so"})] == ["/c.so"]


def test_the_variable_is_read(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUXION_LIBRARY", str(stub.path))
    assert open_library().origin == f"{stub.path} (FLUXION_LIBRARY)"


def test_a_missing_library_is_told_with_every_place_and_what_to_install(tmp_path: Path) -> None:
    candidates = [*places(tmp_path / "one.so", {}), *places(tmp_path / "two.so", {})]
    with pytest.raises(LibraryNotFound) as raised:
        load_first(candidates, accept)
    message = str(raised.value)
    assert f"{tmp_path}/one.so" in message
    assert f"{tmp_path}/two.so" in message
    assert "flux-sched >= 0.53" in message
    assert "FLUXION_LIBRARY" in message


def test_a_name_that_the_loader_does_not_know_is_not_found() -> None:
    with pytest.raises(LibraryNotFound):
        open_library("libreapi_cli-of-nobody.so")


def test_a_file_that_is_no_library_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "libreapi_cli.so"
    path.write_text("not an ELF file")
    with pytest.raises(LibraryBroken, match=f"{path}: .*(invalid ELF header|file too short)"):
        open_library(path)


def test_a_missing_sibling_is_named(tmp_path: Path) -> None:
    source = tmp_path / "sibling.c"
    source.write_text("int sibling (void) { return 0; }")
    sibling = compile_library(tmp_path / "libsibling.so", "-Wl,-soname,libsibling.so.3", source=source)
    linked = ("-Wl,--no-as-needed", f"-L{tmp_path}", "-lsibling")
    path = compile_library(tmp_path / "libreapi_cli.so", *linked)
    sibling.unlink()
    with pytest.raises(LibraryBroken, match=r"it needs libsibling\.so\.3.*LD_LIBRARY_PATH"):
        open_library(path)


def test_a_broken_library_does_not_hide_a_good_one(stub: Stub, tmp_path: Path) -> None:
    broken = tmp_path / "libreapi_cli.so"
    broken.write_text("not an ELF file")
    _, place = load_first([*places(broken, {}), *places(stub.path, {})], accept)
    assert place.target == str(stub.path)


def test_another_library_is_not_taken_for_it(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int other (void) { return 0; }")
    path = compile_library(tmp_path / "libother.so", source=source)
    with pytest.raises(LibraryBroken, match="isn't libreapi_cli"):
        open_library(path)


@pytest.mark.parametrize("topic", ["SUBGRAPH", "MATCH"])
def test_a_library_from_before_0_53_is_told_so(tmp_path: Path, topic: str) -> None:
    path = compile_library(tmp_path / "libreapi_cli.so", f"-DLACKS_{topic}")
    with pytest.raises(LibraryTooOld, match=r"before flux-sched 0\.53: it lacks reapi_cli_") as raised:
        open_library(path)
    assert "Install flux-sched >= 0.53" in str(raised.value)


def test_a_full_library_has_every_feature(stub: Stub) -> None:
    library = open_library(stub.path)
    assert library.features == frozenset(Feature)
    assert library.version == ">= 0.54"


CALLS = {
    Feature.MATCH_WITH_JOBID: lambda loaded: loaded.match_with_jobid(MatchOp.ALLOCATE, jobspec(), 1),
    Feature.MATCH_SATISFY: lambda loaded: loaded.match_satisfy(jobspec()),
    Feature.UPDATE_ALLOCATE: lambda loaded: loaded.update_allocate(1, graph()),
    Feature.PARTIAL_CANCEL: lambda loaded: loaded.partial_cancel(1, RELEASE),
    Feature.FIND: lambda loaded: loaded.find("status=up"),
    Feature.STATUS: lambda loaded: loaded.set_status("/cluster0", True),
    Feature.RANK_STATUS: lambda loaded: loaded.get_rank_status(0),
    Feature.WITHOUT_ALLOCATING: lambda loaded: loaded.match(MatchOp.WITHOUT_ALLOCATING, jobspec()),
}


@pytest.mark.parametrize("feature", CALLS, ids=lambda feature: feature.name)
def test_a_missing_symbol_costs_its_own_feature_only(tmp_path: Path, feature: Feature) -> None:
    stub = Stub(compile_library(tmp_path / "libreapi_cli.so", f"-DLACKS_{feature.name}"))
    library = open_library(stub.path)
    assert library.features == frozenset(Feature) - {feature}
    with ResourceGraph(library, graph(), GraphOptions()) as resources:
        with pytest.raises(FeatureMissing, match="too old for"):
            CALLS[feature](resources)
        assert stub.last_call[0] == "initialize 1"
        resources.match(MatchOp.ALLOCATE, jobspec())


def test_a_0_53_library_does_not_match_without_allocating(tmp_path: Path) -> None:
    library = open_library(compile_library(tmp_path / "libreapi_cli.so", "-DMATCH_OPS=4"))
    assert library.features == frozenset(Feature) - {Feature.WITHOUT_ALLOCATING}
    assert library.version == "0.53"
