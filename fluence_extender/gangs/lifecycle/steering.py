"""Which members are steered now, and how.

A pod that exists is steered by a write of its own: a pin, or a nomination and an ungating. The foreseen pods of a Job
are steered together, by the patch that resumes the Job. A pod with claims waits until no other pod on its node has to
be served before it.
"""

from __future__ import annotations

from fluence_extender.gangs.execution.actions import Action, Steer
from fluence_extender.gangs.lifecycle.births import Births
from fluence_extender.gangs.lifecycle.displacement import Displacement
from fluence_extender.gangs.lifecycle.handover import first_to_steer
from fluence_extender.gangs.lifecycle.member_states import PLANNED, Binding, MemberEvent, move
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.ledger.device_rooms import DeviceRooms
from fluence_extender.placement.plan import Planner


class Steering:
    """Steers the members of gangs to their places."""

    def __init__(
        self, planner: Planner, displacement: Displacement, births: Births, rooms: DeviceRooms
    ) -> None:
        self._planner = planner
        self._displacement = displacement
        self._births = births
        self._rooms = rooms

    def due(self, gang: Gang) -> tuple[list[Member], list[Action]]:
        """Return the members of ``gang`` that are steered now, and the writes that steer them."""
        steerable = [
            one
            for one in gang.members.values()
            if one.state is PLANNED or (isinstance(one.data, Binding) and one.data.steer_again)
        ]
        if not steerable:
            return [], []
        foreseen = [one for one in steerable if one.pod.foreseen]
        real = [one for one in steerable if not one.pod.foreseen]
        wanted = list(first_to_steer(gang, real)) if real else real
        wanted = [one for one in wanted if not one.pod.claims or self._rooms.ungate(one.pod.uid)]
        return [*foreseen, *wanted], [*self._births.resumes(gang, foreseen), *self._steers(gang, wanted)]

    def _steers(self, gang: Gang, members: list[Member]) -> list[Action]:
        names = self._planner.eligibility.names if members else ()
        actions: list[Action] = []
        for member in members:
            if member.binding:
                move(gang, member, MemberEvent.STEER, steer_again=False)
            else:
                move(gang, member, MemberEvent.STEER)
            if member.assignment is not None and member.pending:
                node = member.assignment.node
                actions.append(Steer(member.pod, node, self._displacement.pin(gang, member.pod, node, names)))
        return actions
