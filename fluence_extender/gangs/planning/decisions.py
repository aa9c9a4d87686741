"""What a pass decides: values that are carried out afterwards, as far as they still hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.planning.cluster_timeline import ClusterTimeline
from fluence_extender.gangs.planning.reservations import Blocked
from fluence_extender.gangs.planning.view import View
from fluence_extender.gangs.preemption.preempting import Considered
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason
from fluence_extender.queueing.entry import Entitlement


@dataclass(slots=True)
class Decided:
    """What a pass has decided about a gang that it has tried.

    ``after`` is a copy of the gang with what was decided. Its members in ``placed`` get places. ``whole`` is a message
    for the gang's history that says how many members there are, "" if that isn't new. ``withdrawn`` says that the
    members give their places back. ``again`` says that the gang has to be looked at again. ``considered`` has the
    decisions about preemption. ``without_preemption`` is why the gang has no places if no other gang makes room; it is
    None if it wasn't planned in vain.
    """

    after: Gang
    placed: list[Member] = field(default_factory=list)
    whole: str = ""
    withdrawn: bool = False
    again: bool = False
    considered: list[Considered] = field(default_factory=list)
    without_preemption: Reason | None = None

    @property
    def key(self) -> GangKey:
        """The key of the gang."""
        return self.after.key


@dataclass(slots=True)
class Plan:
    """What a pass has decided on a ``view``.

    ``decided`` has the decisions, in order. ``explained`` has the gangs of which only the reason has changed, with the
    new reason. The pass has tried the gangs in ``tried``. It has skipped those in ``skipped``, which back off. Those
    in ``postponed`` are large gangs that were tried too often lately. ``large`` has the large gangs that were tried:
    their namespaces, and how many members they have. The gangs in ``deferred`` are left for the next pass, because too
    many others of their namespace were planned without finding places. ``blocked`` has the gangs that lack capacity,
    with what is reserved for them on the timeline ``cluster``. ``entitled`` has the gangs with a changed entitlement,
    with the new one. ``unsettled`` says that the pass's own decisions may have changed the order of the gangs.
    """

    view: View
    decided: list[Decided] = field(default_factory=list)
    explained: list[tuple[GangKey, Reason]] = field(default_factory=list)
    tried: set[GangKey] = field(default_factory=set)
    skipped: set[GangKey] = field(default_factory=set)
    postponed: list[GangKey] = field(default_factory=list)
    deferred: list[GangKey] = field(default_factory=list)
    large: list[tuple[str, int]] = field(default_factory=list)
    blocked: Sequence[Blocked] = ()
    cluster: ClusterTimeline | None = None
    entitled: Sequence[tuple[GangKey, Entitlement]] = ()
    unsettled: bool = False
