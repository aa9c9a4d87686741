"""Virtual devices for pods: which of them a pod gets, as jobs of the matcher.

A pod's devices are drafted first, because a device that hangs on a node decides the pod's node; the draft becomes part
of the pod's hold, or is given up with it. All devices of a pod come from one backend where that is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible, why_none
from fluence_extender.graph.containment import without_levels
from fluence_extender.graph.jobspecs import jobspecs_for
from fluence_extender.ledger.mirror import Mirror
from fluence_extender.matcher.errors import MatcherError
from fluence_extender.matcher.port import Match
from fluence_extender.model.assignment import DeviceShare, recorded_devices
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, unsatisfiable


class Devices:
    """Drafts of device shares by pod uid."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._drafts: dict[str, list[int]] = {}

    def draft(
        self, pod: Pod, requires: Mapping[str, str], barred_nodes: Iterable[str] = ()
    ) -> tuple[DeviceShare, ...] | Reason:
        """Hold what the pod asks for, or say why that can't be done; then nothing is held."""
        barred = frozenset(barred_nodes)
        shares: list[DeviceShare] = []
        for kind, amount in sorted(pod.devices.items()):
            usable = [
                device
                for device in eligible(self._mirror.catalogue, kind, requires)
                if device.node not in barred
            ]
            found = self._take(pod.uid, self._preferred(usable, shares), amount)
            if found is None:
                self.give_up(pod.uid)
                return why_not(self._mirror.catalogue, kind, amount, requires, usable)
            shares.extend(found)
        return tuple(shares)

    def hold(
        self, pod: Pod, chosen: Iterable[Sequence[tuple[Device, int]]]
    ) -> tuple[DeviceShare, ...] | None:
        """Hold exactly the devices ``chosen`` for each kind, with the units of each; None when they are not free."""
        shares: list[DeviceShare] = []
        for some in chosen:
            devices = [device for device, _ in some]
            found = self._take(pod.uid, [devices], sum(amount for _, amount in some))
            if found is None:
                self.give_up(pod.uid)
                return None
            shares.extend(found)
        return tuple(shares)

    def _preferred(self, usable: Sequence[Device], held: Sequence[DeviceShare]) -> list[list[Device]]:
        """The choices in order: the same backend as before, then any that doesn't tie the pod to a second node."""
        node = self._mirror.catalogue.node_of(held)
        fitting = [device for device in usable if node is None or device.node in ("", node)]
        if not held:
            return [fitting]
        same = [device for device in fitting if device.backend == held[0].backend]
        return [same, fitting]

    def _take(self, uid: str, choices: Iterable[list[Device]], amount: int) -> list[DeviceShare] | None:
        for devices in choices:
            for jobspec in jobspecs_for(devices, amount):
                try:
                    match = self._mirror.match(jobspec)
                except MatcherError:
                    continue
                self._drafts.setdefault(uid, []).append(match.jobid)
                return _shares(match, devices, amount)
        return None

    def redraft(self, pod: Pod, requires: Mapping[str, str]) -> tuple[tuple[DeviceShare, ...], bool]:
        """Hold a bound pod's devices again: those its stamp names if they fit and match, else any, else none.

        A stamp can only choose among devices that are free and that the pod may use, so a forged one gains nothing.
        Also tells whether that settles it: all that the pod asks for is held, and all that its stamp names is there.
        """
        shares: list[DeviceShare] = []
        settled = True
        named = recorded_devices(pod.annotations)
        for kind, amount in sorted(pod.devices.items()):
            usable = [
                device
                for device in eligible(self._mirror.catalogue, kind, requires)
                if device.node in ("", pod.node)
            ]
            paths = [one.path for one in named if one.type == kind]
            places = set(map(without_levels, paths))
            chosen = [device for device in usable if device.place in places]
            found = self._take(pod.uid, [chosen, usable], amount)
            shares.extend(found or ())
            there = all(self._mirror.catalogue.at(path) is not None for path in paths)
            settled = settled and found is not None and there
        return tuple(shares), settled

    def again(self, shares: Iterable[DeviceShare]) -> tuple[tuple[int, ...], bool]:
        """Hold the same shares on a graph that was loaded anew; the jobs, and whether they cover all that there is.

        A share whose device is gone needs nothing; of a pool that has become too small what is left of it is held.
        """
        jobs: list[int] = []
        covered = True
        for share in shares:
            device = self._mirror.catalogue.at(share.path)
            if device is None or device.type != share.type:
                continue
            amount, job = self._as_much(device, share.amount)
            covered = covered and amount == share.amount
            if job is not None:
                jobs.append(job)
        return tuple(jobs), covered

    def _as_much(self, device: Device, amount: int) -> tuple[int, int | None]:
        """Hold ``amount`` of the device, or as much as is free: how much, and the job."""
        for less in range(amount, 0, -1):
            for jobspec in jobspecs_for((device,), less):
                try:
                    return less, self._mirror.match(jobspec).jobid
                except MatcherError:
                    continue
        return 0, None

    def suit(self, pod: Pod, shares: Iterable[DeviceShare]) -> bool:
        """Whether shares that the pod was given are still such as it asks for."""
        return all(
            any(
                device.place == without_levels(share.path)
                and (device.backend, device.attributes) == (share.backend, share.attributes)
                for device in eligible(self._mirror.catalogue, share.type, pod.requires)
            )
            for share in shares
        )

    def recorded(self, pod: Pod) -> bool:
        """Whether the pod's stamp names devices that there are."""
        named = recorded_devices(pod.annotations)
        return bool(named) and all(self._mirror.catalogue.at(one.path) is not None for one in named)

    def jobs(self, uid: str) -> tuple[int, ...]:
        """Hand a draft's jobs over to the pod's hold."""
        return tuple(self._drafts.pop(uid, ()))

    def give_up(self, uid: str) -> None:
        """Free a draft; nothing happens when there is none."""
        self._mirror.cancel(self._drafts.pop(uid, ()))


def why_not(
    catalogue: DeviceCatalogue,
    kind: str,
    amount: int,
    requires: Mapping[str, str],
    usable: Sequence[Device],
) -> Reason:
    """Why ``amount`` of ``kind`` can't be had, where the devices ``usable`` come into question."""
    text = why_none(catalogue, kind, requires)
    if text is not None:
        return Reason(ReasonCode.NO_BACKEND, f"no backend: {text}")
    suited = eligible(catalogue, kind, requires)
    most = _largest(suited)
    if amount > most:
        return unsatisfiable(f"no backend has {amount} {kind} (the most is {most})")
    if not usable:
        return Reason(ReasonCode.BUSY, f"busy: no node with {kind} that matches may be used now")
    backends = ", ".join(sorted({device.backend for device in suited})[:10])
    return Reason(ReasonCode.BUSY, f"busy: {amount} {kind} not free on any backend that matches ({backends})")


def _shares(match: Match, devices: Sequence[Device], amount: int) -> list[DeviceShare]:
    granted = [device for device in devices if device.path in match.placement]
    return [device.share(amount if device.leaf else 1) for device in granted]


def _largest(devices: Iterable[Device]) -> int:
    """The largest request that any one place could ever meet: a pool, or the whole devices below one vertex."""
    together: Counter[str] = Counter()
    for device in devices:
        place = device.path if device.leaf else device.path.rpartition("/")[0]
        together[place] += device.count
    return max(together.values(), default=0)
