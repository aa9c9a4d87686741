"""Planning as if some pods were gone: on a copy of the accounts, so that the ledger never notices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from fluence_extender.graph.catalogue import Device
from fluence_extender.ledger.crowd import Crowd
from fluence_extender.ledger.use import Use, Uses, use_of, uses_of_devices
from fluence_extender.model.placement import Assignment, DeviceShare
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.placement.bonds import bonds
from fluence_extender.placement.eligibility import EligibilityIndex, refusal
from fluence_extender.placement.ledger_port import Graph, RoomSource
from fluence_extender.placement.plan import Planner, Settled, Wish
from fluence_extender.placement.planning_copy import PlanningCopy, Rules
from fluence_extender.placement.search import capacity
from fluence_extender.placement.topology import Topology
from fluence_extender.placement.wish import grouped

_SEARCHED = Reason(Why.BUSY, "busy: all devices are searched for together")


class Standing(Uses, Rules, Protocol):
    """What a trial is made on: the ledger, or a copy of them."""

    @property
    def free(self) -> RoomSource:
        """What the nodes have left."""
        ...

    @property
    def whole(self) -> RoomSource:
        """What the nodes have when nothing runs."""
        ...

    @property
    def mirror(self) -> Graph:
        """The resource graph."""
        ...


class Trial:
    """A copy of ``ledger`` as they are now, on which a gang's questions are answered, whatever becomes of the ledger.

    ``topology`` follows the same nodes as ``eligibility``. ``crowd`` are pods that may be asked about; what others use
    is read from the ledger then. ``devices`` says whether the gang asks for devices.
    """

    def __init__(
        self,
        ledger: Standing,
        eligibility: EligibilityIndex,
        topology: Topology | None = None,
        devices: bool = True,
    ) -> None:
        self._ledger = ledger
        self._copy = PlanningCopy(
            (ledger.free.now().copy(), ledger.whole.now()),
            ledger.mirror,
            ledger,
            uses_of_devices(ledger) if devices else {},
            _SearchedDevices(),
        )
        self._planner = Planner(self._copy, eligibility, topology)
        self.crowd = Crowd(self._copy.free.now())
        self._gone: frozenset[str] = frozenset()
        self._read: dict[str, Use | None] = {}
        self._asked: tuple[Sequence[Wish], bool] | None = None

    def place(
        self,
        wishes: Sequence[Wish],
        gang: object,
        settled: Sequence[Settled],
        without: frozenset[str],
        within: Collection[str] | None = None,
    ) -> tuple[Assignment, ...] | None:
        """Where the pods would go once those of the uids ``without`` have gone, on nodes of ``within``; or None."""
        self._remove(without)
        self._copy.within = within
        found = self._planner.find(wishes, gang, settled)
        if found is not None:
            self._copy.undo([wish.pod.uid for wish in wishes])
        return found

    def fits(
        self, wishes: Sequence[Wish], gang: object, settled: Sequence[Settled], without: frozenset[str]
    ) -> bool:
        """Whether `place` would find places on any nodes; ask about the same ``wishes`` (that object) each time."""
        if not self._alike(wishes):
            return self.place(wishes, gang, settled, without) is not None
        self._remove(without)
        self._copy.within = None
        shape = self._planner.shape(wishes[0], len(wishes), gang)
        return int(capacity(shape, self._copy.free.now()).sum()) >= len(wishes)

    def _alike(self, wishes: Sequence[Wish]) -> bool:
        """Whether all are equal and may go to any nodes, so that it is enough to count how many these take."""
        if self._asked is None or self._asked[0] is not wishes:
            free = not any(one.pod.devices or bonds(one.pod, one.levels, one.job_size) for one in wishes)
            self._asked = wishes, free and len(grouped(wishes, {})) == 1
        return self._asked[1]

    def put(
        self, wishes: Sequence[Wish], gang: object, settled: Sequence[Settled]
    ) -> tuple[Assignment, ...] | None:
        """Where the pods would go, and there they are for the questions that follow; or None."""
        return self._planner.find(wishes, gang, settled)

    def put_where_confined(self, wishes: Iterable[Wish], gang: object) -> dict[str, str]:
        """Put pods without devices, ports and bonds, one by one, on the first of the nodes that each is confined to.

        Returns the nodes by uid; who finds none that takes it is left out. For many this is much quicker than `put`.
        """
        rooms, nodes, shut = self._copy.free.now(), self._planner.eligibility.nodes, self._copy.closed(gang)
        found: dict[str, str] = {}
        for wish in wishes:
            asked = self._copy.rounded(wish.pod.requests)
            size = rooms.size(asked)
            for name in wish.pod.confined_to:
                row, node = rooms.rows.get(name), nodes.get(name)
                if row is None or node is None or name in shut or name in wish.barred:
                    continue
                if refusal(wish.pod, node) is not None:
                    continue
                if ((rooms.free[row, : len(size)] >= size) | (size == 0)).all():
                    self._copy.take_all([(wish.pod, Assignment(wish.pod.uid, name))], gang)
                    found[wish.pod.uid] = name
                    break
        return found

    def _remove(self, uids: frozenset[str]) -> None:
        """Let exactly the pods of these uids be gone."""
        back, going = self.crowd.among(self._gone - uids), self.crowd.among(uids - self._gone)
        self._copy.bring_all_back(back[0], self.crowd)
        for use in self._single(back[1]):
            self._copy.bring_back(use)
        self._copy.end_all(going[0], self.crowd)
        for use in self._single(going[1]):
            self._copy.end(use)
        self._gone = uids

    def _single(self, uids: Collection[str]) -> Iterator[Use]:
        for uid in uids:
            if uid not in self._read:
                self._read[uid] = self.crowd.apart.get(uid) or use_of(self._ledger, uid)
            use = self._read[uid]
            if use is not None:
                yield use


class _SearchedDevices:
    """The devices of a trial: those of all members are always searched for together."""

    def draft(self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()) -> Reason:
        """Leave it to the search."""
        return _SEARCHED

    def hold(self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]) -> tuple[DeviceShare, ...]:
        """What the search has chosen."""
        return tuple(device.share(amount) for some in chosen for device, amount in some)

    def give_up(self, uid: str) -> None:
        """There are no drafts."""

    def end(self, shares: Iterable[DeviceShare], back: bool) -> None:
        """The search looks at who holds what."""
