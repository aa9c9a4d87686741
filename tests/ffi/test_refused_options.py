"""Options that would crash the library, or that it would misread, are refused, and the error names the option."""

from __future__ import annotations

from typing import Any

import pytest

from fluxion_ffi import GraphOptions, InvalidOptions, Library, ResourceGraph
from tests.ffi.documents import graph
from tests.ffi.stub import Stub


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("matcher_policy", None, "must be a string"),
        ("matcher_policy", "lowest", "'lowest' is neither"),
        ("matcher_policy", "", "is neither"),
        ("matcher_policy", "policy", "at 'policy'"),
        ("matcher_policy", "policy=high bogus", "at 'bogus'"),
        ("matcher_policy", "policy=middle", "at 'policy=middle'"),
        ("matcher_policy", "policy=low node_centric=maybe", "at 'node_centric=maybe'"),
        ("matcher_policy", "policy=low policy=high", "at 'policy=high'"),
        ("matcher_policy", "node_centric=true", "has no policy=high or policy=low"),
        ("prune_filters", None, "must be a string"),
        ("prune_filters", "ALL", "HIGHER:LOWER"),
        ("prune_filters", "ALL:core,", "HIGHER:LOWER"),
        ("prune_filters", ":core", "HIGHER:LOWER"),
        ("prune_filters", "node: ", "HIGHER:LOWER"),
        ("prune_filters", "a:b:c", "HIGHER:LOWER"),
        ("prune_filters", "ALL:co\0re", "HIGHER:LOWER"),
        ("reserve_vtx_vec", -1, "must be an integer"),
        ("reserve_vtx_vec", True, "must be an integer"),
        ("reserve_vtx_vec", 2**31, "must be an integer"),
    ],
)
def test_an_option_is_refused_by_name(option: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidOptions) as raised:
        GraphOptions(**{option: value})
    assert str(raised.value).startswith(f"options.{option}: ")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "policy", ["first", "variation", "policy=low", "policy=high node_centric=true stop_on_1_matches=false"]
)
def test_named_and_custom_policies_are_accepted(policy: str) -> None:
    assert GraphOptions(matcher_policy=policy).matcher_policy == policy


@pytest.mark.parametrize(
    ("filters", "root"),
    [
        ("", "site"),
        ("rack:node", "site"),
        ("site:node", "cluster"),
        ("rack:node,node:core", "cluster"),
        ("ALL:site", "site"),
    ],
)
def test_filters_that_leave_the_root_without_a_total_are_refused(
    stub: Stub, library: Library, filters: str, root: str
) -> None:
    document = graph(root=root)
    if filters == "site:node":
        filters += ",node:core"
    with pytest.raises(InvalidOptions, match="keeps no total at the root"):
        ResourceGraph(library, document, GraphOptions(prune_filters=filters))
    assert stub.calls == 0


@pytest.mark.parametrize(
    ("filters", "root"),
    [
        ("", "cluster"),
        ("rack:node", "cluster"),
        ("site:core", "site"),
        (" ALL : core ", "site"),
        ("ALL:x", "site"),
    ],
)
def test_filters_that_leave_the_root_a_total_are_accepted(library: Library, filters: str, root: str) -> None:
    ResourceGraph(library, graph(root=root), GraphOptions(prune_filters=filters)).close()
