"""What devices have to do with why a gang waits: the nodes that they tie pods to, and how many members they serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fluence_extender.graph.catalogue import Device, DeviceCatalogue, eligible
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, busy, unsatisfiable
from fluence_extender.placement.device_search import DeviceUse
from fluence_extender.placement.eligibility import refusal
from fluence_extender.placement.ledger_port import LedgerPort

MOST_BACKENDS = 10
"""So many backends are named."""


def tied_to(catalogue: DeviceCatalogue, pod: Pod) -> frozenset[str] | None:
    """The nodes that have the devices a pod asks for; None where they leave it free to go anywhere."""
    tied: frozenset[str] | None = None
    for kind, amount in pod.devices.items():
        devices = eligible(catalogue, kind, pod.requires)
        if not devices or not all(device.node for device in devices):
            continue
        nodes = frozenset(
            node
            for node in {device.node for device in devices}
            if served([device for device in devices if device.node == node], amount)
        )
        tied = nodes if tied is None else tied & nodes
    return tied


def refusals_among(nodes: Sequence[Node], pod: Pod) -> dict[str, int]:
    """Why some of ``nodes`` are out of the question for a pod, with the number of nodes, the most frequent first."""
    counts = Counter(why for node in nodes if (why := refusal(pod, node)) is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def served(devices: Sequence[Device], amount: int, use: DeviceUse | None = None) -> int:
    """How many pods get ``amount`` of ``devices`` each, all from one place; without a ``use`` when all are free."""
    whole: Counter[str] = Counter()
    pods = 0
    for device in devices:
        free = use.free(device) if use is not None else device.count
        if device.leaf:
            pods += max(free, 0) // amount
        else:
            whole[device.path.rpartition("/")[0]] += free
    return pods + sum(free // amount for free in whole.values())


def too_few(pods: Sequence[Pod], fitting: int, catalogue: DeviceCatalogue, use: DeviceUse) -> Reason | None:
    """Why a gang of ``pods`` waits for devices, where all that ask for any ask for the same of one kind; else None.

    ``fitting`` is how many would fit now, if it weren't for devices.
    """
    askers = [pod for pod in pods if pod.devices]
    alike = {(tuple(pod.devices.items()), tuple(sorted(pod.requires.items()))) for pod in askers}
    if len(pods) < 2 or len(alike) != 1 or len(askers[0].devices) != 1:
        return None
    ((kind, amount),) = askers[0].devices.items()
    devices = eligible(catalogue, kind, askers[0].requires)
    names = ", ".join(sorted({device.backend for device in devices})[:MOST_BACKENDS])
    which = f"short of {kind} (backends that match: {names})"
    ever, now = (len(pods) - len(askers) + served(devices, amount, one) for one in (None, use))
    if ever < len(pods):
        return unsatisfiable(f"{ever} of {len(pods)} members would fit if nothing else ran, {which}")
    if now < len(pods):
        return Reason(ReasonCode.BUSY, f"{busy(min(now, fitting), len(pods), ()).text}, {which}")
    return None


def devices_in_use(ledger: LedgerPort) -> DeviceUse:
    """How much of each device the pods hold that are in the ledger."""
    held = [share for one in ledger.allocations.values() for share in one.assignment.devices]
    return DeviceUse(ledger.graph.catalogue, held)
