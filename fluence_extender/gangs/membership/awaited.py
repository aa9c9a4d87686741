"""Which gangs wait for the end of a Job or of another gang, so that they are looked at when it comes."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from fluence_extender.model.dependency import Target
from fluence_extender.model.gang import GangKey
from fluence_extender.model.multimap import Multimap


@dataclass(slots=True)
class Awaited:
    """Jobs and gangs that others of their namespace wait for."""

    _waiting: Multimap[tuple[str, Target], GangKey] = field(default_factory=Multimap)
    _targets: dict[GangKey, tuple[Target, ...]] = field(default_factory=dict)

    def put(self, key: GangKey, targets: Iterable[Target]) -> None:
        """Record what a gang waits for now, in place of what it waited for before."""
        for target in self._targets.pop(key, ()):
            self._waiting.discard((key.namespace, target), key)
        once = tuple(dict.fromkeys(targets))
        if once:
            self._targets[key] = once
        for target in once:
            self._waiting.add((key.namespace, target), key)

    def by(self, namespace: str, target: Target) -> Set[GangKey]:
        """Return the gangs that wait for a Job or a gang."""
        return self._waiting.of((namespace, target))
