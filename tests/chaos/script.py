"""Make a script of disturbances from a seed; the same seed makes the same script on any machine.

What exists at each moment follows from the script's own steps and never from what really happened. So the outcome of
one step doesn't change the next.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.deeds import (
    BRIEF,
    GROUPED,
    LASTING,
    OURS,
    Create,
    Cut,
    Deed,
    Delete,
    Disturb,
    Edit,
    Form,
    Hit,
    How,
    Moment,
    NodeChange,
    Process,
    Ungroup,
    Wipe,
)

NODES = tuple(f"chaos-{number}" for number in range(6))
NODE_CORES = 8
POOLS = ("red", "blue")
DEVICES = 3
MOST_ALIVE = 12

WEIGHTS = {
    Process.EXTENDER: 10,
    Process.SCHEDULER: 6,
    Process.REPLICA: 4,
    Process.API_SERVER: 6,
    Process.ETCD: 2,
    Process.KUBELETS: 1,
    Process.MANAGER: 1,
    Process.OTHER_SCHEDULER: 1,
}
"""How often each process is hit, relative to the others."""


STRUCK = {Process.EXTENDER: 2, Process.SCHEDULER: 2, Process.REPLICA: 1}
"""The same for processes that are hit at a moment that is waited for."""


def pool_of(node: str) -> str:
    """Return the pool of a node that hasn't been moved to the other pool."""
    return POOLS[NODES.index(node) % len(POOLS)]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens, and the seconds to wait before it."""

    pause: float
    deed: Deed


@dataclass(frozen=True, slots=True)
class Round:
    """What happens between two quiet points."""

    number: int
    steps: tuple[Step, ...]


def script(seed: int, kills: int, replicas: int = 1) -> list[Round]:
    """Yield rounds of one to four disturbances, ``kills`` in all, while workloads come and go."""
    author = _Author(random.Random(seed), replicas)
    rounds: list[Round] = []
    while kills > 0:
        count = min(kills, author.rng.randint(1, 4))
        rounds.append(Round(len(rounds), tuple(author.round(count))))
        kills -= count
    return rounds


@dataclass(slots=True)
class _Author:
    rng: random.Random
    replicas: int
    alive: dict[str, Create] = field(default_factory=dict)
    created: int = 0

    def round(self, disturbances: int) -> list[Step]:
        doers: list[Callable[[], Deed]] = [self._user] * self.rng.randint(3, 8)
        for _ in range(disturbances):
            # Not before the first workload: a disturbance of nothing shows nothing.
            doers.insert(self.rng.randint(1, len(doers)), self._disturbance)
        return [Step(round(self._pause(), 2), doer()) for doer in doers]

    def _pause(self) -> float:
        """Return a pause, usually so short that the step before it is still under way."""
        return self.rng.choice((0.0, self.rng.uniform(0.0, 0.2), self.rng.uniform(0.2, 1.5)))

    def _user(self) -> Deed:
        if len(self.alive) >= MOST_ALIVE or (self.alive and self.rng.random() < 0.3):
            return self._delete()
        return self._create()

    def _create(self) -> Create:
        form = self.rng.choice((*OURS, Form.LABELLED, Form.FOREIGN))
        self.created += 1
        made = Create(
            f"w{self.created:03}",
            form,
            self.rng.randint(1, 2 if form is Form.QUANTUM else 12),
            self.rng.choice((500, 1000, 1000, 2000)),
            self.rng.choice((0, 0, 2, 8)),
            self.rng.choice((LASTING, LASTING, LASTING, BRIEF)),
            self.rng.choice(POOLS) if form is Form.POOL else "",
        )
        self.alive[made.name] = made
        return made

    def _delete(self) -> Delete:
        name = self.rng.choice(tuple(self.alive))
        one, force = self.rng.random() < 0.2, self.rng.random() < 0.5
        if not one:
            del self.alive[name]
        return Delete(name, one, force)

    def _disturbance(self) -> Deed:
        kinds = (self._hit, self._strike, self._cut, self._disturb, self._edit, self._wipe, self._ungroup)
        return self.rng.choices(kinds, (45, 12, 12, 22, 4, 3, 4))[0]()

    def _hit(self) -> Hit:
        process = self.rng.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]
        how = self.rng.choices(tuple(How), (5, 2, 3))[0]
        seconds = self.rng.choice((0.0, 1.0, 3.0, 8.0))
        return Hit(process, how, max(seconds, 1.0 if how is How.FREEZE else 0.0), self._replica(process))

    def _strike(self) -> Hit:
        process = self.rng.choices(tuple(STRUCK), tuple(STRUCK.values()))[0]
        how = self.rng.choice((How.KILL, How.KILL, How.FREEZE))
        moment = self.rng.choice((Moment.PASSED, Moment.PART))
        return Hit(process, how, self.rng.choice((1.0, 3.0, 20.0)), moment=moment)

    def _wipe(self) -> Wipe:
        for name in [one.name for one in self.alive.values() if one.namespace == BRIEF]:
            del self.alive[name]
        return Wipe()

    def _ungroup(self) -> Deed:
        names = [one.name for one in self.alive.values() if one.form in GROUPED]
        if not names:
            return self._disturb()
        return Ungroup(self.rng.choice(names), self.rng.choice((1.0, 6.0)))

    def _cut(self) -> Cut:
        process = self.rng.choice((Process.EXTENDER, Process.EXTENDER, Process.SCHEDULER, Process.REPLICA))
        return Cut(process, self.rng.choice((0.0, 0.0, 4.0, 10.0)), self._replica(process))

    def _replica(self, process: Process) -> int:
        ours = process in (Process.EXTENDER, Process.SCHEDULER, Process.REPLICA)
        return self.rng.randrange(self.replicas) if ours else 0

    def _disturb(self) -> Disturb:
        return Disturb(
            self.rng.choice(NODES), self.rng.choice(tuple(NodeChange)), self.rng.choice((1.0, 4.0, 8.0))
        )

    def _edit(self) -> Edit:
        return Edit(self.rng.randint(0, DEVICES), self.rng.random() < 0.4, self.rng.choice((1.0, 6.0)))
