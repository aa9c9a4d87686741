"""Bound pods that are being deleted: their room comes free by itself, and is reckoned with for a while."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from itertools import takewhile

from fluence_extender.gangs.lifecycle.agenda import NEVER


class Leaving:
    """Pods by uid, each since when. ``held`` are the uids of pods that hold something, ``patience`` in seconds."""

    def __init__(self, held: Container[str], patience: float, clock: Callable[[], float]) -> None:
        self._held = held
        self._patience = patience
        self._clock = clock
        self._since: dict[str, float] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._since

    def note(self, uid: str) -> None:
        """A bound pod is being deleted."""
        self._since.setdefault(uid, self._clock())

    def counts(self, uid: str, now: float, patient: bool) -> bool:
        """Whether the room of a pod that leaves is reckoned with; ``patient``: however long it takes."""
        return patient or self._since[uid] > now - self._patience

    def still(self) -> Collection[str]:
        """The pods that leave. Who has gone is forgotten."""
        self._since = {uid: since for uid, since in self._since.items() if uid in self._held}
        return self._since.keys()

    def late(self, now: float) -> list[str]:
        """The pods that take too long."""
        # They are in the order in which they began to leave.
        last = now - self._patience
        return [uid for uid, _ in takewhile(lambda one: one[1] <= last, self._since.items())]

    def next_late(self, uids: Iterable[str], now: float) -> float:
        """When the first of ``uids`` will take too long."""
        ends = (self._since[uid] + self._patience for uid in uids if uid in self._since)
        return min((end for end in ends if end > now), default=NEVER)
