"""Which gangs wait for the end of a Job or of another gang, so that they are looked at when it comes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from fluence_extender.model.dependency import Ending, Target
from fluence_extender.model.gang import GangKey
from fluence_extender.model.multimap import Multimap


@dataclass(slots=True)
class Awaited:
    """Jobs and gangs that others of their namespace wait for.

    ``outcomes`` says for gangs that are waited for how they had ended when they were last looked at. ``to_follow`` are
    the gangs whose chains of dependencies may have become circles, or whose circles may have opened.
    """

    outcomes: dict[tuple[str, Target], Ending | None] = field(default_factory=dict)
    to_follow: set[GangKey] = field(default_factory=set)
    _waiting: Multimap[tuple[str, Target], GangKey] = field(default_factory=Multimap)
    _targets: dict[GangKey, tuple[Target, ...]] = field(default_factory=dict)

    def put(self, key: GangKey, targets: Iterable[Target]) -> bool:
        """Record what a gang waits for, in place of what it waited for before; return whether that differs."""
        before, after = self._targets.get(key, ()), tuple(dict.fromkeys(targets))
        if before == after:
            return False
        for target in before:
            self._waiting.discard((key.namespace, target), key)
            if (key.namespace, target) not in self._waiting:
                self.outcomes.pop((key.namespace, target), None)
        if after:
            self._targets[key] = after
        else:
            del self._targets[key]
        for target in after:
            self._waiting.add((key.namespace, target), key)
        return True

    def by(self, namespace: str, target: Target) -> Set[GangKey]:
        """Return the gangs that wait for a Job or a gang."""
        return self._waiting.of((namespace, target))

    def targets(self, key: GangKey) -> Sequence[Target]:
        """Return what a gang waits for."""
        return self._targets.get(key, ())
