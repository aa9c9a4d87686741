"""The choice of virtual devices for pods, as jobs of the matcher.

A pod's devices are drafted before its node is chosen, because a device on a node decides the pod's node. The draft
becomes part of the pod's allocation, or is given up. All devices of a pod come from one backend if possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible, why_none
from fluence_extender.graph.containment import without_levels
from fluence_extender.graph.jobspecs import jobspecs_for
from fluence_extender.ledger.graph_matcher import GraphMatcher
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.port import Match
from fluence_extender.model.assignment import DeviceShare, recorded_devices
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, unsatisfiable


class DeviceDrafts:
    """The drafted devices of pods that have no allocation yet."""

    def __init__(self, matcher: GraphMatcher) -> None:
        self._matcher = matcher
        self._drafts: dict[str, list[int]] = {}

    @property
    def _catalogue(self) -> DeviceCatalogue:
        return self._matcher.graph.catalogue

    def draft(self, pod: Pod, barred_nodes: Iterable[str] = ()) -> tuple[DeviceShare, ...] | Reason:
        """Hold the devices that the pod asks for. If that is impossible, hold nothing and return the reason."""
        barred = frozenset(barred_nodes)
        shares: list[DeviceShare] = []
        for kind, amount in sorted(pod.devices.items()):
            usable = [
                device
                for device in eligible(self._catalogue, kind, pod.requires)
                if device.node not in barred
            ]
            found = self._hold(pod.uid, self._preferred(usable, shares), amount)
            if found is None:
                self.give_up(pod.uid)
                return why_not(self._catalogue, kind, amount, pod.requires, usable)
            shares.extend(found)
        return tuple(shares)

    def hold(
        self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]
    ) -> tuple[DeviceShare, ...] | None:
        """Hold exactly the devices ``chosen`` for each kind, with the units of each. Return None if one isn't free."""
        shares: list[DeviceShare] = []
        for some in chosen:
            devices = [device for device, _ in some]
            found = self._hold(pod.uid, [devices], sum(amount for _, amount in some))
            if found is None:
                self.give_up(pod.uid)
                return None
            shares.extend(found)
        return tuple(shares)

    def _preferred(self, usable: Sequence[Device], held: Sequence[DeviceShare]) -> list[list[Device]]:
        """Return the choices in order: the backend of ``held``, then any that doesn't tie the pod to a second node."""
        node = self._catalogue.node_of(held)
        fitting = [device for device in usable if node is None or device.node in ("", node)]
        if not held:
            return [fitting]
        same = [device for device in fitting if device.backend == held[0].backend]
        return [same, fitting]

    def _hold(self, uid: str, choices: Iterable[list[Device]], amount: int) -> list[DeviceShare] | None:
        for devices in choices:
            for jobspec in jobspecs_for(devices, amount):
                try:
                    match = self._matcher.match(jobspec)
                except MatcherError:
                    continue
                self._drafts.setdefault(uid, []).append(match.jobid)
                return _shares(match, devices, amount)
        return None

    def redraft(self, pod: Pod) -> tuple[tuple[DeviceShare, ...], bool]:
        """Hold a bound pod's devices again: those that its stamp names, otherwise any that match, otherwise none.

        A stamp only chooses among free devices that the pod may use, so a forged stamp gains nothing. Also return
        whether this is final: the pod holds all that it asks for, and every device that its stamp names exists.
        """
        shares: list[DeviceShare] = []
        final = True
        named = recorded_devices(pod.annotations)
        for kind, amount in sorted(pod.devices.items()):
            usable = [
                device
                for device in eligible(self._catalogue, kind, pod.requires)
                if device.node in ("", pod.node)
            ]
            paths = [one.path for one in named if one.type == kind]
            places = set(map(without_levels, paths))
            chosen = [device for device in usable if device.place in places]
            found = self._hold(pod.uid, [chosen, usable], amount)
            shares.extend(found or ())
            exist = all(self._catalogue.at(path) is not None for path in paths)
            final = final and found is not None and exist
        return tuple(shares), final

    def hold_again(self, shares: Iterable[DeviceShare]) -> tuple[tuple[int, ...], bool]:
        """Hold the same shares again, after the graph has changed; return the jobs and whether they cover the shares.

        A share of a device that is gone needs no job. If a pool has become too small, what is left of it is held.
        """
        jobs: list[int] = []
        covered = True
        for share in shares:
            device = self._catalogue.at(share.path)
            if device is None or device.type != share.type:
                continue
            amount, job = self._hold_most(device, share.amount)
            covered = covered and amount == share.amount
            if job is not None:
                jobs.append(job)
        return tuple(jobs), covered

    def _hold_most(self, device: Device, amount: int) -> tuple[int, int | None]:
        """Hold ``amount`` units of the device or as many as are free; return how many, and the job."""
        for less in range(amount, 0, -1):
            for jobspec in jobspecs_for((device,), less):
                try:
                    return less, self._matcher.match(jobspec).jobid
                except MatcherError:
                    continue
        return 0, None

    def match_request(self, pod: Pod, shares: Iterable[DeviceShare]) -> bool:
        """Return whether the devices that the pod holds still meet its requirements."""
        return all(
            any(
                device.place == without_levels(share.path)
                and (device.backend, device.attributes) == (share.backend, share.attributes)
                for device in eligible(self._catalogue, share.type, pod.requires)
            )
            for share in shares
        )

    def recorded(self, pod: Pod) -> bool:
        """Return whether the pod's stamp names devices and all of them exist."""
        named = recorded_devices(pod.annotations)
        return bool(named) and all(self._catalogue.at(one.path) is not None for one in named)

    def take(self, uid: str) -> tuple[int, ...]:
        """Remove a draft and return its jobs, which now belong to the pod's allocation."""
        return tuple(self._drafts.pop(uid, ()))

    def give_up(self, uid: str) -> None:
        """Free a draft; nothing happens when there is none."""
        self._matcher.cancel(self._drafts.pop(uid, ()))


def why_not(
    catalogue: DeviceCatalogue,
    kind: str,
    amount: int,
    requires: Mapping[str, str],
    usable: Sequence[Device],
) -> Reason:
    """Return why ``amount`` of ``kind`` can't be had from the devices ``usable``."""
    text = why_none(catalogue, kind, requires)
    if text is not None:
        return Reason(ReasonCode.NO_BACKEND, f"no backend: {text}")
    matching = eligible(catalogue, kind, requires)
    most = _largest(matching)
    if amount > most:
        return unsatisfiable(
            f"no backend has {amount} {kind} (the most is {most}), and all {kind} of a pod come from one backend: ask "
            "for less in each pod"
        )
    if not usable:
        return Reason(ReasonCode.BUSY, f"busy: no node with {kind} that matches may be used now")
    backends = ", ".join(sorted({device.backend for device in matching})[:10])
    return Reason(ReasonCode.BUSY, f"busy: {amount} {kind} not free on any backend that matches ({backends})")


def _shares(match: Match, devices: Sequence[Device], amount: int) -> list[DeviceShare]:
    granted = [device for device in devices if device.path in match.placement]
    return [device.share(amount if device.leaf else 1) for device in granted]


def _largest(devices: Iterable[Device]) -> int:
    """Return the largest request that one place could meet: a pool, or all whole devices below one vertex."""
    together: Counter[str] = Counter()
    for device in devices:
        place = device.path if device.leaf else device.path.rpartition("/")[0]
        together[place] += device.count
    return max(together.values(), default=0)
