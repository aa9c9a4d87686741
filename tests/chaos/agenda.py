"""Work that has to be done at a later time, by one thread, and again if it fails.

Invariant: nothing is forgotten. Work that fails is tried again until `mend` has waited long enough. Once no other work
is left, processes that ended by themselves are started again, as a kubelet would do.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.story import Story
from tests.localcluster import LocalClusterError

AGAIN = 0.5
PATIENCE = 180.0


class NotMended(Exception):
    """A disturbance could not be undone, so the stage is broken, and nothing is known of the service."""


@dataclass(order=True, slots=True)
class _Entry:
    due: float
    number: int
    target: str = field(compare=False)
    told: str = field(compare=False)
    work: Callable[[], object] = field(compare=False)
    trouble: str = field(compare=False, default="")


@dataclass(slots=True)
class Agenda:
    """Work for later; each piece concerns a ``target``.

    ``revive`` starts the processes again that don't run.
    """

    story: Story
    revive: Callable[[], object]
    _entries: list[_Entry] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def later(self, seconds: float, target: str, told: str, work: Callable[[], object]) -> None:
        """Do ``work`` in so many seconds, and add ``told`` to the story when it is done."""
        self._entries.append(_Entry(time.monotonic() + seconds, next(self._numbers), target, told, work))

    def let_pass(self, seconds: float) -> None:
        """Let time pass, and do the work that becomes due."""
        until = time.monotonic() + seconds
        while True:
            self._do_due()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.05))

    def await_free(self, target: str) -> None:
        """Wait until no work for ``target`` is left. Raise `NotMended`."""
        self._await(lambda entry: entry.target == target)

    def mend(self) -> None:
        """Wait until no work is left. Raise `NotMended`."""
        self._await(lambda entry: True)

    def _await(self, concerns: Callable[[_Entry], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while left := [entry for entry in self._entries if concerns(entry)]:
            if time.monotonic() > deadline:
                raise NotMended(f"after {PATIENCE:g} s: {[(one.told, one.trouble) for one in left]}")
            if all(entry.trouble for entry in self._entries):
                self.revive()
            self.let_pass(0.05)

    def _do_due(self) -> None:
        now = time.monotonic()
        for entry in sorted(one for one in self._entries if one.due <= now):
            try:
                entry.work()
            except LocalClusterError as error:
                entry.due, entry.trouble = time.monotonic() + AGAIN, str(error)[:200]
            else:
                self._entries.remove(entry)
                self.story.tell(f"  {entry.told}")
