"""Which engine serves which policy, with and without libreapi_cli."""

from __future__ import annotations

import pytest

import fluence_extender.apps.extender.engines as engines
from fluence_extender.apps.extender.engines import choose_engine
from fluence_extender.apps.settings import EMBEDDED_POLICIES, POLICIES
from fluence_extender.engine.errors import EngineUnavailable
from fluence_extender.room.ledger import Ledger
from fluxion_ffi import LibraryUnavailable

OTHERS = [policy for policy in POLICIES if policy not in EMBEDDED_POLICIES]


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise LibraryUnavailable("libreapi_cli.so isn't there: install flux-sched")

    monkeypatch.setattr(engines, "open_library", missing)


@pytest.mark.parametrize("policy", EMBEDDED_POLICIES)
def test_some_policies_need_no_library(without_library: None, policy: str) -> None:
    for choice in ("auto", "embedded"):
        engine = choose_engine(choice, policy)
        assert engine.name == "embedded"
        assert engine.library(Ledger(policy), policy) is None


@pytest.mark.parametrize("policy", OTHERS)
def test_policy_that_needs_the_library_is_refused_without_it(without_library: None, policy: str) -> None:
    with pytest.raises(EngineUnavailable, match=rf"--policy {policy} needs libreapi_cli; .*lonode.*install"):
        choose_engine("auto", policy)
    with pytest.raises(
        EngineUnavailable, match="choose --engine fluxion, or one of the policies lonode, hinode"
    ):
        choose_engine("embedded", policy)


def test_library_that_is_asked_for_and_missing_is_an_error(without_library: None) -> None:
    with pytest.raises(EngineUnavailable, match="install flux-sched"):
        choose_engine("fluxion", "lonode")
