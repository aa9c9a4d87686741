"""Virtual devices as rows of the timeline, in the column `DEVICES`.

A device has as many units as the pools below it, or one if there are no pools below it. A pod that takes units of a
pool takes as many units of each device above the pool. A pod that takes a whole device takes all units of it and of
every device below. So a device with parts is entirely free exactly if its row has all its units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from fluence_extender.graph.catalogue import Device, DeviceCatalogue
from fluence_extender.graph.containment import paths_above
from fluence_extender.model.assignment import DeviceShare
from fluence_extender.queueing.entry import Amounts

ABSENT, EXCLUSIVE, DEVICES = range(3)
"""The first columns: resources that no node has, the right to use a node alone, and units of devices."""

FIRST_RESOURCE = 3
"""The column of the first resource."""


class DeviceRows:
    """The rows of the devices of a catalogue, from ``first`` on."""

    def __init__(self, catalogue: DeviceCatalogue, first: int) -> None:
        self.catalogue = catalogue
        self._devices = catalogue.devices
        self._rows = {device.path: first + number for number, device in enumerate(self._devices)}
        self._above = {
            device.path: [path for path in paths_above(device.path) if path in self._rows]
            for device in self._devices
        }
        self._below: dict[str, list[str]] = {device.path: [] for device in self._devices}
        for path, above in self._above.items():
            for one in above:
                self._below[one].append(path)
        self.units = {device.path: self._count(device) for device in self._devices}

    def __len__(self) -> int:
        return len(self._devices)

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yield the row of each device and how many units it has."""
        return ((row, self.units[path]) for path, row in self._rows.items())

    def taken(self, shares: Iterable[DeviceShare]) -> dict[int, int]:
        """Return how many units these shares take of each row."""
        found: Counter[int] = Counter()
        for share in shares:
            device = self.catalogue.at(share.path)
            if device is None or device.path not in self._rows:
                continue
            units = share.amount if device.leaf else self.units[device.path]
            for path in (device.path, *self._above[device.path]):
                found[self._rows[path]] += units
            for path in self._below[device.path]:
                found[self._rows[path]] += self.units[path]
        return dict(found)

    def used(self, free: Amounts) -> list[DeviceShare]:
        """Return the shares that are in use if ``free`` is what a timeline has free."""
        found = []
        for device in self._devices:
            units = self.units[device.path]
            used = min(units - int(free[self._rows[device.path], DEVICES]), units)
            if used > 0 and not self._below[device.path]:
                found.append(device.share(used if device.leaf else 1))
        return found

    def _count(self, device: Device) -> int:
        if device.leaf:
            return device.count
        return (
            sum(one.count for one in self._devices if one.leaf and one.path in self._below[device.path]) or 1
        )
