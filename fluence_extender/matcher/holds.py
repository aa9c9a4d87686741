"""Holds: leaves of a node that is known beforehand, as for pods that run already.

A hold is the match of a request for one slot that may only look at that node; an engine that can tell the outcome
without a search answers faster, and leaves nothing else behind than the match would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.port import Hold, Match, MatchOp, Placement

_LABEL = "default"


class _Matches(Protocol):
    def match(self, op: MatchOp | str, jobspec: Mapping[str, Any], jobid: int | None = None) -> Match: ...


def hold_by_match(matcher: _Matches, hold: Hold) -> Placement | MatcherError:
    """A hold on an engine that knows no shorter way."""
    try:
        return matcher.match(MatchOp.ALLOCATE, jobspec_of(hold), hold.jobid).placement
    except MatcherError as error:
        return error


def jobspec_of(hold: Hold) -> dict[str, Any]:
    """The request that stands for a hold: one slot, until cancelled, on the node of that rank (RFC 14, RFC 31)."""
    leaves = [{"type": leaf, "count": count} for leaf, count in hold.counts.items()]
    return {
        "version": 9999,
        "resources": [{"type": "slot", "count": 1, "label": _LABEL, "with": leaves}],
        "attributes": {"system": {"duration": 0, "constraints": {"ranks": [str(hold.rank)]}}},
        "tasks": [{"command": ["hold"], "slot": _LABEL, "count": {"per_slot": 1}}],
    }
