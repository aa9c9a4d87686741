"""The reasons of running gangs in the state API."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.http.state.gangs import gang_shape
from fluence_extender.kinds.membership import Membership
from fluence_extender.model.access import EVERYTHING
from fluence_extender.model.gang import Convention, GangKey, GangState
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from tests.core.values import pod

KEY = GangKey("default", "g", Convention.LABEL)


def gang(*phases: str, size: int = 3, state: GangState = GangState.BOUND) -> Gang:
    """Return a gang with a member on n0 for each of ``phases``."""
    made = Gang(KEY, size=size, state=state)
    for number, phase in enumerate(phases):
        one: Pod = pod(f"g-{number}", node="n0", phase=phase)
        made.put(Member(one, Membership(KEY, size, "test")))
    return made


@pytest.mark.parametrize(
    ("phases", "reason"),
    [
        (("Running", "Running", "Running"), ""),
        (("Running", "Running", "Running", "Running"), ""),
        (("Running", "Running", "Succeeded"), ""),
        (("Running", "Running"), "1 member is missing; replacements are placed with the others"),
        (("Running", "Failed"), "2 members are missing; replacements are placed with the others"),
    ],
)
def test_a_running_gang_with_missing_members_has_a_reason(phases: tuple[str, ...], reason: str) -> None:
    seen = gang_shape(gang(*phases), EVERYTHING)
    assert (seen.state, seen.reason, seen.why) == ("bound", reason, "")


def test_a_recorded_reason_has_priority_over_missing_members() -> None:
    waits = gang("Running", state=GangState.COMMITTED)
    waits.remember(reason=Reason(ReasonCode.BUSY, "busy: 0 of 1 fit now"))
    assert gang_shape(waits, EVERYTHING).reason == "busy: 0 of 1 fit now"
    assert gang_shape(gang("Succeeded", state=GangState.FINISHED), EVERYTHING).reason == ""
